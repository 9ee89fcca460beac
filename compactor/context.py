"""The functions of a context manager for frameworks that keep their own list, LangChain's among them.

`prepare_context_messages` takes the place of building the list by hand: system text with its
variables, the newest history that fits, room for the tools and the answer. Without Redis or a
worker: what does not fit leaves the list. Messages are dicts, SDK objects or LangChain messages; those
kept are the same objects. All figures are tokens, limits in a configuration are K tokens.

`llm_config` is a ModelConfig, or a mapping that may hold anything beside `context_limit` (K tokens),
`context_strategy`, `context_limit_tokens`, `max_output_tokens` and `encoding`; LangBot's
`context-window-tokens` and `context-reserve-tokens` (tokens) are read where ours are missing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from compactor import context_log
from compactor.budget import budget_for
from compactor.context_log import Figures
from compactor.counted_list import CountedList, count_list
from compactor.encodings import encoder, encoding_name
from compactor.exceptions import CompactorError, ConfigurationError
from compactor.formats.openai import SYSTEM_ROLES
from compactor.json_values import is_object
from compactor.langbot import RESERVE, WINDOW, from_langbot
from compactor.model_config import ModelConfig
from compactor.models import Fit
from compactor.records import ENCODINGS
from compactor.tokens import PER_REQUEST, Encode
from compactor.tool_schemas import UNREADABLE_TOOL, count_tools, listed
from compactor.topology import TOPOLOGY, variable_tokens, with_topology
from compactor.trimming import newest, trim

DEFAULT_ENCODING: Final = "cl100k_base"  # of counts that name no model
_announced: set[str] = set()  # what was said once: encodings in use, kinds of tools that could not be read


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


def get_model_context_limit(model_name: str, llm_config: Any) -> int:
    """The model's window in tokens, from its configuration; none is ever guessed.

    Raises ConfigurationError (a ValueError), after logging it, when it is missing or no limit.
    """
    limit = _config(model_name, llm_config).limit
    context_log.limit_used(limit, model_name).emit()
    return limit


def calculate_max_tokens(model_limit: int, strategy: str = "balanced") -> int:
    """The input budget in tokens: 60, 75 or 85 % of the window; the rest is the answer's.

    Raises ConfigurationError.
    """
    return budget_for(ModelConfig("any", None, strategy, context_limit_tokens=model_limit), fixed=0).threshold


def estimate_tool_tokens(tools: Any, model_name: str | None = None, *, encoding: str | None = None) -> int:
    """Tokens of tool definitions as the JSON that is sent; an unreadable one costs UNREADABLE_TOOL.

    Takes OpenAI schemas, pydantic models, tools with `args_schema`, callables. Counted in cl100k_base
    unless a model or an encoding is named. Raises ConfigurationError, TokenizerMissingError.
    """
    if not listed(tools):
        return 0
    return _tool_tokens(tools, _encoder(model_name, encoding))


def count_messages_tokens(messages: Any, model_name: str | None = None, *, encoding: str | None = None) -> int:
    """Tokens of messages, each with its 4 of framing; cl100k_base unless a model or an encoding is named.

    Raises InvalidMessageError, ConfigurationError, TokenizerMissingError, after logging.
    """
    return _counted(messages, _encoder(model_name, encoding)).total


def trim_messages_for_context(
    messages: Any, model_name: str, strategy: str | None = None, tool_tokens: int = 0, llm_config: Any = None
) -> list[Any]:
    """The messages that fit the input budget beside the tools, system messages always among them.

    Whole steps leave, the oldest first; the latest user message never does. `strategy` goes before
    the configuration's. Raises ConfigurationError (a ValueError), InvalidMessageError,
    TokenizerMissingError.
    """
    config = _config(model_name, llm_config, strategy)
    if not isinstance(tool_tokens, int) or isinstance(tool_tokens, bool) or tool_tokens < 0:
        raise ConfigurationError("tool_tokens: expected a whole number of tokens, 0 without tools.")
    counted = _counted(messages, _encoder(config.model, config.encoding))
    return _fitted(counted, config, tool_tokens).given


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
    config = _config(model_name, llm_config, strategy)
    template = with_topology(system_prompt, topology_context, system_variables)
    encode = _encoder(config.model, config.encoding)
    tool_tokens = _tool_tokens(tools, encode) if listed(tools) else 0
    context_log.limit_used(config.limit, config.model).emit()
    counted = _counted(state_messages, encode, template.filled)
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
    context_log.context_prepared(figures).emit()
    context_log.output_available(prepared.output).emit()
    if fit is Fit.IMPOSSIBLE:
        context_log.context_impossible(figures.total, config.limit).emit()
    return prepared


def _config(model_name: str, llm_config: Any, strategy: str | None = None) -> ModelConfig:
    try:
        if isinstance(llm_config, ModelConfig):
            return llm_config if strategy is None else replace(llm_config, context_strategy=strategy)
        if llm_config is not None and not is_object(llm_config):
            raise ConfigurationError(
                f"llm_config: expected a mapping such as {{'context_limit': 128}}, found {type(llm_config).__name__}."
            )
        given = _with_ours(llm_config or {}, model_name)
        if given.get("context_limit") is None and given.get("context_limit_tokens") is None:
            raise ConfigurationError(_MISSING.format(model=context_log.one_line(str(model_name))))
        return ModelConfig(
            model_name,
            given.get("context_limit"),
            next(word for word in (strategy, given.get("context_strategy"), "balanced") if word is not None),
            context_limit_tokens=given.get("context_limit_tokens"),
            encoding=given.get("encoding"),
            max_output_tokens=given.get("max_output_tokens"),
        )
    except ConfigurationError as error:
        context_log.limit_refused(str(error), str(model_name)).emit()
        raise


def _with_ours(given: Mapping[str, Any], model_name: str) -> Mapping[str, Any]:
    """The configuration, its window and reserve also where LangBot's names hold them; ours go before."""
    ours = (given.get("context_limit"), given.get("context_limit_tokens"))
    if given.get(WINDOW) is None or ours != (None, None):
        return given
    read = from_langbot({name: given.get(name) for name in (WINDOW, RESERVE)}, model_name).config
    return {"max_output_tokens": read.max_output_tokens, **given, "context_limit_tokens": read.context_limit_tokens}


