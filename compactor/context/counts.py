"""What messages and tools count, in the encoding of the model that is named, and said on the log."""

from __future__ import annotations

from typing import Any, Final

from compactor.context import log
from compactor.context.counted_list import CountedList, count_list
from compactor.context.tool_schemas import UNREADABLE_TOOL, count_tools, listed
from compactor.encodings import encoder, encoding_name
from compactor.exceptions import CompactorError, ConfigurationError
from compactor.records import ENCODINGS
from compactor.tokens import Encode

DEFAULT_ENCODING: Final = "cl100k_base"  # of counts that name no model
_announced: set[str] = set()  # what was said once: encodings in use, kinds of tools that could not be read


def estimate_tool_tokens(tools: Any, model_name: str | None = None, *, encoding: str | None = None) -> int:
    """Tokens of tool definitions as the JSON that is sent; an unreadable one costs UNREADABLE_TOOL.

    Takes OpenAI schemas, pydantic models, tools with `args_schema`, callables. Counted in cl100k_base
    unless a model or an encoding is named. Raises ConfigurationError, TokenizerMissingError.
    """
    if not listed(tools):
        return 0
    return price_tools(tools, encoder_for(model_name, encoding))


def count_messages_tokens(messages: Any, model_name: str | None = None, *, encoding: str | None = None) -> int:
    """Tokens of messages, each with its 4 of framing; cl100k_base unless a model or an encoding is named.

    Raises InvalidMessageError, ConfigurationError, TokenizerMissingError, after logging.
    """
    return read_counted(messages, encoder_for(model_name, encoding)).total


def encoder_for(model_name: str | None, encoding: str | None) -> Encode:
    """The encoder of a model; says once which one is in use. Raises ConfigurationError, TokenizerMissingError."""
    if encoding is not None and encoding not in ENCODINGS:
        raise ConfigurationError(f"encoding: expected one of {', '.join(ENCODINGS)}, or None to go by the model.")
    if model_name is not None and not isinstance(model_name, str):
        raise ConfigurationError("model_name: expected the model's name as text, for example 'gpt-4o', or None.")
    try:
        name = encoding_name(model_name, encoding) if model_name is not None else encoding or DEFAULT_ENCODING
        encode = encoder(name)
    except ImportError as error:
        log.encoder_missing(str(error)).emit()
        raise
    if name not in _announced:
        _announced.add(name)
        log.using_encoding(name).emit()
    return encode


def price_tools(tools: Any, encode: Encode) -> int:
    """Tokens of all definitions, at least one; a kind that cannot be read is named on the log once."""
    tokens, unreadable = count_tools(tools, encode)
    news = tuple(dict.fromkeys(kind for kind in unreadable if kind not in _announced))
    if news:
        _announced.update(news)
        log.tools_unreadable(news, UNREADABLE_TOOL).emit()
    log.tools_estimated(tokens, len(tools)).emit()
    return tokens


def read_counted(messages: Any, encode: Encode, system: str = "") -> CountedList:
    """The messages behind their system text, counted. Raises InvalidMessageError, after logging."""
    try:
        return count_list(messages, encode, system=system)
    except Exception as error:
        log.counting_failed(reason_of(error)).emit()
        raise


def reason_of(error: Exception) -> str:
    """Our own errors hold no content; of others only the kind is said."""
    return str(error) if isinstance(error, CompactorError) else type(error).__name__
