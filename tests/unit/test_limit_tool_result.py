"""limit_tool_result: the document's result to the letter, no letter parted, and nothing that a tool returns raises."""

from __future__ import annotations

import dataclasses
import json
from collections import UserDict
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai.types.chat import ChatCompletionMessage

from compactor.agent_loop import LimitPolicy, limit_tool_result
from compactor.agent_loop.tool_results import limit_message, limit_policy
from compactor.exceptions import ConfigurationError
from compactor.frozen import FrozenDict

CUT = "\n...[结果已截断]"
FAMILY = "\U0001f468\u200d\U0001f469\u200d\U0001f467"
MARKED = "e\u0301\u0323"
FLAG = "\U0001f1e9\U0001f1ea"
WAVE = "\U0001f44b\U0001f3fd"
HEART = "\u2764\ufe0f"
PAIR = "\ud83d\ude00"  # as JSON of other languages brings it


class Silent:
    """Says nothing of itself but an address."""


class Hostile:
    """Raises at every question."""

    def __str__(self) -> str:
        raise RuntimeError

    def __repr__(self) -> str:
        raise RuntimeError

    @property
    def model_dump(self) -> Any:
        raise RuntimeError


@dataclasses.dataclass
class Row:
    name: str
    at: datetime


# --- what stands in the source document


def as_the_document_does(value: Any, most: int = 8_000) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text[:most] + CUT if len(text) > most else text


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text("a中é \n{}", max_size=20),
    lambda inner: st.lists(inner, max_size=6) | st.dictionaries(st.text("ab中", max_size=4), inner, max_size=6),
    max_leaves=30,
).filter(lambda value: not isinstance(value, str))


@given(json_values, st.integers(1, 60))
def test_with_its_notice_the_result_is_the_documents_to_the_letter(value: Any, most: int) -> None:
    assert limit_tool_result(value, most, CUT) == as_the_document_does(value, most)


def test_the_limit_is_8000_characters() -> None:
    assert limit_tool_result("x" * 8_000, notice=CUT) == "x" * 8_000
    assert limit_tool_result("x" * 8_001, notice=CUT) == "x" * 8_000 + CUT
    assert limit_tool_result({"页": "数" * 9_000}, notice=CUT) == as_the_document_does({"页": "数" * 9_000})


# --- notices


def test_the_notice_says_how_much_was_cut_and_how_to_recall_it() -> None:
    text = "word " * 2_000
    assert limit_tool_result(text).endswith("\n[… 2000 of 10000 characters left out …]")
    assert limit_tool_result(text, recall_id="m12").endswith(
        "\n[… 2000 of 10000 characters left out; whole output: m12 …]"
    )


def test_the_notice_is_in_the_language_of_the_result() -> None:
    assert limit_tool_result("数据" * 10, 5).endswith("\n[……共 20 个字符，省略了 15 个……]")
    assert limit_tool_result({"结果": "数据" * 10}, 5, recall_id="m3").endswith("省略了 25 个；全文：m3……]")


def test_head_and_tail_stand_around_the_notice() -> None:
    text = "".join(str(n % 10) for n in range(100))
    assert limit_tool_result(text, 10, tail=4) == f"{text[:6]}\n[… 90 of 100 characters left out …]\n{text[-4:]}"
    assert limit_tool_result(text, 10, " | ", tail=4) == f"{text[:6]} | {text[-4:]}"


def test_places_in_a_notice_are_filled_and_other_braces_stay() -> None:
    assert limit_tool_result("a" * 50, 10, "<{cut}/{whole} {id} {x} {}>", "m1") == "a" * 10 + "<40/50 m1 {x} {}>"
    assert limit_tool_result("a" * 50, 10, "<{id}>") == "a" * 10 + "<>"
    assert limit_tool_result("{id}" * 50, 8, "|", "m1") == "{id}{id}|"


# --- letters stay whole