_MISSING: Final = (
    "context_limit is required but not provided for model '{model}'.\n"
    "Please configure context_limit in your LLM model configuration.\n"
    "Refer to the model provider's documentation for the current context window size.\n"
    "Unit: K tokens, for example 128 = 128K = 128,000 tokens."
)


def _encoder(model_name: str | None, encoding: str | None) -> Encode:
    """The encoder of a model; says once which one is in use."""
    if encoding is not None and encoding not in ENCODINGS:
        raise ConfigurationError(f"encoding: expected one of {', '.join(ENCODINGS)}, or None to go by the model.")
    if model_name is not None and not isinstance(model_name, str):
        raise ConfigurationError("model_name: expected the model's name as text, for example 'gpt-4o', or None.")
    try:
        name = encoding_name(model_name, encoding) if model_name is not None else encoding or DEFAULT_ENCODING
        encode = encoder(name)
    except ImportError as error:
        context_log.encoder_missing(str(error)).emit()
        raise
    if name not in _announced:
        _announced.add(name)
        context_log.using_encoding(name).emit()
    return encode


def _tool_tokens(tools: Any, encode: Encode) -> int:
    tokens, unreadable = count_tools(tools, encode)
    news = tuple(dict.fromkeys(kind for kind in unreadable if kind not in _announced))
    if news:
        _announced.update(news)
        context_log.tools_unreadable(news, UNREADABLE_TOOL).emit()
    context_log.tools_estimated(tokens, len(tools)).emit()
    return tokens


def _counted(messages: Any, encode: Encode, system: str = "") -> CountedList:
    try:
        return count_list(messages, encode, system=system)
    except Exception as error:
        context_log.counting_failed(_reason(error)).emit()
        raise


def _fitted(counted: CountedList, config: ModelConfig, tool_tokens: int) -> CountedList:
    """The messages that fit beside the tools; says what was left out, and what cannot be."""
    budget = budget_for(config, fixed=0)
    beside = tool_tokens + PER_REQUEST
    room = budget.threshold - beside
    kept = counted.only(_kept(counted, room=room, most=budget.ceiling - beside))
    if len(kept.given) < len(counted.given):
        context_log.trimming(counted.total, kept.total, config.model).emit()
        context_log.trimmed(len(counted.given), len(kept.given)).emit()
        if [role for chat in kept.chats if (role := chat.get("role")) not in SYSTEM_ROLES] == ["user"]:
            context_log.history_trimmed_away(max(0, room - kept.lead)).emit()
    if tool_tokens > budget.threshold:
        context_log.tools_over_budget(tool_tokens, budget.threshold).emit()
    elif kept.lead > room:
        context_log.system_over_budget(kept.lead, max(0, room)).emit()
    return kept


def _kept(counted: CountedList, *, room: int, most: int) -> list[int]:
    try:
        return trim(counted.chats, counted.tokens, room=room, most=most)
    except Exception as error:  # noqa: BLE001 # why: a bot's send must not fail on a fault of ours; the fault is logged
        context_log.trimming_failed(_reason(error)).emit()
        return newest(counted.chats)


def _reason(error: Exception) -> str:
    """Our own errors hold no content; of others only the kind is said."""
    return str(error) if isinstance(error, CompactorError) else type(error).__name__
