"""What counts as how many tokens: one definition, never an error, never a surprise."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compactor.encodings import encoder
from compactor.tokens import (
    MEDIA_TYPES,
    PER_CALL,
    PER_MEDIA,
    PER_MESSAGE,
    PIECE,
    RUN,
    count_json,
    count_message,
    count_messages,
    count_text,
    json_text,
)
from tests.unit.chat import Chat, assistant, by_length, call, calling, result, user
from tests.unit.conversations import conversations, json_values, odd_messages, short_text, words

ENCODINGS = ["cl100k_base", "o200k_base"]
NOTHING: list[Any] = [
    None,
    True,
    0,
    1.5,
    float("nan"),
    "",
    [],
    {},
    [None],
    {"a": None},
    [[[]]],
    b"bytes",
    {1, 2},
    object(),
]


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize(
    "text", ["<|endoftext|>", "what does <|endoftext|> do?", "<|fim_prefix|>", "<|im_start|>", "<|endofprompt|>"]
)
def test_special_token_text_is_counted_as_plain_text(encoding: str, text: str) -> None:
    encode = encoder(encoding)
    assert encode(text) > 3
    for message in (
        user(text),
        result("a", text),
        calling(call("a", arguments=text)),
        assistant(reasoning_content=text),
    ):
        assert count_message(message, encode) >= PER_MESSAGE + encode(text)
    assert count_json([{"type": "function", "function": {"name": text}}], encode) > encode(text)


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("char", [" ", "a", "\n", "数", "\ud83d", "\x00"])
def test_a_million_equal_characters_are_counted(encoding: str, char: str) -> None:
    assert count_text(char * 1_000_000, encoder(encoding)) >= 1_000_000 / 256


def encoded(text: str) -> list[str]:
    """The pieces in which a text is encoded."""
    seen: list[str] = []

    def encode(piece: str) -> int:
        seen.append(piece)
        return 1

    assert count_text(text, encode) == len(seen)
    assert "".join(seen) == text
    return seen


def test_text_is_encoded_in_pieces_of_a_defined_size() -> None:
    assert [len(piece) for piece in encoded("x " * PIECE + "x")] == [PIECE, PIECE, 1]


@pytest.mark.parametrize("char", ["x", "数", "7", "😀", "="])
def test_a_run_that_encoders_take_for_one_word_is_cut(char: str) -> None:
    before, behind = "So: ", " and so on. " * 100
    assert encoded(f"{before}{char * (2 * RUN + 1)}{behind}") == [before, char * RUN, char * RUN, char, behind]


@given(st.text(st.sampled_from("ab 数\n.=")), st.integers(0, 3 * RUN), st.sampled_from("xX数 ="))
def test_what_holds_no_long_run_is_counted_as_the_encoder_does(text: str, times: int, char: str) -> None:
    whole = f"{text} {char * times} {text}"
    pieces = encoded(whole)
    assert len(pieces) == 1 or times > RUN - 2 * len(text)
    assert all(len(piece) <= RUN for piece in pieces if len(set(piece)) == 1 and not piece.isspace())


def test_empty_text_costs_nothing_and_is_not_encoded() -> None:
    def refuse(_text: str) -> int:
        raise AssertionError

    assert count_text("", refuse) == 0


@pytest.mark.parametrize("value", NOTHING)
@pytest.mark.parametrize("key", ["content", "tool_calls", "function_call", "name", "tool_call_id", "reasoning_content"])
def test_counting_never_raises(key: str, value: Any) -> None:
    assert count_message({"role": "assistant", key: value}, by_length) >= PER_MESSAGE


@given(st.one_of(odd_messages, st.dictionaries(st.text(max_size=9), json_values, max_size=4)))
def test_counting_never_raises_on_any_json(message: Chat) -> None:
    assert count_message(message, encoder("o200k_base")) >= PER_MESSAGE


@pytest.mark.parametrize("message", [{}, {"role": "user"}, {"role": "assistant", "content": None}, user("")])
def test_a_message_without_content_costs_its_frame(message: Chat) -> None:
    assert count_message(message, by_length) == PER_MESSAGE


@pytest.mark.parametrize(
    ("arguments", "text"),
    [(None, ""), ({"q": 1}, '{"q":1}'), ("", ""), ('{"q": 1}', '{"q": 1}'), ([1, 2], "[1,2]"), (5, "5")],
)
def test_arguments_of_any_type_are_counted_as_their_text(arguments: Any, text: str) -> None:
    expected = PER_MESSAGE + PER_CALL + by_length("a") + by_length("grep") + by_length(text)
    assert count_message(calling(call("a", arguments=arguments)), by_length) == expected


def test_a_turn_of_tool_calls_is_not_free() -> None:
    assert count_message(calling(call("a", arguments="x" * 40_000)), by_length) > 10_000


def test_a_legacy_call_costs_a_call() -> None:
    message = assistant(None, function_call={"name": "grep", "arguments": "{}"})
    assert count_message(message, by_length) == PER_MESSAGE + PER_CALL + by_length("grep") + by_length("{}")


@pytest.mark.parametrize("content", [{"rows": [1, 2, 3]}, [{"rows": [1, 2, 3]}]])
def test_structured_content_costs_its_json(content: Any) -> None:
    assert count_message(result("a", content), by_length) == PER_MESSAGE + by_length("a") + by_length(
        '{"rows":[1,2,3]}'
    )


@pytest.mark.parametrize("size", [10, 400_000])
@pytest.mark.parametrize("kind", sorted(MEDIA_TYPES))
def test_a_media_part_has_one_flat_price_whatever_its_size(kind: str, size: int) -> None:
    question = {"type": "text", "text": "what is this?"}
    media = {"type": kind, kind: {"data": "x" * size}}
    with_media = count_message(user([question, media]), by_length)
    assert with_media == count_message(user([question]), by_length) + PER_MEDIA


def test_an_image_in_a_tool_result_has_the_same_price() -> None:
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "x" * 9_000}}
    assert count_message(result("a", [image]), by_length) == PER_MESSAGE + by_length("a") + PER_MEDIA
    nested = user([{"type": "tool_result", "tool_use_id": "a", "content": [image]}])
    assert count_message(nested, by_length) == PER_MESSAGE + PER_CALL + by_length("a") + PER_MEDIA


@given(conversations(), conversations())
def test_totals_add_up(first: list[Chat], second: list[Chat]) -> None:
    together = count_messages([*first, *second], by_length)
    assert together == count_messages(first, by_length) + count_messages(second, by_length)
    assert together == sum(count_message(message, by_length) for message in [*first, *second])


@given(short_text, st.sampled_from(ENCODINGS))
def test_more_words_never_cost_less(text: str, encoding: str) -> None:
    encode = encoder(encoding)
    assert encode(f"{text}x zebra") >= encode(f"{text}x") + 1


@given(conversations(max_pieces=3), words)
@settings(max_examples=60)
def test_adding_a_field_or_a_part_never_lowers_the_count(chat: list[Chat], text: str) -> None:
    encode = encoder("o200k_base")
    for message in chat:
        before = count_message(message, encode)
        more: list[Chat] = [{**message, key: text} for key in ("name", "reasoning_content") if message.get(key) is None]
        if isinstance(message.get("content"), list):
            more.append({**message, "content": [*message["content"], {"type": "text", "text": text}]})
        if message.get("content") is None:
            more.append({**message, "content": text})
        if isinstance(message.get("tool_calls", []), list):
            more.append({**message, "tool_calls": [*message.get("tool_calls", []), call("z", arguments=text)]})
        assert all(count_message(longer, encode) > before for longer in more)


def test_a_text_beside_other_data_never_lowers_the_count() -> None:
    part = {"type": "search_result", "rows": ["x" * 4_000]}
    assert count_message(user([{**part, "text": "found"}]), by_length) >= count_message(user([part]), by_length)


@given(json_values)
def test_the_json_text_of_any_value_is_text(value: Any) -> None:
    assert isinstance(json_text(value), str)


@given(st.dictionaries(st.text(st.characters(codec="utf-8"), max_size=5), st.integers(-9, 9), max_size=3))
def test_the_json_text_is_compact_json(value: dict[str, int]) -> None:
    assert json.loads(json_text(value)) == value
    assert ": " not in json_text({"a": value})[:6]


class Schema:
    """Stands for a pydantic model."""

    def model_dump(self, *, mode: str, exclude_unset: bool) -> dict[str, Any]:
        return {"name": "grep", "mode": mode, "exclude_unset": exclude_unset}


def test_what_json_does_not_know_is_dumped_or_named() -> None:
    assert json_text([Schema()]) == '[{"name":"grep","mode":"json","exclude_unset":true}]'
    assert json_text([object()]) == '["object"]'
    assert json_text({(1, 2): 3}) == "{}"
    loop: list[Any] = []
    loop.append(loop)
    assert json_text(loop) == "list"


def test_tools_cost_their_compact_json_and_none_costs_nothing() -> None:
    tools = [{"type": "function", "function": {"name": "grep", "parameters": {"type": "object"}}}]
    assert count_json(tools, by_length) == by_length(json.dumps(tools, separators=(",", ":")))
    assert count_json(None, by_length) == 0
