"""Records that cannot be read: they are named, what lost its other half leaves, the rest stays as it is."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compactor.models import Kind, Message
from compactor.quarantine import readable
from compactor.validity import faults
from tests.unit.chat import Chat, assistant, calling, result, stored, system, user
from tests.unit.conversations import busy_conversations, conversations, sound_conversations
from tests.unit.lists import buried, unreadable

CODES = ("open_call", "late_answer", "orphan_result")
few = settings(max_examples=80)
chats = st.one_of(conversations(), busy_conversations(), sound_conversations())


def without(messages: Sequence[Message], lost: set[int]) -> list[Message]:
    return [unreadable(message) if index in lost else message for index, message in enumerate(messages)]


def left(messages: Sequence[Message], lost: set[int]) -> tuple[list[int], tuple[str, ...]]:
    """Which messages stay usable when these are lost, and what is said of it."""
    kept, problems = readable(without(messages, lost))
    return [message.position for message in kept], problems


@few
@given(chats)
def test_a_whole_history_stays_as_it_is(chat: list[Chat]) -> None:
    messages = stored(chat)
    kept, problems = readable(messages)
    assert (kept, problems) == (messages, ())
    assert all(one is other for one, other in zip(kept, messages, strict=True))


@few
@given(chats, st.data())
def test_what_left_the_history_is_left_out_and_not_named(chat: list[Chat], data: st.DataObject) -> None:
    messages = stored(chat)
    gone = data.draw(st.sets(st.integers(0, len(chat) - 1)) if chat else st.just(set[int]()))
    kept, problems = readable([buried(message) if index in gone else message for index, message in enumerate(messages)])
    assert [message.position for message in kept] == [index for index in range(len(chat)) if index not in gone]
    assert problems == ()


@settings(max_examples=200)
@given(sound_conversations(), st.data())
def test_losing_any_one_record_adds_no_fault(chat: list[Chat], data: st.DataObject) -> None:
    lost = data.draw(st.integers(0, len(chat) - 1))
    messages = stored(chat)
    kept, problems = readable(without(messages, {lost}))
    assert problems == (f"corrupt_record@m{lost}",)
    assert not set(faults([message.value for message in kept])) & set(CODES)


@few
@given(sound_conversations(), st.data())
def test_losing_one_record_costs_no_more_than_its_step(chat: list[Chat], data: st.DataObject) -> None:
    lost = data.draw(st.integers(0, len(chat) - 1))
    positions, _ = left(stored(chat), {lost})
    gone = set(range(len(chat))) - set(positions)
    if chat[lost]["role"] not in ("tool", "assistant"):
        assert gone == {lost}
    start = lost
    while start > 0 and chat[start]["role"] == "tool":
        start -= 1
    end = lost + 1
    while end < len(chat) and chat[end]["role"] == "tool":
        end += 1
    assert lost in gone
    assert gone <= set(range(start, end))


@few
@given(chats, st.data())
def test_every_lost_record_is_named_and_no_message_is_made_up(chat: list[Chat], data: st.DataObject) -> None:
    messages = stored(chat, offset=17)
    lost = data.draw(st.sets(st.integers(0, len(chat) - 1)) if chat else st.just(set[int]()))
    kept, problems = readable(without(messages, lost))
    assert problems == tuple(f"corrupt_record@m{17 + index}" for index in sorted(lost))
    by_position = {message.position: message for message in messages}
    assert all(message is by_position[message.position] for message in kept)
    assert [message.position for message in kept] == sorted({message.position for message in kept})


@few
@given(chats, st.data())
def test_users_words_and_system_messages_stay_unless_they_are_the_lost_ones(
    chat: list[Chat], data: st.DataObject
) -> None:
    lost = data.draw(st.sets(st.integers(0, len(chat) - 1)) if chat else st.just(set[int]()))
    positions, _ = left(stored(chat), lost)
    spoken = {index for index, message in enumerate(chat) if message["role"] in ("user", "system", "developer")}
    assert spoken - lost <= set(positions)


CHAT = [system("s"), user("a"), calling("x", "y"), result("y"), result("x"), assistant("b"), user("c")]


@pytest.mark.parametrize(
    ("lost", "kept"),
    [
        ({0}, [1, 2, 3, 4, 5, 6]),
        ({1}, [0, 2, 3, 4, 5, 6]),
        ({2}, [0, 1, 5, 6]),
        ({3}, [0, 1, 5, 6]),
        ({4}, [0, 1, 5, 6]),
        ({5}, [0, 1, 2, 3, 4, 6]),
        ({3, 4}, [0, 1, 5, 6]),
        ({2, 6}, [0, 1, 5]),
        ({0, 1, 2, 3, 4, 5, 6}, []),
    ],
)
def test_a_call_without_its_result_leaves_and_a_result_without_its_call(lost: set[int], kept: list[int]) -> None:
    assert left(stored(CHAT), lost)[0] == kept


def test_a_tombstone_beside_a_lost_record_is_left_out_quietly() -> None:
    messages = without(stored(CHAT), {3})
    messages[5] = buried(messages[5])
    kept, problems = readable(messages)
    assert [message.position for message in kept] == [0, 1, 6]
    assert problems == ("corrupt_record@m3",)
    assert all(message.kind is Kind.ORIGINAL for message in kept)
