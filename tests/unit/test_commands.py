"""Each Redis operation as data: the script it names, the keys it may touch, and its replies read into typed answers."""

from __future__ import annotations

from typing import Any

import pytest

from compactor.budget import Budget
from compactor.claims import Begun
from compactor.commands import claim, prepare, push, sync
from compactor.commands.command import Command, SessionKeys, fields, number, session_keys, text
from compactor.commands.prepare import Judgement, Known, Mode
from compactor.commands.push import Batch
from compactor.commands.sync import Change, Synced
from compactor.exceptions import (
    MessageTooLargeError,
    SessionDamagedError,
)
from compactor.models import CompactionId, Kind, session_id
from compactor.records import Record, encode_message
from tests.unit.chat import Chat, result, user

KEYS = session_keys("test", session_id("tenant/chat-1"))
OWNER = CompactionId("owner-1")
CHAIN = b"c" * 16
ANCHOR = b"1.0 40 50 40 50 0"
JUDGED = Judgement(Budget(16_000, 9_600, 12_800, 100), "o200k_base", b'{"judged":1}')


def record(message: Chat, kind: Kind = Kind.ORIGINAL, tokens: int = 5) -> Record:
    encoded = encode_message(message, max_bytes=10**6)
    return Record(encoded.flags, kind, (tokens, tokens), 99, encoded.own, encoded.own, b"c" * 16, encoded.text)


def parsed(command: Command[Any], *replies: Any) -> Any:
    return command.parse(list(replies))


# --- keys and replies


def test_all_keys_of_a_session_share_one_hash_tag() -> None:
    assert all(key.startswith("{test:tenant/chat-1}:") for key in KEYS.all)
    assert len(set(KEYS.all)) == len(KEYS.all) == 8


def test_two_namespaces_and_two_sessions_never_meet() -> None:
    made = [session_keys(space, session_id(name)) for space in ("a", "b") for name in ("x", "y", "x/y")]
    assert len({key for keys in made for key in keys.all}) == 8 * len(made)


def test_the_order_of_keys_is_what_the_scripts_count_on() -> None:
    names = [key.rpartition(":")[2] for key in KEYS.all]
    assert names == ["state", "messages", "operations", "archive", "audit", "changes", "cleared", "cleared-archive"]
    assert list(SessionKeys.__slots__) == [*(name.replace("-", "_") for name in names), "summaries"]


@pytest.mark.parametrize(("value", "expected"), [(b"a", "a"), (None, ""), (7, "7"), ("a", "a"), (b"", "")])
def test_replies_as_text(value: Any, expected: str) -> None:
    assert text(value) == expected


@pytest.mark.parametrize(
    ("value", "expected"), [(b"7", 7), (None, 0), (b"", 0), ("", 0), (7, 7), (b"1.7e3", 1_700), (b"-3", -3)]
)
def test_replies_as_numbers(value: Any, expected: int) -> None:
    assert number(value) == expected


def test_flat_replies_as_fields() -> None:
    assert fields([b"a", b"1", b"b", b"2"]) == {"a": b"1", "b": b"2"}
    assert fields([]) == {}


# --- push


def pushing(*messages: Chat, lead: int = 0, max_bytes: int = 1_000) -> Command[push.Pushed]:
    encoded = [encode_message(message, max_bytes=10**6) for message in messages]
    batch = Batch(encoded, {"o200k_base": [7] * len(encoded)}, lead)
    return push.push(
        KEYS, batch, operation=b"12345678", remember_ms=1_000, ttl_ms=2_000, max_bytes=max_bytes,
        encoding="o200k_base", threshold=9_600, fixed=3,
    )  # fmt: skip


def test_a_push_is_one_script_with_five_arguments_a_message() -> None:
    command = pushing(user("a"), user("b"))
    assert (command.script, command.keys, command.reads) == ("push", KEYS.all, ())
    assert command.args[:5] == (b"12345678", 1_000, 2_000, 1_000, "o200k_base")
    assert (len(command.args) - len(pushing(user("a")).args)) == 5
    assert command.args[-2:] == (encode_message(user("b"), max_bytes=100).text, b"")


def test_a_push_answers_total_length_and_place() -> None:
    pushed = parsed(pushing(user("a")), [b"ok", 70, 3, 12, 1, 0, 900])
    assert (pushed.total, pushed.length, pushed.first, pushed.over, pushed.behind) == (70, 3, 12, True, False)
    assert pushed.stored_bytes == 900


