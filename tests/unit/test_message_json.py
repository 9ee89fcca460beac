"""Messages as JSON: what is accepted comes back the same, what is refused is refused with its reason."""

from __future__ import annotations

import datetime as dt
import decimal
import enum
import json
import math
import uuid
import warnings
from collections import OrderedDict
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from compactor.encodings import encoder
from compactor.exceptions import InvalidMessageError, MessageTooLargeError
from compactor.json_values import is_array, is_object
from compactor.models import Kind
from compactor.records import (
    MAX_DEPTH,
    STANDARD_JSON,
    Record,
    encode_message,
    read_json,
)
from compactor.tokens import count_message
from tests.unit.chat import Chat, assistant, result, user
from tests.unit.conversations import conversations, json_values, odd_messages

ROOMY = 64 * 1024**2


def round_trip(message: Any) -> Any:
    encoded = encode_message(message, max_bytes=ROOMY)
    return read_json(encoded.text, encoded.flags)


def same(left: Any, right: Any) -> bool:
    """Equality of JSON values that tells 1 from 1.0 and True, and knows NaN."""
    if isinstance(left, float) and isinstance(right, float):
        return left == right or (math.isnan(left) and math.isnan(right))
    if is_object(left) and is_object(right):
        return list(left) == list(right) and all(same(left[key], right[key]) for key in left)
    if is_array(left) and is_array(right):
        return len(left) == len(right) and all(map(same, left, right))
    return type(left) is type(right) and left == right


def nested(levels: int, leaf: Any = 1) -> Any:
    value = leaf
    for _ in range(levels):
        value = [value]
    return value


EDGES: list[Any] = [
    float("nan"), float("inf"), float("-inf"), -0.0, 5e-324, 1.7976931348623157e308, 0.1,
    2**53 + 1, 2**63 - 1, -(2**63), 2**63, 2**64 - 1, 2**64, -(2**63) - 1, 10**400, -(10**400),
    "\ud800", "half \udfff", "\x00", "\ufeff", "\u2028", "🙂", "数据", "<|endoftext|>", "null", "NaN",
    None, True, False, [], {}, "", [[]], {"": None}, nested(MAX_DEPTH - 2), {"a": float("nan"), "b": None},
]  # fmt: skip


@pytest.mark.parametrize("value", EDGES, ids=lambda value: repr(value)[:20])
@pytest.mark.parametrize("key", ["content", "metadata"])
def test_every_json_value_comes_back_the_same(key: str, value: Any) -> None:
    message = {"role": "user", key: value}
    assert same(round_trip(message), message)


@given(st.one_of(st.lists(odd_messages, min_size=1, max_size=2), conversations(max_pieces=2)))
def test_any_accepted_message_comes_back_the_same(chat: list[Chat]) -> None:
    for message in chat:
        assert same(round_trip(message), message)


def test_null_and_absent_are_never_exchanged() -> None:
    with_null = assistant(None, tool_calls=[], refusal=None)
    assert round_trip(with_null) == with_null
    assert "refusal" in round_trip(with_null)
    assert "content" not in round_trip({"role": "assistant"})


def test_nan_beside_the_word_null_does_not_become_null() -> None:
    message = result("a", "null", score=float("nan"))
    assert same(round_trip(message), message)


def test_keys_keep_their_order() -> None:
    message = {"z": 1, "role": "user", "a": 2, "content": "hi"}
    assert list(round_trip(message)) == ["z", "role", "a", "content"]


@pytest.mark.parametrize("text", ["\ud83d\ude42", "a \ud83d\ude42 b"])
def test_two_halves_of_a_pair_come_back_as_the_character_they_are(text: str) -> None:
    """JSON knows no difference between the two."""
    assert round_trip(user(text)) == user(text.encode("utf-16", "surrogatepass").decode("utf-16"))


def test_two_halves_of_a_pair_cost_what_the_character_read_back_costs() -> None:
    encode = encoder("o200k_base")
    message = user("x" + "\ud83d\ude42" * 60_000)
    stored = encode_message(message, max_bytes=ROOMY).stored_value()
    assert count_message(stored, encode) == count_message(round_trip(message), encode)


def test_a_plain_message_is_written_as_compact_utf8() -> None:
    encoded = encode_message(user("数据 🙂"), max_bytes=ROOMY)
    assert encoded.flags == 0
    assert encoded.text == '{"role":"user","content":"数据 🙂"}'.encode()


@pytest.mark.parametrize("value", [float("nan"), 2**70, "\ud800"])
def test_what_the_fast_writer_cannot_write_is_flagged_for_the_standard_reader(value: Any) -> None:
    assert encode_message(user(value), max_bytes=ROOMY).flags == STANDARD_JSON


class SdkMessage:
    """Stands for `response.choices[0].message`."""

    def __init__(self, dumped: Any) -> None:
        self.dumped = dumped

    def model_dump(self, *, mode: str, exclude_unset: bool) -> Any:
        assert (mode, exclude_unset) == ("json", True)
        return self.dumped


def test_an_sdk_object_is_stored_as_its_set_fields() -> None:
    assert round_trip(SdkMessage(assistant("hi"))) == assistant("hi")


def test_the_openai_sdks_message_gains_no_nulls() -> None:
    chat = pytest.importorskip("openai.types.chat")
    message = chat.ChatCompletionMessage.model_validate({"role": "assistant", "content": "hi"})
    assert round_trip(message) == assistant("hi")


@pytest.mark.parametrize("wrap", [dict, OrderedDict, MappingProxyType])
def test_any_mapping_is_a_message(wrap: Any) -> None:
    assert round_trip(wrap(user("hi"))) == user("hi")


class Colour(enum.Enum):
    RED = "red"


@dataclass
class Point:
    x: int


