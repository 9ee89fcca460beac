"""What holds when a caller's own list, whatever it is, meets a stored history."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hypothesis import event, given, settings
from hypothesis import strategies as st

from compactor.formats.openai import leading_system, text_of
from compactor.matching import Match, match
from compactor.models import Kind, Message
from tests.unit.chat import Chat, assistant, user
from tests.unit.conversations import conversations, sound_conversations
from tests.unit.lists import buried, check, held, rows, sent_back, swapped, unreadable

chats = st.one_of(conversations(max_pieces=5), sound_conversations(max_turns=2))
few = settings(max_examples=50)
offsets = st.sampled_from([0, 0, 17])
NEW = [assistant("a reply nobody gave before"), user("words nobody said before")]
new_messages = st.sampled_from([[], NEW[:1], NEW])


def numbered(chat: Sequence[Chat]) -> list[Chat]:
    """The messages told apart by a name, so that each stands in the history once."""
    return [{**message, "name": f"n{index}"} for index, message in enumerate(chat)]


def lead_of(messages: Sequence[Message]) -> int:
    return leading_system([message.value for message in messages])


def matched(history: Sequence[Message], chat: Sequence[Chat], *, lead: int | None = None) -> Match:
    """The match of a list behind its system text, which is the history's; checked for what always holds."""
    lead = lead_of(history) if lead is None else lead
    given = rows(chat)
    found = match(history, given, lead=lead)
    check(found, history, lead=lead)
    assert [item.own for item in found.items] == [row.own for row in given]
    return found


def kept(data: st.DataObject, chat: Sequence[Chat], *, lead: int) -> list[int]:
    """Indexes of some messages behind the system text, in order."""
    some = data.draw(st.sets(st.integers(lead, len(chat) - 1)) if lead < len(chat) else st.just(set[int]()))
    return sorted(some)


@few
@given(chats, offsets)
def test_the_same_list_changes_nothing(chat: list[Chat], offset: int) -> None:
    history = held(chat, offset=offset)
    lead = lead_of(history)
    found = matched(history, chat[lead:])
    assert found.places == tuple(range(lead, len(chat)))
    assert (found.changes, found.branch, found.own_words) == (False, None, frozenset())


@few
@given(chats, st.data())
def test_a_beginning_changes_nothing_and_is_answered_as_it_is(chat: list[Chat], data: st.DataObject) -> None:
    history = held(chat)
    lead = lead_of(history)
    found = matched(history, chat[lead : data.draw(st.integers(lead, len(chat)))])
    assert found.places == tuple(range(lead, lead + len(found.items)))
    assert (found.changes, found.branch) == (False, None)


@few
@given(chats, chats)
def test_the_same_list_with_any_more_behind_it_stores_exactly_that(chat: list[Chat], more: list[Chat]) -> None:
    history = held(chat)
    lead = lead_of(history)
    found = matched(history, [*chat[lead:], *more])
    assert found.places == (*range(lead, len(chat)), *[None] * len(more))
    assert (found.branch, found.reword, found.own_words) == (None, None, frozenset())


@few
@given(chats, new_messages, st.data())
def test_a_list_that_lost_any_messages_but_the_last_keeps_its_places(
    chat: list[Chat], new: list[Chat], data: st.DataObject
) -> None:
    """Trimmed heads, and middles left out: the history stays whole, only what is new is stored."""
    chat = numbered(chat)
    history = held(chat)
    lead = lead_of(history)
    if lead == len(chat):
        return
    left = sorted({*kept(data, chat, lead=lead), len(chat) - 1})
    found = matched(history, [*(chat[index] for index in left), *new])
    assert found.places == (*left, *[None] * len(new))
    assert (found.branch, found.reword) == (None, None)


@few
@given(chats, st.data())
def test_a_stale_list_that_lost_messages_changes_nothing(chat: list[Chat], data: st.DataObject) -> None:
    chat = numbered(chat)
    history = held(chat)
    left = kept(data, chat, lead=lead_of(history))
    found = matched(history, [chat[index] for index in left])
    assert found.places == tuple(left)
    assert (found.changes, found.branch) == (False, None)


@few
@given(chats, new_messages, st.data())
def test_any_list_is_answered_with_exactly_its_messages(chat: list[Chat], new: list[Chat], data: st.DataObject) -> None:
    """Forks, edits, repeats, another conversation altogether; of repeated messages any may be meant."""
    history = held(chat)
    pool = [*chat, *data.draw(chats, label="foreign"), *new]
    listed = data.draw(st.lists(st.sampled_from(pool), max_size=12) if pool else st.just([]))
    lead = leading_system(listed)
    found = matched(history, listed[lead:])
    assert rows(sent_back(found, history)) == rows(row.stored_value() for row in rows(listed[lead:]))
    event("branch" if found.branch is not None else "no branch")


@few
@given(chats, st.data())
def test_a_fork_leaves_what_is_stored_behind_it(chat: list[Chat], data: st.DataObject) -> None:
    chat = numbered(chat)
    history = held(chat)
    lead = lead_of(history)
    if lead == len(chat):
        return
    fork = data.draw(st.integers(lead, len(chat) - 1))
    found = matched(history, [*chat[lead:fork], *NEW])
    assert found.places == (*range(lead, fork), None, None)
    assert (found.branch, found.reword) == (fork, None)