def test_a_push_into_a_history_not_counted_has_no_total() -> None:
    assert parsed(pushing(user("a")), [b"ok", -1, 3, 2, 0, 1, 900]).total is None
    assert parsed(pushing(user("a")), [b"ok", -1, 3, 2, 0, 1, 900]).behind


def test_a_full_session_is_named_with_its_sizes() -> None:
    with pytest.raises(MessageTooLargeError, match="would hold 1200 bytes, over the limit of 1000; nothing was stored"):
        parsed(pushing(user("hunter2")), [b"full", 1_200])


@pytest.mark.parametrize(
    "command",
    [
        pushing(user("a")),
        prepare.prepare(KEYS, JUDGED, owner=OWNER, ttl_ms=1, known=Known(), queue_ms=1, lease_ms=5, max_attempts=3),
        claim.begin(KEYS, owner=OWNER, lease_ms=1, max_attempts=3),
    ],
)
def test_a_damaged_session_says_what_to_look_at(command: Command[Any]) -> None:
    with pytest.raises(SessionDamagedError, match="maxmemory-policy"):
        parsed(command, [b"damaged"], [])


# --- prepare


def preparing(known: Known, *, mode: Mode = "send") -> Command[tuple[None, prepare.Prepared | None]]:
    return prepare.prepare(
        KEYS, JUDGED, owner=OWNER, ttl_ms=2_000, known=known, queue_ms=900_000, lease_ms=5, max_attempts=3, mode=mode
    )  # fmt: skip


def answer(
    *,
    length: int,
    total: int = 50,
    kind: bytes = b"delta",
    claimed: int = 0,
    tail: tuple[Record, ...] = (),
    rest: tuple[Any, ...] = (),
) -> Any:
    told = [b"ok", 1_000, 10, length, total, 1, b"idle", claimed, b"", b"", kind, 2_500, CHAIN, ANCHOR, b"", b""]
    return [*told, [row.pack() for row in tail], *rest]


def prepared_from(command: Command[tuple[None, prepare.Prepared | None]], *replies: Any) -> prepare.Prepared:
    """What a prepare was told; nothing ran before it."""
    before, found = parsed(command, *replies)
    assert before is None
    assert isinstance(found, prepare.Prepared)
    return found


def test_a_prepare_judges_and_reads_in_one_round_trip() -> None:
    command = preparing(Known(5, 2))
    assert command.script == "prepare"
    assert (command.reads, command.args[-1]) == ((), "tail")
    assert (preparing(Known()).reads, preparing(Known()).args[-1]) == ((("LRANGE", KEYS.messages, 0, -1),), "")
    assert command.args[0] == OWNER
    assert JUDGED.json in command.args
    assert "send" in command.args
    assert "force" in preparing(Known(), mode="force").args
    assert "look" in preparing(Known(), mode="look").args


def test_an_unknown_session_prepares_to_nothing() -> None:
    assert parsed(preparing(Known()), [b"none"], []) == (None, None)


def test_a_first_prepare_gets_the_whole_history() -> None:
    rows = [record(user("a")), record(user("b"))]
    found = prepared_from(preparing(Known()), answer(length=2), [row.pack() for row in rows])
    assert (found.version, found.offset, found.length, found.total) == (1_000, 10, 2, 50)
    assert (found.lead, found.claim, found.claimed, found.held) == (1, "idle", False, "")
    assert (found.tail, found.changed, found.whole, found.queued_seconds) == (tuple(rows), {}, False, 2.5)
    assert found.anchor == ANCHOR.decode()
    assert found.chain == CHAIN


def test_a_later_prepare_gets_the_tail_and_what_was_replaced() -> None:
    new = record(result("a", "short"), Kind.SUMMARY)
    found = prepared_from(preparing(Known(999, 2)), answer(length=3, tail=(record(user("c")),), rest=(11, new.pack())))
    assert found.changed == {11: new}
    assert [row.value() for row in found.tail] == [user("c")]


def test_a_reader_too_far_behind_must_read_all() -> None:
    found = prepared_from(preparing(Known(7, 2)), answer(length=3, kind=b"all"))
    assert found.whole
    assert found.tail == ()


def test_nothing_known_is_never_too_far_behind() -> None:
    found = prepared_from(preparing(Known()), answer(length=1, kind=b"all"), [record(user("a")).pack()])
    assert not found.whole
    assert len(found.tail) == 1


def test_a_history_shorter_than_its_state_is_damaged() -> None:
    with pytest.raises(SessionDamagedError):
        parsed(preparing(Known()), answer(length=2), [record(user("a")).pack()])


