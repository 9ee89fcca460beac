"""Chat Completions messages of every layout: calls, text, media, and the same message with other text."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compactor.formats.openai import Call, calls, media_of, text_of, with_text
from compactor.frozen import freeze
from tests.unit.chat import Chat, assistant, call, calling, result, user
from tests.unit.conversations import conversations, odd_messages, words

IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,xxxx"}}


def test_calls_are_read_in_order_with_their_text_arguments() -> None:
    message = calling(call("a", "grep", '{"q": 1}'), call("b", "read", "{}"))
    assert calls(message) == (Call("a", "grep", '{"q": 1}'), Call("b", "read", "{}"))


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        ({"id": None, "function": {"name": "f", "arguments": None}}, Call(None, "f", "")),
        ({"id": "", "function": {"name": "f"}}, Call(None, "f", "")),
        ({"id": 7, "function": {"name": "f", "arguments": {"q": 1}}}, Call(None, "f", '{"q":1}')),
        ({"id": "a", "function": {"name": None, "arguments": [1]}}, Call("a", "", "[1]")),
        ({"id": "a", "type": "custom", "custom": {"name": "f", "input": "raw"}}, Call("a", "f", "raw")),
        ({"id": "a"}, Call("a", "", "null")),
        ({"id": "a", "function": "f"}, Call("a", "", '"f"')),
        ("grep", Call(None, "", '"grep"')),
        (None, Call(None, "", "null")),
        (7, Call(None, "", "7")),
        ([], Call(None, "", "[]")),
    ],
)
def test_a_malformed_call_keeps_its_place(item: Any, expected: Call) -> None:
    assert calls(assistant(None, tool_calls=[item, call("z")])) == (expected, Call("z", "grep", "{}"))


@pytest.mark.parametrize("listed", [None, [], {}, "x", 7, {"id": "a"}])
def test_what_is_no_list_of_calls_holds_none(listed: Any) -> None:
    assert calls(assistant("hi", tool_calls=listed)) == ()


def test_a_legacy_call_has_no_id() -> None:
    assert calls(assistant(None, function_call={"name": "f", "arguments": "{}"})) == (Call(None, "f", "{}"),)


@given(st.one_of(odd_messages, conversations(max_pieces=1).filter(bool).map(lambda chat: chat[0])))
def test_any_message_is_read(message: Chat) -> None:
    for value in (message, freeze(message)):
        assert all(isinstance(found.name, str) and isinstance(found.arguments, str) for found in calls(value))
        assert isinstance(text_of(value), str)
        assert media_of(value) >= 0


@pytest.mark.parametrize("kind", [[], {}, ["text"]])
@pytest.mark.parametrize("read", [text_of, media_of])
def test_a_part_whose_type_is_no_text_is_read(read: Any, kind: Any) -> None:
    assert read(result("a", [{"type": kind, "text": "found"}])) in ("found", 0)


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (None, ""),
        ("", ""),
        ("plain", "plain"),
        ([], ""),
        (["a", "b"], "a\nb"),
        ([{"type": "text", "text": "a"}, IMAGE, {"type": "text", "text": "b"}], "a\nb"),
        ([{"type": "text", "text": ""}, {"type": "text", "text": "b"}], "b"),
        ([{"type": "text"}], '{"type":"text"}'),
        ([{"text": "no type"}], "no type"),
        ([{"type": "json", "json": {"a": 1}}], '{"type":"json","json":{"a":1}}'),
        ([None, 7], "null\n7"),
        ({"rows": [1]}, '{"rows":[1]}'),
        (0, "0"),
        (False, "false"),
    ],
)
def test_the_text_of_content_of_any_shape(content: Any, text: str) -> None:
    assert text_of(user(content)) == text


def test_media_parts_are_counted_wherever_they_stand() -> None:
    assert media_of(result("a", [IMAGE, {"type": "text", "text": "x"}, IMAGE, "y"])) == 2
    assert media_of(result("a", "data:image/png")) == media_of(result("a", None)) == 0


@given(conversations(max_pieces=1), words)
def test_other_text_changes_the_content_alone_and_keeps_its_shape(chat: list[Chat], text: str) -> None:
    for message in chat:
        changed = with_text(message, text)
        assert {**changed, "content": 0} == {**message, "content": 0}
        assert text_of(changed) == text
        assert isinstance(changed["content"], list if isinstance(message.get("content"), list) else str)


def test_empty_text_is_never_written() -> None:
    with pytest.raises(AssertionError):
        with_text(result("a"), "")


def test_the_original_is_not_changed() -> None:
    message = result("a", "long")
    with_text(message, "short")
    assert message == result("a", "long")
