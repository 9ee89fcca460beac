"""What counts as how many tokens: the definition that every total and recount shares.

Per message 4; per tool call 3; per request 3; text by the encoder in pieces of 100,000 characters,
and a run of more than 1,000 letters and digits, or of signs, in pieces of 1,000; names, ids and
arguments as text; structured content as its JSON text; `reasoning_content` and `refusal` as text; a
media part (image, audio, file) 765, never its base64. `encode` is an argument: a function from text
to a number of tokens.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from itertools import pairwise
from typing import Any, Final

import orjson

from compactor.json_values import is_array, is_object

Encode = Callable[[str], int]

PER_MESSAGE: Final = 4
PER_CALL: Final = 3
PER_REQUEST: Final = 3
PER_MEDIA: Final = 765  # high-detail 1024 x 1024 image: 85 + 4 tiles x 170, OpenAI vision guide
PIECE: Final = 100_000  # characters; on about 1M spaces o200k panics
RUN: Final = 1_000  # characters that the encoders take for one word: a longer one costs them twice and more
MEDIA_TYPES: Final = frozenset(
    {"image_url", "image", "input_image", "input_audio", "audio", "file", "input_file", "document"}
)

_BLOCK: Final = RUN // 2  # whatever is longer than RUN without a space fills one of the text's blocks of this size
_SPACE: Final = re.compile(r"\s")
_RUNS: Final = re.compile(r"\w++|[^\w\s]++")
_TEXT_TYPES: Final = ("text", "input_text", "output_text", "refusal", None)


def count_text(text: str, encode: Encode) -> int:
    """Tokens of a text, encoded in pieces of PIECE characters, long runs in pieces of RUN."""
    if len(text) <= RUN:
        return encode(text) if text else 0
    return sum(_encoded(text[start : start + PIECE], encode) for start in range(0, len(text), PIECE))


def _encoded(text: str, encode: Encode) -> int:
    if all(_SPACE.search(text, start, start + _BLOCK) for start in range(0, len(text) - _BLOCK + 1, _BLOCK)):
        return encode(text)
    ends = [0]
    for run in _RUNS.finditer(text):
        start, end = run.span()
        if end - start > RUN:
            ends += (start, *range(start + RUN, end, RUN), end)
    return sum(encode(text[start:end]) for start, end in pairwise([*ends, len(text)]) if start < end)


def count_message(message: Mapping[str, Any], encode: Encode) -> int:
    """Tokens of one chat message; never raises, whatever the message holds."""
    total = PER_MESSAGE + _content(message.get("content"), encode)
    for key in ("name", "tool_call_id", "reasoning_content", "refusal"):
        total += _plain(message.get(key), encode)
    calls = message.get("tool_calls")
    if is_array(calls):
        total += sum(_call(call, encode) for call in calls)
    function_call = message.get("function_call")
    if function_call is not None:
        total += PER_CALL + _function(function_call, encode)
    return total


def count_messages(messages: Iterable[Mapping[str, Any]], encode: Encode) -> int:
    """Sum of `count_message`; the fixed cost of a request is not part of it."""
    return sum(count_message(message, encode) for message in messages)


def count_json(value: Any, encode: Encode) -> int:
    """Tokens of a value as compact JSON text (tool schemas, response_format); None costs nothing."""
    return 0 if value is None else count_text(json_text(value), encode)


def json_text(value: Any) -> str:
    """Compact JSON of any value; what JSON does not know is written as its type's name."""
    try:
        return orjson.dumps(value, default=_name, option=orjson.OPT_NON_STR_KEYS).decode()
    except TypeError:
        try:
            return json.dumps(value, separators=(",", ":"), default=_name, skipkeys=True)
        except (ValueError, RecursionError):
            return type(value).__name__


def _name(value: object) -> Any:
    dump = getattr(value, "model_dump", None)
    return (
        dump(mode="json", exclude_unset=True)
        if callable(dump) and not isinstance(value, type)
        else type(value).__name__
    )


def _plain(value: Any, encode: Encode) -> int:
    if value is None:
        return 0
    return count_text(value if isinstance(value, str) else json_text(value), encode)


def _content(content: Any, encode: Encode) -> int:
    if is_array(content):
        return sum(_part(part, encode) for part in content)
    return _plain(content, encode)


def _part(part: Any, encode: Encode) -> int:
    if not is_object(part):
        return _plain(part, encode)
    kind = part.get("type")
    if isinstance(kind, str) and kind in MEDIA_TYPES:
        return PER_MEDIA
    if kind in _TEXT_TYPES and isinstance(part.get("text"), str):
        return count_text(part["text"], encode)
    if kind == "tool_result":
        return PER_CALL + _plain(part.get("tool_use_id"), encode) + _content(part.get("content"), encode)
    return _plain(part, encode)


def _call(call: Any, encode: Encode) -> int:
    if not is_object(call):
        return PER_CALL + _plain(call, encode)
    function = call.get("function")
    rest = _function(function, encode) if function is not None else _plain(call.get("custom"), encode)
    return PER_CALL + _plain(call.get("id"), encode) + rest


def _function(function: Any, encode: Encode) -> int:
    if not is_object(function):
        return _plain(function, encode)
    return _plain(function.get("name"), encode) + _plain(function.get("arguments"), encode)
