"""The functions of a context manager for frameworks that keep their own list, LangChain's among them.

`prepare_context_messages` takes the place of building the list by hand: system text with its
variables, the newest history that fits, room for the tools and the answer. Without Redis or a
worker: what does not fit leaves the list. Messages are dicts, SDK objects or LangChain messages; those
kept are the same objects. All figures are tokens, limits in a configuration are K tokens.

`llm_config` is a ModelConfig, or a mapping that may hold anything beside `context_limit` (K tokens),
`context_strategy`, `context_limit_tokens`, `max_output_tokens` and `encoding`; LangBot's
`context-window-tokens` and `context-reserve-tokens` (tokens) are read where ours are missing.
"""

from compactor.context.counts import DEFAULT_ENCODING, count_messages_tokens, estimate_tool_tokens
from compactor.context.limits import calculate_max_tokens, get_model_context_limit
from compactor.context.log import Figures
from compactor.context.preparing import (
    PreparedContext,
    prepare_context,
    prepare_context_messages,
    trim_messages_for_context,
)
from compactor.context.tool_schemas import UNREADABLE_TOOL

__all__ = [
    "DEFAULT_ENCODING",
    "UNREADABLE_TOOL",
    "Figures",
    "PreparedContext",
    "calculate_max_tokens",
    "count_messages_tokens",
    "estimate_tool_tokens",
    "get_model_context_limit",
    "prepare_context",
    "prepare_context_messages",
    "trim_messages_for_context",
]