def test_a_total_that_is_not_counted_is_none() -> None:
    assert prepared_from(preparing(Known()), answer(length=0, total=-1), []).total is None


def test_a_claim_just_taken_is_told() -> None:
    assert prepared_from(preparing(Known()), answer(length=0, claimed=1), []).claimed


def test_a_change_right_before_a_prepare_shares_its_round_trip() -> None:
    change = sync.sync(KEYS, Change(CHAIN), version=7, length=2, ttl_ms=1, max_bytes=9)
    command = prepare.prepare(
        KEYS, JUDGED, owner=OWNER, ttl_ms=2_000, known=Known(7, 2), queue_ms=1, lease_ms=5, max_attempts=3, first=change
    )
    assert (command.script, command.args, command.then and command.then[0]) == ("sync", change.args, "prepare")
    done, found = parsed(command, [b"changed"], answer(length=2))
    assert (done, found.length) == (Synced("changed"), 2)


@pytest.mark.parametrize(("reply", "stored"), [(b"ok", True), (b"changed", False)])
def test_a_recount_tells_whether_it_was_stored(reply: bytes, stored: bool) -> None:
    command = prepare.recount(KEYS, encoding="o200k_base", version=1, length=2, total=50, lead_tokens=4)
    assert command.args == ("o200k_base", 1, 2, 50, 4)
    assert parsed(command, reply) is stored


# --- the worker's side


@pytest.mark.parametrize("status", ["lost", "gone", "dead"])
def test_a_start_without_a_claim(status: str) -> None:
    begun = parsed(claim.begin(KEYS, owner=OWNER, lease_ms=90_000, max_attempts=3), [status.encode()], [])
    assert (begun.begun, begun.stored) == (Begun(status), None)


def test_a_start_while_the_same_owner_still_runs() -> None:
    begun = parsed(claim.begin(KEYS, owner=OWNER, lease_ms=90_000, max_attempts=3), [b"busy", 1_500], [])
    assert (begun.begun, begun.busy_ms) == (Begun.BUSY, 1_500)


def test_a_start_reads_the_snapshot_in_the_same_transaction() -> None:
    command = claim.begin(KEYS, owner=OWNER, lease_ms=90_000, max_attempts=3)
    assert command.reads == (("LRANGE", KEYS.messages, 0, -1),)
    state = [b"running", b"revision", b"7", b"length", b"1", b"claim", b"running", b"attempts", b"2"]
    begun = parsed(command, state, [record(user("a")).pack()])
    assert begun.begun is Begun.RUNNING
    assert begun.stored.raw["attempts"] == b"2"
    assert [row.value() for row in begun.stored.records] == [user("a")]
    with pytest.raises(SessionDamagedError):
        parsed(command, state, [])


@pytest.mark.parametrize("status", ["ok", "lost", "gone"])
def test_an_archive_names_each_position_once(status: str) -> None:
    command = claim.archive(KEYS, owner=OWNER, originals={3: b"x", 12: b"y"})
    assert command.args == (OWNER, 3, b"x", 12, b"y")
    assert parsed(command, status.encode()) == status


@pytest.mark.parametrize("status", ["applied", "stale", "gone"])
def test_a_swap_carries_totals_of_each_encoding_and_the_records(status: str) -> None:
    new = record(result("a", "short"), Kind.SUMMARY)
    command = claim.swap(
        KEYS, owner=OWNER, last_position=12, replacements=[(3, new)], saved={"o200k_base": 40}, bytes_saved=100,
        rearm=0, held="", outcome={"id": "a"},
    )  # fmt: skip
    assert command.args == (OWNER, 12, b'{"id":"a"}', 100, 0, "", 1, "o200k_base", 40, 3, new.pack())
    assert parsed(command, status.encode()) == status


def test_the_ends_of_a_claim_tell_whether_it_was_still_ours() -> None:
    release = claim.release(
        KEYS, owner=OWNER, outcome={"id": "a"}, pause_ms=5, rearm=9, held="no_gain", audit=True
    )  # fmt: skip
    assert release.args == (OWNER, b'{"id":"a"}', 5, 9, "no_gain", 1)
    for command, yes in (
        (release, b"released"),
        (claim.unqueue(KEYS, owner=OWNER), b"released"),
        (claim.retry(KEYS, owner=OWNER, wait_ms=7, patience_ms=3), b"queued"),
    ):
        assert parsed(command, yes) is True
        assert parsed(command, b"lost") is False
