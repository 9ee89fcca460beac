"""Reads of a session as data: their replies, in either protocol, become typed answers or our own errors."""

from __future__ import annotations

import json
from typing import Any

import pytest

from compactor.archive import compress
from compactor.commands import read, recall
from compactor.commands.recall import Ending
from compactor.exceptions import (
    RecallExpiredError,
    SchemaVersionError,
    SessionDamagedError,
    SessionNotFoundError,
)
from compactor.models import Code, Erased, Outcome
from compactor.outcomes import to_json
from compactor.records import unpack
from tests.unit.chat import result, user
from tests.unit.test_commands import KEYS, parsed, record

STATE = {
    "revision": b"1000", "offset": b"10", "length": b"2", "lead": b"1", "claim": b"running", "owner": b"owner-1",
    "until": b"99999999999999", "held": b"", "o200k_base.total": b"50", "o200k_base.counted": b"2",
    "o200k_base.lead": b"4", "cl100k_base.total": b"30", "cl100k_base.counted": b"1", "attempts": b"2", "bytes": b"640",
    "last": json.dumps(to_json(Outcome(Code.APPLIED, id="a"))).encode(),
}  # fmt: skip


def flat(raw: dict[str, bytes]) -> list[bytes]:
    return [part for name, value in raw.items() for part in (name.encode(), value)]


def test_an_unknown_session_has_an_empty_state() -> None:
    command = read.read_state(KEYS, "o200k_base")
    state = parsed(command, [None] * (len(command.reads[0]) - 2))
    assert (state.exists, state.length, state.claim, state.last) == (False, 0, "idle", {})


def test_a_state_holds_the_totals_of_each_encoding_that_counted_all() -> None:
    state = read.parse_state(STATE)
    assert state.totals == {"o200k_base": (50, 4)}
    assert (state.revision, state.offset, state.length, state.lead) == (1_000, 10, 2, 1)
    assert (state.claim, state.owner, state.exists) == ("running", "owner-1", True)


@pytest.mark.parametrize("shape", ["dict", "flat"])
def test_a_whole_history_is_read_from_either_protocol(shape: str) -> None:
    raw: Any = {name.encode(): value for name, value in STATE.items()} if shape == "dict" else flat(STATE)
    kept: Any = {b"11": b"blob"} if shape == "dict" else [b"11", b"blob"]
    rows = [record(user("a")).pack(), record(user("b")).pack()]
    stored = parsed(read.read_history(KEYS, archive=True), raw, rows, kept)
    assert [row.value() for row in stored.records] == [user("a"), user("b")]
    assert stored.archive == {11: b"blob"}
    with pytest.raises(SessionDamagedError):
        parsed(read.read_history(KEYS), raw, rows[:1])


def test_an_unknown_history_is_empty() -> None:
    stored = parsed(read.read_history(KEYS), {}, [])
    assert (stored.records, stored.state.exists) == ((), False)


def test_the_audit_is_read_in_order() -> None:
    rows = [json.dumps({"id": name}).encode() for name in "ab"]
    assert parsed(read.read_audit(KEYS), rows) == [{"id": "a"}, {"id": "b"}]


def test_a_status_of_an_unknown_session() -> None:
    assert not parsed(read.read_status(KEYS), {}, 0, 0, -2, [b"1", b"0"]).exists


def test_a_status_shows_totals_claim_and_the_last_outcome() -> None:
    raw = {name.encode(): value for name, value in STATE.items()}
    status = parsed(read.read_status(KEYS), raw, 3, 1, 5_000, [b"1700000000", b"0"])
    assert (status.exists, status.length, status.totals, status.claim) == (True, 2, {"o200k_base": 50}, "running")
    assert (status.attempts, status.stored_bytes, status.archived, status.compactions) == (2, 640, 3, 1)
    assert status.expires_in == 5.0
    assert status.last == Outcome(Code.APPLIED, id="a")


def test_a_claim_whose_time_ran_out_is_idle() -> None:
    raw = {name.encode(): value for name, value in {**STATE, "until": b"1000"}.items()}
    assert parsed(read.read_status(KEYS), raw, 3, 1, 5_000, [b"1700000000", b"0"]).claim == "idle"


