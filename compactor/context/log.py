"""The log lines of context preparation: what each says, and the same as fields.

Lines go to the logger `compactor.context`, which a host silences or routes like any other. Each record
carries its figures as `record.compactor`, a flat dict: `event` (the name of the function that makes the line)
and the arguments by name. Figures, model names and encodings only: never text of a conversation.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any, Final

from compactor.context.topology import TOPOLOGY

LOGGER: Final = logging.getLogger("compactor.context")
_K: Final = 1_000
_TOPOLOGY: Final = frozenset({TOPOLOGY})


@dataclass(frozen=True, slots=True)
class Line:
    """One log line: its text, its figures, its level."""

    text: str
    fields: dict[str, Any]
    level: int = logging.INFO

    def emit(self, logger: logging.Logger = LOGGER) -> None:
        """Hands the line to the logger."""
        if logger.isEnabledFor(self.level):
            logger.log(self.level, "%s", self.text, extra={"compactor": self.fields})


@dataclass(frozen=True, slots=True)
class Figures:
    """What a send consists of, in tokens; `variables` are part of `system`.

    `names` are the variables that were filled in; the line says `topology=` when the only one is
    `topology_info`, else `variables=`.
    """

    model: str
    limit: int
    strategy: str
    system: int
    variables: int
    history: int
    tools: int
    names: frozenset[str] = _TOPOLOGY

    @property
    def base(self) -> int:
        """The system text without what was filled in."""
        return self.system - self.variables

    @property
    def total(self) -> int:
        return self.system + self.history + self.tools

    @property
    def percent(self) -> float:
        """The total in percent of the limit, one decimal."""
        return round(100 * self.total / self.limit, 1)


def k_label(tokens: int) -> str:
    """A window as people name it: 128000 is `128K`, 16385 is `16.4K`."""
    return f"{tokens / _K:.1f}".removesuffix(".0") + "K"


def one_line(name: str) -> str:
    """A name from outside, without line ends and other control characters that a log would obey."""
    return "".join(character if character.isprintable() else "\ufffd" for character in name[:200])


def using_encoding(encoding: str) -> Line:
    """Said once for each encoding of a process."""
    return Line(
        f"Using tiktoken ({encoding}) for accurate token counting", {"event": "using_encoding", "encoding": encoding}
    )


def tools_estimated(tokens: int, count: int) -> Line:
    """What the definitions of `count` tools cost."""
    return Line(
        f"Tool definitions estimated at ~{tokens} total tokens ({count} tools)",
        {"event": "tools_estimated", "tools": tokens, "count": count},
    )


def limit_used(limit: int, model: str) -> Line:
    """The window (tokens) that the configuration names."""
    return Line(
        f"Using database config context limit: {limit} tokens for model '{one_line(model)}'",
        {"event": "limit_used", "limit": limit, "model": model},
    )


def trimming(before: int, after: int, model: str) -> Line:
    """Tokens of the messages before and after."""
    return Line(
        f"Trimming messages: {before} → {after} tokens (model: {one_line(model)})",
        {"event": "trimming", "before": before, "after": after, "model": model},
    )


def trimmed(before: int, after: int) -> Line:
    """Messages before and after."""
    return Line(f"Trimmed {before} → {after} messages", {"event": "trimmed", "before": before, "after": after})


def context_prepared(figures: Figures) -> Line:
    """How full the window is, part by part."""
    label = "topology" if figures.names == _TOPOLOGY else "variables"
    return Line(
        f"Context prepared: system={figures.system} (base={figures.base} + {label}={figures.variables}) + "
        f"history={figures.history} + tools={figures.tools} = {figures.total} total / "
        f"{k_label(figures.limit)} limit ({figures.percent:.1f}%), strategy={figures.strategy}",
        {
            "event": "context_prepared",
            "model": figures.model,
            "limit": figures.limit,
            "strategy": figures.strategy,
            "system": figures.system,
            "base": figures.base,
            "variables": figures.variables,
            "history": figures.history,
            "tools": figures.tools,
            "total": figures.total,
            "percent": figures.percent,
        },
    )


def bill_expected(tokens: int, limit: int, counted_by: str) -> Line:
    """What the provider is expected to count, where that is not what we count; `counted_by` as in a Verdict."""
    percent = round(100 * tokens / limit, 1)
    return Line(
        f"The provider is expected to count ~{tokens} tokens ({percent:.1f}% of the limit), by {counted_by}",
        {"event": "bill_expected", "expected": tokens, "percent": percent, "counted_by": counted_by},
    )


def output_available(tokens: int) -> Line:
    """What is left of the window for the answer."""
    return Line(f"Available for output: ~{tokens} tokens", {"event": "output_available", "output": tokens})


def tools_over_budget(tools: int, budget: int) -> Line:
    """The tools alone are more than what may be sent."""
    return Line(
        f"Tool definitions (~{tools} tokens) exceed the input budget of {budget} tokens: "
        "increase context_limit or reduce the number of tools",
        {"event": "tools_over_budget", "tools": tools, "budget": budget},
        logging.WARNING,
    )


def system_over_budget(system: int, available: int) -> Line:
    """The system text, variables included, is more than what is left beside the tools; it is kept whole."""
    return Line(
        f"System message ({system} tokens, variables included) exceeds the {available} tokens available for messages; "
        "it is kept whole: shorten the system prompt or what is filled into it",
        {"event": "system_over_budget", "system": system, "available": available},
        logging.WARNING,
    )


def history_trimmed_away(available: int) -> Line:
    """Of all the history the latest user message alone stays."""
    return Line(
        f"All history trimmed: {available} tokens were available for it; the latest user message is kept",
        {"event": "history_trimmed_away", "available": available},
        logging.WARNING,
    )


def context_impossible(total: int, limit: int) -> Line:
    """The smallest valid list exceeds the window itself."""
    return Line(
        f"Context cannot fit: {total} tokens must be sent, the limit is {limit} tokens ({k_label(limit)})",
        {"event": "context_impossible", "total": total, "limit": limit},
        logging.WARNING,
    )


def tools_unreadable(kinds: tuple[str, ...], price: int) -> Line:
    """Tools whose schema could not be read, by type, and what each is counted as."""
    return Line(
        f"Tool schema of {', '.join(map(one_line, kinds))} could not be read; counted as {price} tokens each",
        {"event": "tools_unreadable", "kinds": kinds, "price": price},
        logging.WARNING,
    )


def limit_refused(reason: str, model: str) -> Line:
    """A configuration without a usable window."""
    return Line(reason, {"event": "limit_refused", "model": model}, logging.ERROR)


def encoder_missing(reason: str) -> Line:
    """Nothing can be counted."""
    return Line(f"tiktoken not available: {reason}", {"event": "encoder_missing"}, logging.ERROR)


def counting_failed(reason: str) -> Line:
    """A list could not be counted; the error is raised."""
    return Line(f"Failed to count tokens: {reason}", {"event": "counting_failed", "reason": reason}, logging.ERROR)


def trimming_failed(reason: str) -> Line:
    """A list could not be trimmed; the newest messages are sent instead."""
    return Line(f"Failed to trim: {reason}", {"event": "trimming_failed", "reason": reason}, logging.ERROR)
