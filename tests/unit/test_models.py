"""Ids, messages, verdicts and outcomes as values."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compactor.exceptions import ConfigurationError
from compactor.models import Code as OutcomeCode
from compactor.models import (
    Fit,
    Kind,
    Message,
    Outcome,
    Replacement,
    Verdict,
    recall_id,
    recall_position,
    session_id,
)

GOOD_IDS = ["a", "tenant/chat-42", "A.b_c:d@e/f-g", "0" * 200, "/", "a//b"]
BAD_IDS = [
    "", " ", "a b", "a\n", "\na", "a{b}", "a}", "é", "任务", "a*", "a?b", "x" * 201, "a\x00", "a\ud800", "a#b", "a%20b",
]  # fmt: skip
BAD_TYPES = [None, 7, b"a", ["a"], True]


@pytest.mark.parametrize("text", GOOD_IDS)
def test_a_good_session_id_is_taken_as_it_is(text: str) -> None:
    assert session_id(text) == text


@pytest.mark.parametrize("text", [*BAD_IDS, *BAD_TYPES])
def test_a_bad_session_id_is_refused_with_an_example(text: Any) -> None:
    with pytest.raises(ConfigurationError, match="tenant/chat-42"):
        session_id(text)


@given(st.text())
def test_a_session_id_never_breaks_out_of_its_hash_tag(text: str) -> None:
    try:
        accepted = session_id(text)
    except ConfigurationError:
        return
    assert accepted.isascii()
    assert not set(accepted) & set("{}* \n\r\t")


def test_a_refused_session_id_is_not_quoted() -> None:
    with pytest.raises(ConfigurationError) as caught:
        session_id("名 alice@example.com")
    assert "alice" not in str(caught.value)


@given(st.integers(0, 10**15 - 1))
def test_a_recall_id_names_its_position(position: int) -> None:
    assert recall_position(recall_id(position)) == position


@pytest.mark.parametrize("text", ["", "m", "12", "m-1", "m1.5", "M12", "mm1", "m1 2", "m" + "9" * 40, None, 12])
def test_what_is_no_recall_id_is_refused_with_an_example(text: Any) -> None:
    with pytest.raises(ConfigurationError, match="m12"):
        recall_position(text)


@pytest.mark.parametrize("kind", [kind for kind in Kind if kind not in (Kind.ORIGINAL, Kind.LIMITED)])
def test_every_kind_but_what_a_push_stores_is_a_replacement(kind: Kind) -> None:
    assert Message(0, {"role": "tool"}, 1, kind).replaced
    assert not Message(0, {"role": "tool"}, 1).replaced
    assert not Message(0, {"role": "tool"}, 1, Kind.LIMITED).replaced


def test_the_numbers_of_the_stored_kinds_never_change() -> None:
    assert {kind.name: kind.value for kind in Kind} == {
        "ORIGINAL": 0, "POINTER": 1, "CONDENSED": 2, "SUMMARY": 3, "EXTRACT": 4, "ELIDED": 5, "FOLD": 6, "TOMBSTONE": 7,
        "LIMITED": 8, "FOLDED": 9, "CORRUPT": 255,
    }  # fmt: skip


def test_the_words_of_outcomes_and_fits_never_change() -> None:
    assert {code.value for code in OutcomeCode} == {
        "applied", "drafted", "below_threshold", "nothing_to_do", "no_gain", "busy", "stale", "gone",
        "summarizer_failed", "exhausted", "dead", "undone", "shadow", "queued", "running", "unknown",
    }  # fmt: skip
    assert {fit.value for fit in Fit} == {"fits", "shortened", "impossible", "shadow", "degraded"}


def test_values_are_frozen() -> None:
    message = Message(0, {"role": "user"}, 1)
    with pytest.raises(dataclasses.FrozenInstanceError):
        message.tokens = 2  # type: ignore[misc] # why: writing is what must fail


def verdict(**changes: Any) -> Verdict:
    values: dict[str, Any] = {
        "system": 100, "history": 850, "tools": 50, "total": 1000, "expected": 1000, "limit": 4000, "threshold": 3000,
        "ceiling": 3500, "length": 5, "compaction": "not_needed",
    }  # fmt: skip
    return Verdict(**{**values, **changes})


def test_percent_is_of_the_limit_with_one_decimal() -> None:
    assert verdict().percent == 25.0
    assert verdict(expected=1, limit=3).percent == 33.3


def test_percent_until_compaction_is_never_negative() -> None:
    assert verdict().percent_until_compaction == 50.0
    assert verdict(expected=3500).percent_until_compaction == 0.0


@pytest.mark.parametrize(("expected", "over"), [(2999, False), (3000, True), (3001, True)])
def test_the_threshold_itself_is_over(expected: int, over: bool) -> None:
    assert verdict(expected=expected).over_threshold is over


def test_what_was_saved_is_before_minus_after() -> None:
    assert Replacement(3, {"role": "tool"}, Kind.SUMMARY, before=900, after=120).saved == 780
    assert Outcome(OutcomeCode.APPLIED, before=900, after=120).saved == 780