def load(**given: bytes) -> read.Load:
    """A load read from these fields of the hash, the others absent."""
    command = read.read_load(KEYS, "o200k_base", "0a1b2c")
    names = [str(name).replace(".", "_") for name in command.reads[0][2:]]
    assert set(given) <= set(names)
    found: read.Load = parsed(command, [given.get(name) for name in names])
    return found


@pytest.mark.parametrize(
    ("given", "length", "total"),
    [
        ({}, 0, 0),
        ({"length": b"2", "o200k_base_total": b"50", "o200k_base_counted": b"2"}, 2, 50),
        ({"length": b"2", "o200k_base_total": b"50", "o200k_base_counted": b"1"}, 2, None),
        ({"length": b"2"}, 2, None),
        ({"length": b"0"}, 0, 0),
    ],
)
def test_a_load_has_a_total_once_the_whole_history_is_counted(
    given: dict[str, bytes], length: int, total: int | None
) -> None:
    found = load(**given)
    assert (found.length, found.total) == (length, total)


@pytest.mark.parametrize(
    ("given", "now", "standing"),
    [
        ({"claim": b"running", "until": b"2000"}, 1.0, ("running", "")),
        ({"claim": b"queued", "until": b"2000"}, 3.0, ("idle", "")),
        ({"claim": b"idle", "held": b"no_gain", "rearm": b"500"}, 1.0, ("idle", "no_gain")),
        ({"claim": b"idle", "held": b"no_gain", "rearm": b"400"}, 1.0, ("idle", "")),
        ({"claim": b"idle", "held": b"backoff", "not_before": b"2000"}, 1.0, ("idle", "backoff")),
        ({"claim": b"idle", "held": b"backoff", "not_before": b"2000"}, 3.0, ("idle", "")),
        ({"claim": b"idle", "held": b"dead"}, 9.0, ("idle", "dead")),
        ({}, 1.0, ("idle", "")),
    ],
)
def test_where_a_claim_stands_at_a_time_for_a_send_of_400_tokens(
    given: dict[str, bytes], now: float, standing: tuple[str, str]
) -> None:
    assert load(length=b"2", **given).standing(now, 400) == standing


# --- recall


def test_a_recalled_message_is_the_original_wherever_it_is_kept() -> None:
    row = record(result("a", "long"))
    command = recall.recall(KEYS, 12)
    assert command.args == (12,)
    assert parsed(command, [12, b"live", row.pack()]) == row
    assert parsed(command, [12, b"archived", compress(row.pack())]) == row


def test_what_is_gone_is_told_apart() -> None:
    with pytest.raises(SessionNotFoundError) as caught:
        parsed(recall.recall(KEYS, 12), [b"gone"])
    assert not isinstance(caught.value, RecallExpiredError)
    with pytest.raises(RecallExpiredError, match="recall id m12"):
        parsed(recall.recall(KEYS, 12), [b"unknown"])


def test_a_damaged_original_is_a_damaged_session() -> None:
    with pytest.raises(SessionDamagedError):
        parsed(recall.recall(KEYS, 12), [12, b"archived", b"garbage"])


def test_a_clear_answers_how_many_messages_moved() -> None:
    command = recall.clear(KEYS, operation=b"12345678", remember_ms=9)
    assert command.args == (b"12345678", 9, "clear")
    assert parsed(command, [7, 2, 3, 1]) == Erased(messages=7, archived=2, cleared=3, audit=1)
    assert parsed(command, []) == Erased()


@pytest.mark.parametrize("ending", ["heal", "erase"])
def test_a_conversation_also_ends_by_healing_or_for_good(ending: Ending) -> None:
    assert recall.clear(KEYS, operation=b"12345678", remember_ms=9, ending=ending).args[-1] == ending


def test_a_conversation_of_a_newer_release_is_not_ended() -> None:
    with pytest.raises(SchemaVersionError, match="schema 2"):
        parsed(recall.clear(KEYS, operation=b"12345678", remember_ms=9), [b"newer", b"2"])


def test_records_travel_whole() -> None:
    row = record(user("数据 \ud800"))
    assert unpack(row.pack()) == row