HIDDEN = "my-password-is-hunter2"
NOT_JSON: list[Any] = [
    b"bytes", {1, 2}, object(), Point(1), dt.datetime(2030, 1, 1, tzinfo=dt.UTC), dt.date(2030, 1, 1),
    decimal.Decimal(1), {1: "a"}, {None: "a"}, {(1, 2): 3}, MappingProxyType({"a": 1}), 1 + 2j, len, iter(()), range(3),
]  # fmt: skip


@pytest.mark.parametrize("value", NOT_JSON, ids=lambda value: type(value).__name__)
def test_what_is_not_json_is_refused_without_quoting_it(value: Any) -> None:
    with pytest.raises(InvalidMessageError, match=r"key must be|JSON does not know") as caught:
        encode_message({"role": "user", "content": HIDDEN, "extra": {"deep": [value]}}, max_bytes=ROOMY)
    assert HIDDEN not in str(caught.value)


@pytest.mark.parametrize("value", [uuid.UUID(int=5), Colour.RED])
def test_a_uuid_or_an_enum_is_refused_or_counted_as_what_is_stored(value: Any) -> None:
    encode = encoder("o200k_base")
    try:
        encoded = encode_message(result(value, "x"), max_bytes=ROOMY)
    except InvalidMessageError:
        return
    assert count_message(encoded.value, encode) == count_message(read_json(encoded.text, encoded.flags), encode)


@pytest.mark.parametrize("message", [None, 7, "hi", b"hi", ["a"], [user("hi")], object(), SdkMessage, SdkMessage(None)])
def test_what_is_no_message_is_refused_naming_its_type(message: Any) -> None:
    with pytest.raises(InvalidMessageError, match="expected a dict or an SDK message object, found"):
        encode_message(message, max_bytes=ROOMY)


@pytest.mark.parametrize("role", [None, "", "User", "model", "human", HIDDEN, 7, ["user"], {"a": 1}, b"user", True])
def test_an_unknown_role_is_refused_naming_the_known_ones(role: Any) -> None:
    with pytest.raises(InvalidMessageError, match="assistant, developer, function, system, tool, user") as caught:
        encode_message({"role": role, "content": HIDDEN}, max_bytes=ROOMY)
    assert HIDDEN not in str(caught.value)
    with pytest.raises(InvalidMessageError):
        encode_message({"content": "hi"}, max_bytes=ROOMY)


@pytest.mark.parametrize("leaf", [1, float("nan"), "\ud800", 10**30])
@pytest.mark.parametrize("depth", [300, 2_000, 100_000])
def test_a_deep_message_is_refused_with_what_to_do(leaf: Any, depth: int) -> None:
    with pytest.raises(InvalidMessageError, match="nested deeper than 250 levels"):
        encode_message(user(nested(depth, leaf)), max_bytes=ROOMY)


@pytest.mark.parametrize("leaf", [1, float("nan"), "\ud800", 10**30])
def test_the_deepest_accepted_message_can_be_read_and_counted(leaf: Any) -> None:
    message = user(nested(MAX_DEPTH - 2, leaf))
    encoded = encode_message(message, max_bytes=ROOMY)
    back = Record(encoded.flags, Kind.ORIGINAL, (0, 0), 0, b"", b"", b"", encoded.text)
    assert same(back.value(), message)
    assert count_message(back.value(), encoder("o200k_base")) == count_message(message, encoder("o200k_base"))


def test_a_message_that_holds_itself_is_refused() -> None:
    loop: dict[str, Any] = user("hi")
    loop["again"] = loop
    with pytest.raises(InvalidMessageError, match="nested deeper"):
        encode_message(loop, max_bytes=ROOMY)


def test_an_integer_that_python_cannot_write_is_refused() -> None:
    with pytest.raises(InvalidMessageError, match="4,300"):
        encode_message(user(10**5_000), max_bytes=ROOMY)


def test_size_is_measured_in_bytes_of_json() -> None:
    size = len(json.dumps(user("数" * 100), ensure_ascii=False, separators=(",", ":")).encode())
    assert encode_message(user("数" * 100), max_bytes=size).text
    with pytest.raises(MessageTooLargeError, match=f"{size} bytes of JSON, over the limit of {size - 1}") as caught:
        encode_message(user("数" * 100), max_bytes=size - 1)
    assert "数" not in str(caught.value)


@given(json_values, json_values)
def test_a_refusal_never_quotes_content(content: Any, extra: Any) -> None:
    message = {"role": "user", "content": [HIDDEN, content], HIDDEN: {"x": extra, "bad": {1, 2}}}
    with pytest.raises(InvalidMessageError) as caught:
        encode_message(message, max_bytes=ROOMY)
    assert HIDDEN not in str(caught.value)


# --- SDK objects that their own types do not expect


def test_a_message_of_another_server_gives_no_warning_that_quotes_it() -> None:
    """OpenAI's types say text; compatible servers send parts, or arguments as an object."""
    chat = pytest.importorskip("openai.types.chat")
    parts = chat.ChatCompletionMessage.model_construct(role="assistant", content=[{"type": "text", "text": "hunter2"}])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert round_trip(parts)["content"] == [{"type": "text", "text": "hunter2"}]
    assert not any("hunter2" in str(warning.message) for warning in caught)


class Loose(BaseModel):
    role: str
    content: Any


@pytest.mark.parametrize("content", [object(), b"\xff"])
def test_an_sdk_object_that_cannot_be_dumped_is_refused(content: Any) -> None:
    with pytest.raises(InvalidMessageError):
        round_trip(Loose(role="user", content=content))


class Unready:
    """Stands for a lazy proxy that is not bound to anything."""

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(name)


def test_an_object_whose_attributes_raise_is_refused() -> None:
    with pytest.raises(InvalidMessageError):
        round_trip(Unready())
