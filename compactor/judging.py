"""What a send is judged by: the fixed part counted, the budget, and the verdict's figures."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from compactor.budget import Budget, budget_for
from compactor.claims import Claim
from compactor.commands.prepare import Judgement
from compactor.correction import Correction, first_correction, model_key
from compactor.exceptions import ConfigurationError
from compactor.model_config import ModelConfig
from compactor.models import Fit, Verdict
from compactor.system_template import SystemTemplate, variable_tokens
from compactor.tokens import PER_REQUEST, Encode, count_json, count_messages, json_text


@dataclass(frozen=True, slots=True)
class Request:
    """What a caller sends beside the history.

    `lead` are the system messages that open its own list, `variables` fill the places of the system
    text, `extra` are messages that follow the history in this one send; with `keep_rows` none may be missing.
    """

    tools: Any = None
    system: str | None = None
    response_format: Any = None
    max_output_tokens: int | None = None
    lead: tuple[Mapping[str, Any], ...] = ()
    variables: Mapping[str, Any] | None = None
    extra: tuple[Mapping[str, Any], ...] = ()
    keep_rows: bool = False

    def __post_init__(self) -> None:
        if self.system is not None and not isinstance(self.system, str):
            raise ConfigurationError(f"system: expected the system text as str, found {type(self.system).__name__}.")
        if self.keep_rows not in (True, False):
            raise ConfigurationError("keep_rows: expected True or False.")
        output = self.max_output_tokens
        if output is not None and (not isinstance(output, int) or isinstance(output, bool) or output <= 0):
            raise ConfigurationError("max_output_tokens: expected a positive whole number of tokens, for example 4096.")
        if self.variables is not None and self.system is None:
            raise ConfigurationError("variables: fill the places of a system text; pass it as system=.")
        _ = self.template

    @property
    def template(self) -> SystemTemplate:
        """The system text and its variables; without one an empty text. Raises ConfigurationError."""
        return SystemTemplate(self.system or "", self.variables)

    @property
    def filled(self) -> str | None:
        """The system text with its variables filled in."""
        return None if self.system is None else self.template.filled

    @property
    def opening(self) -> tuple[Mapping[str, Any], ...]:
        """The messages in front of the history; a list that came back begins with the system text already."""
        filled = self.filled
        if filled is None:
            return self.lead
        given = {"role": "system", "content": filled}
        return self.lead if given in self.lead else (given, *self.lead)


@dataclass(frozen=True, slots=True)
class Fixed:
    """Tokens of what stands beside the history.

    `system` includes the request's own 3, and the `variables`: what they count beyond empty places.
    """

    system: int
    tools: int
    variables: int = 0
    extra: int = 0

    @property
    def total(self) -> int:
        return self.system + self.tools + self.extra


def count_fixed(request: Request, encode: Encode) -> Fixed:
    """Counts system text, tools, response format and what follows the history."""
    return Fixed(
        system=PER_REQUEST + count_messages(request.opening, encode),
        tools=count_json(request.tools, encode) + count_json(request.response_format, encode),
        variables=variable_tokens(request.template, encode),
        extra=count_messages(request.extra, encode),
    )


def request_key(request: Request, encoding: str) -> tuple[str, ...]:
    """What the count of a request's fixed part depends on."""
    tools = "" if request.tools is None else json_text(request.tools)
    form = "" if request.response_format is None else json_text(request.response_format)
    opening = "" if not request.lead else json_text(list(request.opening))
    variables = "" if request.variables is None else json_text(request.template.values)
    extra = "" if not request.extra else json_text(list(request.extra))
    return encoding, "" if request.system is None else f"={request.system}", tools, form, opening, variables, extra


def judge(
    config: ModelConfig, request: Request, fixed: Fixed, encoding: str, prior: float = 1.0, shadow: str = "off"
) -> Judgement:
    """The budget of a send (without the history's own system messages), and the JSON the session keeps of it."""
    budget = budget_for(config, fixed=fixed.total, max_output_tokens=request.max_output_tokens)
    kept: dict[str, Any] = {
        "model": config.model,
        "encoding": encoding,
        "limit": budget.limit,
        "strategy": config.context_strategy,
        "threshold": budget.threshold,
        "ceiling": budget.ceiling,
        "fixed": budget.fixed,
        "prior": prior,
        **({"shadow": shadow} if shadow != "off" else {}),
        **({"keep_rows": True} if request.keep_rows else {}),
    }
    for name in ("min_reclaim", "cache_ttl", "prefer_idle"):
        value = getattr(config, name)
        if value is not None and value is not False:
            kept[name] = value
    if config.rules:
        kept["rules"] = [rule.as_json() for rule in config.tool_rules]
    written = json.dumps(kept, separators=(",", ":")).encode()
    ttl_ms = int(1000 * (config.cache_ttl or 0))
    return Judgement(budget, encoding, written, model_key(config.model), first_correction(prior), ttl_ms)


def beginning_at(judgement: Judgement, head: int) -> Judgement:
    """The judgement of a send whose list begins at position `head`: what stands before is not the worker's to count."""
    kept = {**json.loads(judgement.json), "head": head}
    return replace(judgement, json=json.dumps(kept, separators=(",", ":")).encode())


def kept_judgement(data: bytes) -> Judgement | None:
    """The judgement that a session's last prepare left, or None."""
    try:
        kept: Mapping[str, Any] = json.loads(data)
        budget = Budget(kept["limit"], kept["threshold"], kept["ceiling"], kept["fixed"])
        first = first_correction(float(kept.get("prior", 1.0)))
        return Judgement(budget, str(kept["encoding"]), data, model_key(str(kept["model"])), first)
    except (ValueError, KeyError, TypeError):  # none yet, or damaged from outside
        return None


def verdict(
    budget: Budget,
    fixed: Fixed,
    *,
    history: int,
    lead_tokens: int,
    length: int,
    compaction: str,
    correction: Correction,
    fit: Fit = Fit.FITS,
    sent: int | None = None,
    stable_until: int = 0,
    recounted: bool = False,
    problems: tuple[str, ...] = (),
) -> Verdict:
    """The figures of one send; `history` counts the stored messages, leading system ones included."""
    total = fixed.total + history
    budget = correction.lowered(budget)
    return Verdict(
        system=fixed.system + lead_tokens,
        history=history - lead_tokens,
        tools=fixed.tools,
        total=total,
        expected=correction.expected(total),
        limit=budget.limit,
        threshold=budget.threshold,
        ceiling=budget.ceiling,
        length=length,
        compaction=compaction,
        fit=fit,
        sent=total if sent is None else sent,
        stable_until=stable_until,
        recounted=recounted,
        problems=problems,
        variables=fixed.variables,
        extra=fixed.extra,
        counted_by=correction.by,
    )


def compaction_word(claim: str, held: str, *, over: bool) -> str:
    """`not_needed`, `due`, `queued`, `running` or `held(reason)`."""
    if claim in (Claim.QUEUED, Claim.RUNNING):
        return claim
    if not over:
        return "not_needed"
    return f"held({held})" if held else "due"
