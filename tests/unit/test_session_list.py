"""States read into rows: what an operator is told of a session, whatever stands in its state."""

from __future__ import annotations

from typing import Any

import pytest

from compactor.commands import dead, sessions
from compactor.commands.dead import is_dead
from compactor.commands.sessions import Seen
from compactor.models import SessionId

NOW = (1_000, 500_000)  # seconds, microseconds
NOW_MS = 1_000_500
NAME = SessionId("t/a")
JUDGED = b'{"encoding":"cl100k_base","fixed":100,"limit":1000,"threshold":750}'
COUNTED = {"cl100k_base.total": b"400", "cl100k_base.counted": b"2"}


def seen(**fields: bytes) -> Seen:
    """What a state with these fields is told as; names with a dot are given with two underscores."""
    state = {"revision": b"1", "length": b"2", "judged": JUDGED, **COUNTED}
    state |= {name.replace("__", "."): value for name, value in fields.items()}
    command = sessions.read_seen("n", [NAME], max_attempts=3)
    names = command.reads[1][2:]
    (row,) = command.parse([NOW, [state.get(str(name)) for name in names], 5_000])
    return row


def test_expected_tokens_are_measured_against_the_limit_of_the_last_send() -> None:
    row = seen(bytes=b"900", attempts=b"1")
    assert (row.session, row.messages, row.tokens, row.percent) == (NAME, 2, 400, 50.0)
    assert (row.state, row.stored_bytes, row.attempts, row.expires_in) == ("idle", 900, 1, 5.0)


def test_messages_that_left_the_conversation_do_not_count() -> None:
    assert seen(length=b"5", tombs=b"3", cl100k_base__counted=b"5").messages == 2


def test_tokens_come_from_an_encoding_that_counted_all_of_it() -> None:
    behind: dict[str, bytes] = {"cl100k_base__counted": b"1"}
    assert seen(**behind).tokens is None
    assert seen(**behind).percent is None
    other = seen(o200k_base__total=b"300", o200k_base__counted=b"2", **behind)
    assert (other.tokens, other.percent) == (300, 40.0)


@pytest.mark.parametrize("fixed", [b"349", b"350"])
def test_due_begins_at_the_threshold(fixed: bytes) -> None:
    judged = JUDGED.replace(b"100", fixed)
    assert seen(judged=judged).state == ("due" if fixed == b"350" else "idle")


@pytest.mark.parametrize(
    "broken",
    [
        {"judged": b"{"},
        {"judged": b"[]"},
        {"judged": b'{"encoding":"cl100k_base"}'},
        {"length": b"many"},
        {"until": b"soon", "claim": b"queued"},
        {"judged": JUDGED.replace(b"1000", b'"big"')},
    ],
)
def test_a_broken_state_ends_no_listing(broken: dict[str, bytes]) -> None:
    assert seen(**broken) == Seen(NAME, expires_in=5.0)


def test_a_session_that_ended_meanwhile_is_left_out() -> None:
    command = sessions.read_seen("n", [NAME, SessionId("t/b")], max_attempts=3)
    nothing: list[Any] = [None] * len(command.reads[1][2:])
    assert command.parse([NOW, nothing, -2, nothing, -2]) == []


def test_a_page_holds_ids_and_not_keys() -> None:
    command = sessions.read_page("n", 0)
    assert command.reads == (("SCAN", 0, "MATCH", "{n:*}:state", "COUNT", 1_000),)
    page = command.parse([(7, [b"{n:t/a}:state", b"{n:a:b@c/d}:state"])])
    assert (page.cursor, page.sessions) == (7, ["t/a", "a:b@c/d"])


def test_a_tenant_is_asked_for_by_pattern_and_checked() -> None:
    command = sessions.read_page("n", 0, tenant="t")
    assert command.reads[0][3] == "{n:t/*}:state"
    keys = [b"{n:t/a}:state", b"{n:a}:state", b"{n:default/b}:state"]
    assert sessions.read_page("n", 0, tenant="default").parse([(0, keys)]).sessions == ["a", "default/b"]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, False),
        ({"attempts": b"2"}, False),
        ({"attempts": b"3"}, True),
        ({"held": b"dead"}, True),
        ({"held": b"damaged", "claim": b"idle"}, True),
        ({"held": b"no_gain"}, False),
        ({"attempts": b"3", "claim": b"running", "until": b"1000501"}, False),
        ({"attempts": b"3", "claim": b"running", "until": b"1000500"}, True),
        ({"attempts": b"3", "claim": b"queued", "until": b"2000000"}, False),
    ],
)
def test_dead_is_who_has_no_attempt_left_and_is_not_being_worked_on(fields: dict[str, bytes], expected: bool) -> None:
    assert is_dead({"revision": b"1", **fields}, NOW_MS, 3) is expected
    assert not is_dead(fields, NOW_MS, 3), "a session without a revision is gone"


def test_the_place_of_a_crash_is_told_before_the_code_of_the_entry() -> None:
    command = dead.read_dead("n", {NAME: b'{"reason":"attempts_used_up","attempts":0,"since":2500}'}, max_attempts=3)
    told = command.parse([NOW, [b"1", b"3", b"idle", None, b"dead", b"KeyError at view.py:8"]])
    assert told == {NAME: dead.Dead(NAME, "KeyError at view.py:8", 3, 2.5)}
    told = command.parse([NOW, [b"1", b"3", b"idle", None, b"dead", None]])
    assert told[NAME].reason == "attempts_used_up"