@few
@given(chats, st.data())
def test_an_edited_message_and_all_behind_it_are_stored_anew(chat: list[Chat], data: st.DataObject) -> None:
    chat = numbered(chat)
    history = [replace(message, soft=False) for message in held(chat)]
    lead = lead_of(history)
    if lead == len(chat):
        return
    edited = data.draw(st.integers(lead, len(chat) - 1))
    other = [*chat[:edited], {**chat[edited], "name": "edited"}, *chat[edited + 1 :]]
    found = matched(history, other[lead:])
    assert found.places[: edited - lead] == tuple(range(lead, edited))
    assert found.branch == edited
    assert found.stored == edited - lead


@few
@given(chats)
def test_a_list_with_nothing_in_common_takes_the_history_s_place(chat: list[Chat]) -> None:
    history = held(numbered(chat))
    lead = lead_of(history)
    found = matched(history, NEW)
    assert found.places == (None, None)
    assert found.branch == (lead if lead < len(chat) else None)


@few
@given(chats, new_messages, st.data())
def test_originals_and_replacements_in_any_mixture_are_the_stored_messages(
    chat: list[Chat], new: list[Chat], data: st.DataObject
) -> None:
    original = held(numbered(chat))
    shown = [
        swapped(message, f"[short {index}]") if message.role == "tool" and data.draw(st.booleans()) else message
        for index, message in enumerate(original)
    ]
    lead = lead_of(original)
    listed = [dict(data.draw(st.sampled_from(pair)).value) for pair in zip(original, shown, strict=True)]
    found = matched(shown, [*listed[lead:], *new])
    assert found.places == (*range(lead, len(chat)), *[None] * len(new))
    assert [dict(value) for value in sent_back(found, shown)[: len(chat) - lead]] == [
        dict(message.value) for message in shown[lead:]
    ]


@few
@given(chats, new_messages, st.data())
def test_what_left_the_history_is_no_part_of_a_match(chat: list[Chat], new: list[Chat], data: st.DataObject) -> None:
    history = held(numbered(chat))
    lead = lead_of(history)
    gone = set(kept(data, chat, lead=lead))
    live = [index for index in range(lead, len(chat)) if index not in gone]
    history = [buried(message) if index in gone else message for index, message in enumerate(history)]
    found = matched(history, [*(numbered(chat)[index] for index in live), *new], lead=lead)
    assert found.places == (*live, *[None] * len(new))
    assert found.branch is None


@few
@given(chats, new_messages, st.data())
def test_a_message_that_cannot_be_read_any_more_is_sent_as_its_caller_has_it(
    chat: list[Chat], new: list[Chat], data: st.DataObject
) -> None:
    history = held(numbered(chat))
    lead = lead_of(history)
    chosen = set(kept(data, chat, lead=lead))
    # Only what follows tells that a row is the message: the last one may be another, and is stored.
    lost = {index for index in chosen if index + 1 < len(history) and index + 1 not in chosen}
    history = [unreadable(message) if index in lost else message for index, message in enumerate(history)]
    found = matched(history, [*numbered(chat)[lead:], *new], lead=lead)
    assert found.places == (*range(lead, len(chat)), *[None] * len(new))
    assert found.own_words == {index - lead for index in lost}
    assert found.branch is None
    assert all(history[place].kind is Kind.CORRUPT for place in lost)


# --- other words


QUESTION = "What is the status of order 4711?"
WRAPPINGS = [("", ""), ("[retrieved: 3 documents]\n", ""), ("", "\n[now: 12:30]"), ("", " please"), ("Please: ", "")]


@few
@given(chats, chats, st.sampled_from(WRAPPINGS), st.booleans())
def test_the_latest_user_message_may_come_back_in_other_words(
    before: list[Chat], after: list[Chat], wrapping: tuple[str, str], trimmed: bool
) -> None:
    prefix, suffix = wrapping
    chat = numbered([*before, user(QUESTION), *(message for message in after if message["role"] != "user")])
    history = held(chat)
    lead = lead_of(history)
    place = len(before)
    other = {**chat[place], "content": prefix + QUESTION + suffix}
    start = max(lead, place - 1) if trimmed else lead
    found = matched(history, [*chat[start:place], other, *chat[place + 1 :]])
    assert found.places == tuple(range(start, len(chat)))
    assert found.branch is None
    reworded = frozenset({place - start}) if prefix + suffix else frozenset[int]()
    assert found.own_words == reworded
    assert {found.reword} - {None} == reworded


@few
@given(chats, chats)
def test_another_question_in_its_place_is_a_fork(before: list[Chat], after: list[Chat]) -> None:
    chat = numbered([*before, user(QUESTION), *(message for message in after if message["role"] != "user")])
    history = held(chat)
    lead = lead_of(history)
    place = len(before)
    other = {**user("Bonjour"), "name": f"n{place}"}
    found = matched(history, [*chat[lead:place], other, *chat[place + 1 :]])
    assert (found.branch, found.reword, found.stored) == (place, None, place - lead)


@few
@given(chats)
def test_words_that_were_pushed_are_never_reworded(chat: list[Chat]) -> None:
    history = [replace(message, soft=False) for message in held(numbered(chat))]
    lead = lead_of(history)
    latest = max((index for index in range(lead, len(chat)) if chat[index]["role"] == "user"), default=None)
    if latest is None or not text_of(chat[latest]):
        return
    other = {**numbered(chat)[latest], "content": text_of(chat[latest]) + " please"}
    found = matched(history, [*numbered(chat)[lead:latest], other])
    assert (found.branch, found.reword) == (latest, None)
