"""Each fault of a list is seen by the checks of `compactor chaos`, and a sound list passes them."""

from __future__ import annotations

from typing import Any

import pytest

from compactor import Context, Verdict
from compactor.cli.chaos.checks import check_list, check_words, refused
from compactor.models import Fit


def user(text: str, bot: int = 0) -> dict[str, Any]:
    return {"role": "user", "content": f"[b{bot} {text}] words"}


def call(*ids: str) -> dict[str, Any]:
    function = {"name": "query", "arguments": "{}"}
    return {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": name, "type": "function", "function": function} for name in ids],
    }


def result(name: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": name, "content": f"rows of {name}"}


def said(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


TALK = [user("1"), call("a", "b"), result("a"), result("b"), said("Done."), user("2")]
WAITING = [user("1"), call("a", "b"), result("a")]
CUT = [*WAITING, user("2")]  # the bot died in its step
CLOSED = [*WAITING, result("b"), user("2")]  # as the list comes back


def context(messages: list[Any], *, fit: Fit = Fit.FITS, length: int | None = None) -> Context:
    whole = len(messages) if length is None else length
    return Context(messages, Verdict(1, 1, 1, 1, 1, 1, 1, 1, whole, "not_needed", fit))


def seen(pushed: list[Any], given: Context, *, alone: bool = True, doubtful: bool = False) -> list[str]:
    found = (
        *check_words(pushed, given, mark="[b0 ", alone=alone),
        *check_list(pushed, given, alone=alone, doubtful=doubtful),
    )
    return [fault.name for fault in found]


@pytest.mark.parametrize("pushed", [TALK, WAITING, TALK[:1]])
def test_the_list_as_it_was_pushed_is_sound(pushed: list[Any]) -> None:
    assert seen(pushed, context(pushed)) == []


def test_a_call_that_was_closed_is_sound() -> None:
    assert seen(CUT, context(CLOSED)) == []


def test_a_call_left_open_is_invalid() -> None:
    assert "invalid" in seen(CUT, context(CUT))


def test_a_shortened_list_is_sound_while_its_end_is_there() -> None:
    assert seen(TALK, context(TALK[-2:], fit=Fit.SHORTENED, length=len(TALK))) == []


def test_a_shortened_giant_at_the_end_is_sound() -> None:
    given = [*WAITING[:2], {**WAITING[2], "content": "rows …"}]
    assert seen(WAITING, context(given, fit=Fit.SHORTENED)) == []


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (TALK[:-1], ["lost"]),
        (TALK[1:], ["lost"]),
        ([*TALK, said("more")], ["duplicated"]),
        ([*TALK[:3], TALK[4], TALK[5], TALK[3]], ["invalid", "invalid"]),
        ([user("1"), said("Done."), TALK[2], TALK[3], TALK[4], user("2")], ["invalid"]),
        ([*TALK[:-1], said("another end")], ["invalid"]),
        ([*TALK[:-1], user("3")], ["changed", "invalid"]),
        ([*TALK[:-1], user("2", bot=9)], ["changed", "invalid"]),
        ([*TALK[:4], user("2"), TALK[4]], ["invalid"]),
    ],
    ids=[
        "tail-lost", "head-lost", "one-more", "late-answer", "orphans", "other-end", "words-changed", "foreign-words",
        "order-changed",
    ],
)  # fmt: skip
def test_a_damaged_list_is_seen(given: list[Any], expected: list[str]) -> None:
    assert seen(TALK, context(given)) == expected


def test_the_newest_user_message_must_be_there() -> None:
    given = context(TALK[1:5], fit=Fit.SHORTENED, length=5)
    assert seen(TALK[:5], given) == ["invalid"]


def test_a_list_from_memory_may_be_an_older_one() -> None:
    assert seen(TALK, context(TALK[:5], fit=Fit.DEGRADED)) == []


def test_a_list_from_memory_must_be_one_that_there_was() -> None:
    assert seen(TALK, context([*TALK[:4], said("Never.")], fit=Fit.DEGRADED)) == ["invalid"]


def test_lengths_say_nothing_while_a_push_is_in_doubt() -> None:
    assert seen(TALK, context([*TALK[:5], said("late"), TALK[5]]), doubtful=True) == []


def test_in_a_shared_session_others_may_speak() -> None:
    given = [*TALK[:5], user("1", bot=7), said("Yes."), TALK[5]]
    assert seen(TALK, context(given), alone=False) == []


def test_in_a_shared_session_an_orphan_is_invalid_all_the_same() -> None:
    assert seen(TALK, context([*TALK, result("z")]), alone=False) == ["invalid"]


def test_waiting_calls_at_the_end_are_not_refused() -> None:
    assert refused(WAITING) == {}
    assert refused(CUT) == {"open_call": 1}
