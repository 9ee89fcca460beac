"""The list to send: one system message, then the newest history that fits beside tools and answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from compactor.budget import budget_for
from compactor.context import log
from compactor.context.counted_list import CountedList
from compactor.context.counts import encoder_for, price_tools, read_counted, reason_of
from compactor.context.limits import read_llm_config
from compactor.context.log import Figures
from compactor.context.tool_schemas import listed
from compactor.context.topology import TOPOLOGY, with_topology
from compactor.context.trimming import newest, trim
from compactor.exceptions import ConfigurationError
from compactor.formats.openai import SYSTEM_ROLES
from compactor.model_config import LARGEST, K, ModelConfig
from compactor.models import Fit
from compactor.system_template import variable_tokens
from compactor.tokens import PER_REQUEST


@dataclass(frozen=True, slots=True)
class PreparedContext:
    """A list to send and what it counts; `budget` is what may be sent, tools included.

    `fit` is `impossible` when even the smallest valid list, which this is, exceeds the limit itself.
    """

    messages: list[Any]
    figures: Figures
    budget: int
    fit: Fit

    @property
    def output(self) -> int:
        """Tokens left for the answer, never negative."""
        return max(0, self.figures.limit - max(self.budget, self.figures.total))


def prepare_context_messages(
    state_messages: Any,
    system_prompt: str,
    topology_context: Any,
    model_name: str,
    llm_config: Any,
    tools: Any = None,
    *,
    system_variables: Mapping[str, Any] | None = None,
    strategy: str | None = None,
) -> list[Any]:
    """The list to send: one system message, then the newest history that fits; see `prepare_context`."""
    return prepare_context(
        state_messages, system_prompt, topology_context, model_name, llm_config, tools,
        system_variables=system_variables, strategy=strategy,
    ).messages  # fmt: skip


def prepare_context(
    state_messages: Any,
    system_prompt: str,
    topology_context: Any,
    model_name: str,
    llm_config: Any,
    tools: Any = None,
    *,
    system_variables: Mapping[str, Any] | None = None,
    strategy: str | None = None,
) -> PreparedContext:
    """The list to send, with its figures, which are also logged.

    `topology_context` fills `{{topology_info}}` in the system prompt, or stands behind it when it has no
    such place; `system_variables` fill other places. Filled text is never expanded again. Raises
    ConfigurationError (a ValueError), InvalidMessageError, TokenizerMissingError.
    """
    config = read_llm_config(model_name, llm_config, strategy)
    template = with_topology(system_prompt, topology_context, system_variables)
    encode = encoder_for(config.model, config.encoding)
    tool_tokens = price_tools(tools, encode) if listed(tools) else 0
    log.limit_used(config.limit, config.model).emit()
    counted = read_counted(state_messages, encode, template.filled)
    kept = _fitted(counted, config, tool_tokens)
    figures = Figures(
        model=config.model,
        limit=config.limit,
        strategy=config.context_strategy,
        system=PER_REQUEST + kept.lead,
        variables=variable_tokens(template, encode),
        history=kept.total - kept.lead,
        tools=tool_tokens,
        names=frozenset(template.variables or (TOPOLOGY,)),
    )
    shortened = len(kept.given) < len(counted.given)
    fit = Fit.IMPOSSIBLE if figures.total > config.limit else Fit.SHORTENED if shortened else Fit.FITS
    prepared = PreparedContext(kept.given, figures, budget_for(config, fixed=0).threshold, fit)
    log.context_prepared(figures).emit()
    log.output_available(prepared.output).emit()
    if fit is Fit.IMPOSSIBLE:
        log.context_impossible(figures.total, config.limit).emit()
    return prepared


def trim_messages_for_context(
    messages: Any, model_name: str, strategy: str | None = None, tool_tokens: int = 0, llm_config: Any = None
) -> list[Any]:
    """The messages that fit the input budget beside the tools, system messages always among them.

    Whole steps leave, the oldest first; the latest user message never does. `strategy` goes before
    the configuration's. Raises ConfigurationError (a ValueError), InvalidMessageError,
    TokenizerMissingError.
    """
    config = read_llm_config(model_name, llm_config, strategy)
    if not isinstance(tool_tokens, int) or isinstance(tool_tokens, bool) or not 0 <= tool_tokens <= LARGEST * K:
        raise ConfigurationError("tool_tokens: expected a whole number of tokens, 0 without tools.")
    counted = read_counted(messages, encoder_for(config.model, config.encoding))
    return _fitted(counted, config, tool_tokens).given


def _fitted(counted: CountedList, config: ModelConfig, tool_tokens: int) -> CountedList:
    """The messages that fit beside the tools; says what was left out, and what cannot be."""
    budget = budget_for(config, fixed=0)
    beside = tool_tokens + PER_REQUEST
    room = budget.threshold - beside
    kept = counted.only(_kept(counted, room=room, most=budget.ceiling - beside))
    if len(kept.given) < len(counted.given):
        log.trimming(counted.total, kept.total, config.model).emit()
        log.trimmed(len(counted.given), len(kept.given)).emit()
        if [role for chat in kept.chats if (role := chat.get("role")) not in SYSTEM_ROLES] == ["user"]:
            log.history_trimmed_away(max(0, room - kept.lead)).emit()
    if tool_tokens > budget.threshold:
        log.tools_over_budget(tool_tokens, budget.threshold).emit()
    elif kept.lead > room:
        log.system_over_budget(kept.lead, max(0, room)).emit()
    return kept


def _kept(counted: CountedList, *, room: int, most: int) -> list[int]:
    try:
        return trim(counted.chats, counted.tokens, room=room, most=most)
    except Exception as error:  # noqa: BLE001 # why: a bot's send must not fail on a fault of ours; the fault is logged
        log.trimming_failed(reason_of(error)).emit()
        return newest(counted.chats)
