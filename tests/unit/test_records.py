"""Stored records: a head of fixed width, the fingerprints in it, and what a damaged one raises."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compactor.exceptions import SessionDamagedError
from compactor.json_values import is_array, is_object
from compactor.models import Kind
from compactor.records import (
    EARLIER,
    ENCODINGS,
    LIMITED,
    NOT_COUNTED,
    PINNED,
    PROVISIONAL,
    STANDARD_JSON,
    Record,
    encode_message,
    fingerprint,
    read_json,
    unpack,
)
from tests.unit.chat import Chat, assistant, calling, result, system, user
from tests.unit.conversations import odd_messages
from tests.unit.test_message_json import ROOMY


def own(message: Chat) -> bytes:
    return encode_message(message, max_bytes=ROOMY).own


@pytest.mark.parametrize("key", ["content", "name", "tool_calls", "function_call", "refusal", "reasoning_content"])
def test_a_null_key_and_an_absent_one_have_one_fingerprint(key: str) -> None:
    message = {key_: value for key_, value in calling("a").items() if key_ != key}
    assert own({**message, key: None}) == own(message)


@pytest.mark.parametrize("value", ["half a pair \ud83d", 2**70])
def test_null_and_absent_have_one_fingerprint_whatever_else_the_message_holds(value: Any) -> None:
    assert own(assistant(value, refusal=None)) == own(assistant(value))


@given(odd_messages)
def test_keys_that_no_model_sees_do_not_change_the_fingerprint(message: Chat) -> None:
    try:
        json.dumps(message, ensure_ascii=False).encode()
        visible = all(abs(number) < 2**63 for number in _integers(message))
    except UnicodeEncodeError:
        return
    if visible:
        assert own({"cache_control": {"type": "ephemeral"}, **message}) == own(message)


def test_what_a_model_sees_changes_the_fingerprint() -> None:
    seen = [
        user("a"), user("b"), system("a"), user(""), user(["a"]), user({"a": 1}), assistant("a", name="x"),
        calling("a"), calling("b"), result("a", "a"), result("b", "a"),
        assistant("a", reasoning_content="r"), assistant("a"),
    ]  # fmt: skip
    assert len({own(message) for message in seen}) == len(seen)


def test_the_order_of_keys_does_not_change_the_fingerprint() -> None:
    message = result("a", [{"type": "text", "text": "x"}])
    turned = {"content": [{"text": "x", "type": "text"}], "tool_call_id": "a", "role": "tool"}
    assert own(message) == own(turned)


def test_a_fingerprint_is_eight_bytes() -> None:
    assert len(fingerprint(user("a"))) == 8


tokens = st.integers(0, NOT_COUNTED)
eight = st.binary(min_size=8, max_size=8)
records = st.builds(
    Record,
    flags=st.integers(0, 255),
    kind=st.sampled_from([kind for kind in Kind if kind is not Kind.CORRUPT]),
    tokens=st.tuples(tokens, tokens),
    pushed_ms=st.integers(0, 2**64 - 1),
    own=eight,
    shown=eight,
    chain=st.binary(min_size=16, max_size=16),
    text=st.binary(max_size=50),
    cut=eight,
    earlier=eight,
).map(
    lambda record: replace(
        record,
        cut=record.cut if record.flags & LIMITED and record.kind is not Kind.TOMBSTONE else b"",
        earlier=record.earlier if record.flags & EARLIER and record.kind is not Kind.TOMBSTONE else b"",
    )
)


@given(records)
def test_a_record_survives_packing(record: Record) -> None:
    assert unpack(record.pack()) == record


@given(records)
def test_a_count_of_one_encoding_says_nothing_of_the_other(record: Record) -> None:
    for encoding, counted in zip(ENCODINGS, record.tokens, strict=True):
        assert record.counted(encoding) == (None if counted == NOT_COUNTED else counted)


@given(st.binary(max_size=80))
def test_foreign_bytes_are_a_damaged_session_never_another_error(data: bytes) -> None:
    try:
        unpack(data).value()
    except SessionDamagedError:
        return
    assert data[0] == 1


@pytest.mark.parametrize(
    "data", [b"", b"\x01", b"\x02" * 60, b"\x00" * 60, b"\x01\x00\x63" + b"\x00" * 60, b"\x01\x00\xff" + b"\x00" * 60]
)
def test_a_cut_newer_or_unknown_record_is_named(data: bytes) -> None:
    with pytest.raises(SessionDamagedError, match="stored record"):
        unpack(data)


@pytest.mark.parametrize("text", [b"", b"{", b'{"role":"us', b"\xff", b'{"role":"user"} x'])
@pytest.mark.parametrize("flags", [0, STANDARD_JSON])
def test_json_that_cannot_be_read_is_a_damaged_session_that_quotes_nothing(text: bytes, flags: int) -> None:
    with pytest.raises(SessionDamagedError) as caught:
        read_json(text, flags)
    assert not text or text.decode("latin1") not in str(caught.value)


def test_a_replacement_keeps_place_origin_and_pin() -> None:
    original = Record(PINNED, Kind.ORIGINAL, (10, 11), 99, b"o" * 8, b"o" * 8, b"c" * 16, b"{}")
    shown = encode_message(result("a", "\ud800"), max_bytes=ROOMY)
    record = original.showing(shown, Kind.SUMMARY, provisional=True, tokens={"o200k_base": 5})
    assert record.flags == STANDARD_JSON | PROVISIONAL | PINNED
    assert (record.kind, record.tokens, record.shown, record.text) == (
        Kind.SUMMARY, (NOT_COUNTED, 5), shown.own, shown.text,
    )  # fmt: skip
    assert (record.own, record.chain, record.pushed_ms) == (original.own, original.chain, original.pushed_ms)


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_a_pushed_head_holds_the_count_of_its_encoding_alone(encoding: str) -> None:
    encoded = encode_message(user("hi"), max_bytes=ROOMY)
    data = encoded.pushed({encoding: 7}) + b"\x00" * 8 + encoded.own * 2 + b"c" * 16 + encoded.text
    record = unpack(data)
    assert {name: record.counted(name) for name in ENCODINGS} == {**dict.fromkeys(ENCODINGS), encoding: 7}
    assert (record.kind, record.value()) == (Kind.ORIGINAL, user("hi"))


@settings(max_examples=50)
@given(st.lists(st.integers(0, 9), min_size=1, max_size=3))
def test_a_value_read_from_a_record_is_read_only(content: list[int]) -> None:
    record = Record(0, Kind.ORIGINAL, (0, 0), 0, b"", b"", b"", encode_message(user(content), max_bytes=ROOMY).text)
    value = record.value()
    with pytest.raises(TypeError):
        value["role"] = "system"
    with pytest.raises(TypeError):
        value["content"].append(1)


def _integers(value: Any) -> list[int]:
    if is_object(value):
        return [number for item in value.values() for number in _integers(item)]
    if is_array(value):
        return [number for item in value for number in _integers(item)]
    return [value] if isinstance(value, int) else []
