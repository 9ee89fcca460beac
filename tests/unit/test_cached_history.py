"""The history that a process holds: each answer brings it up to date, as if it were read whole."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from compactor.cached_history import EMPTY, CachedHistory, updated
from compactor.commands.prepare import Prepared
from compactor.models import CompactionId, Kind
from compactor.records import NOT_COUNTED, PINNED, PROVISIONAL, Record, encode_message
from compactor.stored_messages import read_messages
from compactor.tokens import count_message
from compactor.view import Cut
from tests.unit.chat import Chat, by_length, result, user
from tests.unit.conversations import conversations

O200K = "o200k_base"


def record(message: Chat, *, kind: Kind = Kind.ORIGINAL, tokens: int | None = None, flags: int = 0) -> Record:
    encoded = encode_message(message, max_bytes=10**7)
    counts = (NOT_COUNTED, NOT_COUNTED if tokens is None else tokens)
    return Record(encoded.flags | flags, kind, counts, 1, encoded.own, encoded.own, b"c" * 16, encoded.text)


def prepared(
    *,
    version: int,
    length: int,
    tail: tuple[Record, ...] = (),
    changed: dict[int, Record] | None = None,
    offset: int = 0,
) -> Prepared:
    return Prepared(
        version=version, offset=offset, length=length, total=0, lead=0, claim="idle", claimed=False,
        held="", owner=CompactionId(""), queued_seconds=0.0, whole=False, changed=changed or {}, tail=tail,
    )  # fmt: skip


def held(*messages: Chat, offset: int = 0) -> CachedHistory:
    rows = tuple(record(message) for message in messages)
    return updated(EMPTY, prepared(version=1, length=len(rows), tail=rows, offset=offset), O200K, by_length)


def test_the_first_answer_fills_the_history() -> None:
    history = held(user("a"), user("b"), offset=10)
    assert [(message.position, message.value) for message in history.messages] == [(10, user("a")), (11, user("b"))]
    assert (history.version, history.offset) == (1, 10)


def test_nothing_new_gives_the_very_same_history() -> None:
    history = held(user("a"))
    assert updated(history, prepared(version=1, length=1), O200K, by_length) is history


def test_a_tail_is_appended_and_what_was_held_stays_the_same_object() -> None:
    history = held(user("a"))
    longer = updated(history, prepared(version=1, length=2, tail=(record(user("b")),)), O200K, by_length)
    assert longer.messages[0] is history.messages[0]
    assert longer.messages[1].position == 1
    assert longer.size > history.size


def test_a_replaced_message_changes_in_its_place_alone() -> None:
    history = held(user("a"), result("x", "long"), user("b"), offset=5)
    short = record(result("x", "short"), kind=Kind.SUMMARY, tokens=3, flags=PROVISIONAL | PINNED)
    new = updated(history, prepared(version=2, length=3, changed={6: short}, offset=5), O200K, by_length)
    assert (new.messages[0], new.messages[2]) == (history.messages[0], history.messages[2])
    message = new.messages[1]
    assert (message.kind, message.value, message.tokens) == (Kind.SUMMARY, result("x", "short"), 3)
    assert (message.provisional, message.pinned) == (True, True)
    assert new.version == 2


def test_a_new_version_without_a_change_is_remembered() -> None:
    history = held(user("a"))
    assert updated(history, prepared(version=7, length=1), O200K, by_length).version == 7


def test_the_cut_that_was_sent_stays() -> None:
    history = replace(held(user("a")), cut=Cut(3))
    assert updated(history, prepared(version=1, length=2, tail=(record(user("b")),)), O200K, by_length).cut == Cut(3)


def test_a_stored_count_is_believed_and_a_missing_one_is_counted() -> None:
    rows = (record(user("a" * 400), tokens=7), record(user("a" * 400)))
    first, second = read_messages(rows, 0, O200K, by_length)
    assert (first.tokens, second.tokens) == (7, count_message(user("a" * 400), by_length))
    assert read_messages(rows, 0, "cl100k_base", by_length)[0].tokens == second.tokens


@settings(max_examples=60)
@given(conversations(max_pieces=5), st.data())
def test_reading_in_pieces_gives_what_reading_at_once_gives(chat: list[Chat], data: st.DataObject) -> None:
    rows = [record(message) for message in chat]
    history, version = EMPTY, 1
    while len(history.messages) < len(rows):
        start = len(history.messages)
        end = data.draw(st.integers(start + 1, len(rows)))
        changed: dict[int, Record] = {}
        if start and data.draw(st.booleans()):
            place = data.draw(st.integers(0, start - 1))
            rows[place] = changed[place] = replace(rows[place], kind=Kind.EXTRACT)
            version += 1
        answer = prepared(version=version, length=end, tail=tuple(rows[start:end]), changed=changed)
        history = updated(history, answer, O200K, by_length)
    assert list(history.messages) == read_messages(rows, 0, O200K, by_length)