@pytest.mark.parametrize("letter", [FAMILY, MARKED, FLAG, WAVE, HEART, PAIR, "\r\n"])
@pytest.mark.parametrize("tail", [0, 3, 7])
def test_no_letter_is_parted_wherever_the_cut_falls(letter: str, tail: int) -> None:
    text = letter * 30
    for most in range(tail + 1, 40):
        head, _, rest = limit_tool_result(text, most, "|", tail=tail).partition("|")
        assert head == letter * (len(head) // len(letter))
        assert rest == letter * (len(rest) // len(letter))
        assert len(head) > most - tail - len(letter)
        assert len(rest) > tail - len(letter)


def test_a_cut_between_letters_stays_where_it_is() -> None:
    text = f"ab{FAMILY}cd" * 9
    assert limit_tool_result(text, 2, "|") == "ab|"
    assert limit_tool_result(text, 7, "|") == f"ab{FAMILY}|"


def test_a_run_of_marks_without_end_is_cut_all_the_same() -> None:
    cut = limit_tool_result("a" + "\u0301" * 50_000, 8_000, "|")
    assert len(cut) == 8_001


@given(st.text(st.characters(exclude_categories=()), min_size=2, max_size=60), st.data())
def test_every_cut_is_head_and_tail_of_the_text_and_makes_no_lone_surrogate(text: str, data: st.DataObject) -> None:
    most = data.draw(st.integers(1, len(text) - 1))
    tail = data.draw(st.integers(0, most - 1))
    head, _, rest = limit_tool_result(text, most, "<<cut>>", tail=tail).partition("<<cut>>")
    assert text.startswith(head)
    assert text.endswith(rest)
    assert len(head) <= most - tail
    assert len(rest) <= tail
    behind = text[len(head) :]
    assert not (head and "\ud800" <= head[-1] <= "\udbff" and "\udc00" <= behind[0] <= "\udfff")


# --- whatever a tool returns


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("as it is \ud83d", "as it is \ud83d"),
        ("", ""),
        (None, "null"),
        (float("nan"), "NaN"),
        (True, "true"),
        ((1, 2), "[1, 2]"),
        ({"键": "值"}, '{"键": "值"}'),
        ({1: 2, None: 3}, '{"1": 2, "null": 3}'),
        ({(1, 2): 3}, '{"(1, 2)": 3}'),
        (b"caf\xc3\xa9 \xff", "café \ufffd"),
        ({"raw": b"abc"}, '{"raw": "abc"}'),
        ({3, 1, 2}, "[1, 2, 3]"),
        (Decimal("1.50"), "1.50"),
        ({"at": datetime(2031, 4, 9, tzinfo=UTC)}, '{"at": "2031-04-09 00:00:00+00:00"}'),
        (Row("a", datetime(2031, 4, 9, tzinfo=UTC)), '{"name": "a", "at": "2031-04-09 00:00:00+00:00"}'),
        (UserDict({"a": 1}), '{"a": 1}'),
        (FrozenDict({"a": 1}), '{"a": 1}'),
        (ValueError("no such file"), "no such file"),
        (ValueError(), "ValueError"),
        (Silent(), "Silent"),
        ([Silent(), Hostile()], '["Silent", "Hostile"]'),
        (Hostile(), "Hostile"),
        ([10**5_000], '["int"]'),
        ({"n": 10**5_000, "m": 1}, '{"n": "int", "m": 1}'),
        (
            [ChatCompletionMessage(role="assistant", content="hi")],
            '[{"content": "hi", "role": "assistant"}]',
        ),
    ],
)
def test_what_a_tool_returns_becomes_text(value: Any, text: str) -> None:
    found = limit_tool_result(value)
    assert found == text or json.loads(found) == json.loads(text)


def test_values_that_hold_themselves_or_are_endlessly_deep_are_cut() -> None:
    circle: list[Any] = []
    circle.append({"me": circle})
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    for value in (circle, deep):
        assert limit_tool_result(value, 20, "|").startswith("[")


# --- messages


def tool(content: Any, **more: Any) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": "c1", "content": content, **more}


def test_everything_else_of_a_message_stays() -> None:
    cut = limit_message(tool("x" * 50, name="grep", extra=None), LimitPolicy(10, notice="|"), "m1")
    assert cut == tool("x" * 10 + "|", name="grep", extra=None)
    assert limit_message({"role": "function", "name": "f", "content": "x" * 50}, LimitPolicy(10, notice="|"), "m1")


@pytest.mark.parametrize("content", ["x" * 10, "", None, [], [{"type": "text", "text": "x" * 10}], {"a": 1}])
def test_a_message_that_is_short_enough_is_none_of_its_business(content: Any) -> None:
    assert limit_message(tool(content), LimitPolicy(10), "m1") is None


def test_parts_are_cut_as_one_text_and_media_stays() -> None:
    image = {"type": "image_url", "image_url": {"url": "data:" + "A" * 500}}
    parts = ["ab" * 5, image, {"type": "text", "text": "cd" * 5, "mark": 1}, {"type": "json", "v": "e" * 40}]
    whole = len("ab" * 5 + "cd" * 5) + len(json.dumps(parts[3]))
    cut = limit_message(tool(parts), LimitPolicy(16, tail=2, notice="<{cut}>"), "m1")
    assert cut is not None
    assert cut["content"] == [
        "ab" * 5,
        image,
        {"type": "text", "text": f"cdcd<{whole - 16}>", "mark": 1},
        {"type": "text", "text": '"}'},
    ]


def test_no_part_is_left_empty() -> None:
    parts = [{"type": "text", "text": text} for text in ("a" * 10, "b" * 10, "", "c" * 10)]
    for most in range(1, 30):
        for tail in range(most):
            cut = limit_message(tool(parts), LimitPolicy(most, tail=tail, notice="|"), "m1")
            assert cut is not None
            texts = [part["text"] for part in cut["content"]]
            assert all(texts)
            assert "".join(texts) == ("a" * 10 + "b" * 10 + "c" * 10)[: most - tail] + "|" + (
                ("a" * 10 + "b" * 10 + "c" * 10)[30 - tail :] if tail else ""
            )


def test_structured_content_is_cut_as_its_json() -> None:
    cut = limit_message(tool({"rows": ["中" * 50]}), LimitPolicy(15, notice="|"), "m1")
    assert cut == tool('{"rows": ["中中中中|')


# --- settings


@pytest.mark.parametrize(
    "wrong",
    [
        {"max_chars": 0},
        {"max_chars": -5},
        {"max_chars": True},
        {"max_chars": "8000"},
        {"max_chars": 1.5},
        {"max_chars": None},
        {"tail": -1},
        {"tail": 8_000},
        {"tail": True},
        {"notice": 7},
        {"recall_id": ""},
        {"recall_id": 12},
    ],
)
def test_wrong_settings_are_refused_by_name(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=f"^{next(iter(wrong))}: expected"):
        limit_tool_result("short", **wrong)


def test_what_limit_result_takes() -> None:
    own = LimitPolicy(50, tail=10)
    assert [limit_policy(given) for given in (None, False, True, 500, own)] == [
        None, None, LimitPolicy(), LimitPolicy(500), own,
    ]  # fmt: skip
