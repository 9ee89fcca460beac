"""The measure of retention, on a session made by hand, and the floors of our extracts on recorded samples."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from compactor.encodings import encoder
from compactor.needles import Case, cases, failure_lines, holds, plain
from compactor.retention import (
    Figures,
    Shorten,
    by_extracts,
    by_head_and_tail,
    by_last,
    by_oracle,
    by_placeholder,
    measure,
    old_texts,
)
from tests.conftest import recorded
from tests.unit.chat import Chat, assistant, call, calling, long_text, result, user

ENCODE = encoder("cl100k_base")


def session(*results: str, later: str) -> list[Chat]:
    """A step for each result, then what the assistant does with them."""
    chat = [user("do it")]
    for number, text in enumerate(results):
        chat += [calling(call(f"c{number}", "read", f'{{"n": {number}}}')), result(f"c{number}", text)]
    return [*chat, calling(call("last", "use", later)), result("last", "ok"), assistant("done"), result("x", "z")]


def found(*results: str, later: str) -> list[Case]:
    return list(cases(session(*results, later=later), ENCODE))


LONG = long_text(400, "row")


def figures(shorten: Shorten, *results: str, later: str) -> Figures:
    return measure(found(*results, later=later), shorten, ENCODE)


def whole(case: Case) -> Sequence[str]:
    return old_texts(case)


def test_what_a_later_call_uses_is_a_needle_with_its_label() -> None:
    for case in found(f"{LONG}\nticket INC-48213", "newer", "newest", "last", later='{"id": "INC-48213"}'):
        assert set(case.needles) == {"inc-48213"}
        assert case.labels["inc-48213"] == {"ticket"}


@pytest.mark.parametrize("known", ["user", "newer result"])
def test_what_stands_in_what_stays_is_none(known: str) -> None:
    newest = "INC-48213" if known == "newer result" else "newest"
    chat = session(f"{LONG}\nticket INC-48213", newest, later='{"id": "INC-48213"}')
    if known == "user":
        chat[0] = user("cancel INC-48213")
    assert not [case for case in cases(chat, ENCODE) if case.needles]


def test_what_the_assistant_said_before_does_not_count() -> None:
    chat = session(f"{LONG}\nticket INC-48213", "newer", "newest", "last", later='{"id": "INC-48213"}')
    chat[3] = assistant("I saw INC-48213.", tool_calls=chat[3]["tool_calls"])
    seen = list(cases(chat, ENCODE))
    assert all(needle.restated for case in seen for needle in case.needles.values())
    assert measure(seen, whole, ENCODE).values is None


@pytest.mark.parametrize(
    ("shorten", "values", "labelled"),
    [(whole, 100.0, 100.0), (by_placeholder, 0.0, 0.0), (by_oracle, 100.0, 0.0), (by_extracts(0.2, ENCODE), 100, 100)],
)
def test_ways_of_shortening_are_told_apart(shorten: Shorten, values: float, labelled: float) -> None:
    told = figures(shorten, f"{LONG}\nticket INC-48213\n{LONG}", "a", "b", "c", later='{"id": "INC-48213"}')
    assert (told.values, told.labelled) == (values, labelled)


def test_tokens_left_are_those_of_the_old_results() -> None:
    text = f"{LONG}\nticket INC-48213\n{LONG}"
    told = [
        figures(shorten, text, "a", "b", "c", later='{"id": "INC-48213"}').left
        for shorten in (whole, by_extracts(0.2, ENCODE), by_head_and_tail(100, ENCODE), by_placeholder, by_last(9))
    ]
    assert told[0] == told[4] == 100.0
    assert 0 < told[3] < told[2] < told[1] <= 20.0


def test_lines_that_tell_of_a_failure_are_counted() -> None:
    text = f"{LONG}\nbash: foo: command not found\nValueError: no such row\nraise ValueError('x')\n{LONG}\nINC-48213"
    assert failure_lines(text) == {"bash: foo: command not found", "valueerror: no such row"}
    told = figures(by_extracts(0.2, ENCODE), text, "a", "b", "c", later='{"id": "INC-48213"}')
    assert told.failures == 100.0
    assert figures(by_placeholder, text, "a", "b", "c", later='{"id": "INC-48213"}').failures == 0.0


@pytest.mark.parametrize(
    ("text", "value", "is_held"),
    [
        ("order #w123 is", "w123", True), ("w1234", "w123", False), ("aw123", "w123", False), ("x.w123-", "w123", True),
        ("w1234 w123", "w123", True), ("", "w123", False), ("1234", "1,234", False),
    ],
)  # fmt: skip
def test_a_value_is_held_only_as_a_whole(text: str, value: str, is_held: bool) -> None:
    assert holds(text, value) is is_held


def test_thousands_are_compared_without_their_separators() -> None:
    assert plain(" Paid $1,234.50 ") == "paid $1234.50"


def test_a_leaf_of_json_is_a_value_under_its_key() -> None:
    text = json.dumps({"items": [{"name": "desk lamp"}, {"name": "backpack"}], "notes": LONG})
    for case in found(text, "a", "b", "c", later='{"text": "the backpack"}'):
        assert case.labels["backpack"] == {"name"}


SAMPLES: dict[str, tuple[int, float, float, float]] = {
    # sessions, share of the tokens, and least values and labelled values kept in percent
    "taubench_airline_gpt4o": (40, 0.2, 80, 50),
    "tau2_gpt41": (30, 0.2, 80, 50),
    "tau2_gpt5_parallel": (30, 0.2, 80, 50),
    "msagent_finance_zh": (4, 0.22, 95, 80),
    "livemcp_claude4": (50, 0.2, 85, 45),
}


@pytest.mark.parametrize("name", SAMPLES)
def test_extracts_keep_what_later_turns_need(name: str) -> None:
    most, share, values, labelled = SAMPLES[name]
    sample: list[Any] = [case for row in recorded(name, most=most) for case in cases(row["messages"], ENCODE)]
    told = measure(sample, by_extracts(share, ENCODE), ENCODE)
    assert told.left <= 100 * share
    assert told.values is not None
    assert told.values >= values
    assert told.labelled is not None
    assert told.labelled >= labelled
