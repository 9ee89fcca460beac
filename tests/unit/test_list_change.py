"""What a caller's list changes in the stored history, carried out on a reference of the script."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import assume, event, given, settings
from hypothesis import strategies as st

from compactor.cached_history import CachedHistory
from compactor.commands.sync import Row
from compactor.formats.openai import leading_system
from compactor.list_change import change_of
from compactor.matching import Match
from compactor.models import Kind, Message
from compactor.records import chain_of
from tests.unit.chat import Chat, assistant, calling, result, system, user
from tests.unit.conversations import conversations, sound_conversations
from tests.unit.lists import rows
from tests.unit.synced import Session, next_chain

chats = st.one_of(conversations(max_pieces=5), sound_conversations(max_turns=2))
few = settings(max_examples=150)


def behind(chat: Sequence[Chat]) -> list[Chat]:
    return list(chat[leading_system(chat) :])


def as_stored(chat: Sequence[Chat]) -> list[Any]:
    return [dict(row.stored_value()) for row in rows(chat)]


def pushed(chat: Sequence[Chat], *, offset: int = 0) -> Session:
    session = Session(offset=offset)
    session.push(chat)
    return session


def mixed(data: st.DataObject, chat: list[Chat]) -> list[Chat]:
    """A list made of a history, another conversation and new messages: edited, forked, trimmed, repeated."""
    pool = [*behind(chat), *behind(data.draw(chats, label="foreign")), assistant("new"), user("more")]
    start = data.draw(st.integers(0, len(pool)))
    end = data.draw(st.integers(start, len(pool)))
    listed = [*pool[start:end], *data.draw(st.lists(st.sampled_from(pool), max_size=4))]
    return behind(listed)


@given(st.lists(st.binary(min_size=8, max_size=8), max_size=6), st.sampled_from([b"", b"0123456789abcdef"]))
def test_the_chain_is_what_the_scripts_compute(owns: list[bytes], chain: bytes) -> None:
    found = chain_of(owns, chain)
    for own, behind_it in zip(owns, found, strict=True):
        chain = next_chain(chain, own)
        assert behind_it == chain


@settings(max_examples=150)
@given(chats, st.data(), st.sampled_from([0, 17]))
def test_a_list_once_stored_is_known_and_changes_nothing_more(
    chat: list[Chat], data: st.DataObject, offset: int
) -> None:
    session = pushed(chat, offset=offset)
    for _ in range(2):
        listed = mixed(data, chat)
        change = session.sync(listed)
        again = session.match(listed)
        assert not again.changes
        assert again.branch is None
        assert session.sync(listed) is None
        event("nothing" if change is None else "branch" if change.branch is not None else "more")


@settings(max_examples=150)
@given(chats, st.data())
def test_the_chain_is_that_of_the_live_originals(chat: list[Chat], data: st.DataObject) -> None:
    session = pushed(chat)
    assert session.chain == session.chain_by_hand()
    for _ in range(2):
        change = session.sync(mixed(data, chat))
        assert session.chain == session.chain_by_hand()
        assert change is None or change.after == session.chain


@settings(max_examples=150)
@given(chats, st.data())
def test_after_a_branch_the_history_is_the_list_behind_what_it_had_lost(chat: list[Chat], data: st.DataObject) -> None:
    session = pushed(chat)
    listed = mixed(data, chat)
    found = session.match(listed)
    assume(found.branch is not None)
    stored = len(session.records)
    change = session.sync(listed)
    assert change is not None
    assert len(change.rows) == len(listed) - found.stored
    first = next((place for place in found.places if place is not None), found.branch or 0)
    live = [r for r in session.records[first:] if r.kind is not Kind.TOMBSTONE]
    assert [dict(record.value()) for record in live] == as_stored(listed)
    assert all(record.kind is Kind.TOMBSTONE for record in session.records[found.branch : stored])


@few
@given(chats, st.data())
def test_nothing_that_was_pushed_is_lost(chat: list[Chat], data: st.DataObject) -> None:
    """Every message is live, or archived under its position."""
    session = pushed(chat)
    texts = {index: record.text for index, record in enumerate(session.records)}
    for _ in range(3):
        session.sync(mixed(data, chat))
    for position, text in texts.items():
        record = session.records[position]
        kept = session.archive.get(position) if record.kind is not Kind.ORIGINAL else record
        assert kept is not None
        assert kept.text == text


@few
@given(chats, st.data())
def test_a_fork_never_undoes_a_compaction(chat: list[Chat], data: st.DataObject) -> None:
    """A replacement that left with a branch is taken up again by a list that has its message again."""
    session = pushed(chat)
    results = [index for index, record in enumerate(session.records) if record.value()["role"] == "tool"]
    assume(results)
    swapped = data.draw(st.sets(st.sampled_from(results), min_size=1))
    session.swap({position: f"[short {position}]" for position in swapped})
    live = session.live()
    originals = behind(chat)
    start = data.draw(st.integers(0, len(originals) - 1))
    edited = [*originals[:start], user("edited before all"), *originals[start:], assistant("new")]
    change = session.sync(edited)
    assert change is not None
    lead = leading_system(chat)
    expected = [*live[:start], user("edited before all"), *live[start:], assistant("new")]
    owns = [record.own for record in pushed(chat).records[lead:]]
    if len(set(owns)) == len(owns) and session.match(edited).stored == len(edited):
        assert session.live()[-len(expected) :] == expected
    back = [record for record in session.records if record.kind is Kind.SUMMARY]
    if len(set(owns)) == len(owns):
        assert len(back) == len(swapped)
        assert session.archive.keys() >= {
            index for index, record in enumerate(session.records) if record.kind is Kind.SUMMARY
        }


@few
@given(chats, st.integers(0, 3))
def test_other_words_take_their_place_and_leave_the_rest(chat: list[Chat], tail: int) -> None:
    question = user("What is the status of order 4711?")
    listed = [*behind(chat), question, *[assistant(f"answer {number}") for number in range(tail)]]
    session = Session()
    session.sync(listed)
    place = len(listed) - 1 - tail
    other = [*listed[:place], user("What is the status of order 4711? It is 12:30."), *listed[place + 1 :]]
    change = session.sync(other)
    assert change is not None
    assert (change.branch, change.rows, change.reword and change.reword[0]) == (None, (), place)
    assert session.live() == as_stored(other)
    assert session.chain == session.chain_by_hand()
    assert session.sync(other) is None


# --- by name


def test_only_the_latest_user_message_of_a_list_may_be_reworded_later() -> None:
    session = Session()
    session.sync([user("a"), assistant("b"), user("c"), assistant("d")])
    assert [message.soft for message in session.held().messages] == [False, False, True, False]
    session.sync([user("a"), assistant("b"), user("c"), assistant("d"), user("e")])
    assert session.match([user("a"), assistant("b"), user("c please")]).branch is not None


def test_a_list_that_has_a_replaced_result_again_takes_its_replacement_up() -> None:
    chat = [user("a"), calling("c"), result("c", "a long output"), assistant("b")]
    session = pushed(chat)
    session.swap({2: "[short]"})
    session.sync([user("other")])
    assert session.live() == [user("other")]
    change = session.sync(chat)
    assert change is not None
    assert [row.source for row in change.rows] == [None, None, 2, None]
    assert session.live() == [user("a"), calling("c"), result("c", "[short]"), assistant("b")]
    assert session.archive[7].value() == chat[2]


def test_the_replacement_of_a_branch_is_taken_up_in_the_same_step() -> None:
    chat = [user("a"), calling("c"), result("c", "a long output"), assistant("b")]
    session = pushed(chat)
    session.swap({2: "[short]"})
    for listed in ([user("edited"), *chat[1:]], [user("edited"), chat[1], result("c", "[short]"), chat[3]]):
        session.sync(listed)
        assert session.live() == [user("edited"), calling("c"), result("c", "[short]"), assistant("b")]


@pytest.mark.parametrize(("older", "newer"), [((0, 8), (0, 4)), ((0, 4), (0, 8)), ((0, 8), (2, 6))])
def test_of_two_folds_that_told_of_the_same_steps_the_newer_one_comes_back_alone(
    older: tuple[int, int], newer: tuple[int, int]
) -> None:
    chat = [message for number in range(5) for message in (calling(f"c{number}"), result(f"c{number}"))]

    items = rows(chat)

    def left(first: int, end: int) -> list[Message]:
        hidden = range(first + 2, end)
        kinds = [Kind.FOLD if i == first + 1 else Kind.FOLDED if i in hidden else Kind.ORIGINAL for i in range(10)]
        return [
            Message(0, {}, 0, Kind.TOMBSTONE, own=row.own, shown=row.own, left=kind)
            for row, kind in zip(items, kinds, strict=True)
        ]

    graves = [replace(one, position=i) for i, one in enumerate([*left(*older), *left(*newer)])]
    new = {i: Row(item, {}) for i, item in enumerate(items)}
    change = change_of(CachedHistory(1, 0, tuple(graves)), Match(tuple(items), (None,) * 10), new)
    first, end = newer
    assert [row.source for row in change.rows] == [10 + i if first < i < end else None for i in range(10)]


def test_the_system_text_in_front_stays_out_of_the_chain() -> None:
    session = pushed([system("s"), user("a")])
    assert session.chain == next_chain(b"", rows([user("a")])[0].own)
    session.sync([user("other")])
    assert session.chain == next_chain(b"", rows([user("other")])[0].own)
    assert session.records[0].kind is Kind.ORIGINAL


@pytest.mark.parametrize("listed", [[user("a")], [user("a"), assistant("b")], []])
def test_a_list_with_nothing_new_is_no_change(listed: list[Chat]) -> None:
    assert pushed([user("a"), assistant("b")]).sync(listed) is None
