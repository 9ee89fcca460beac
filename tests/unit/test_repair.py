"""Lists whose calls and results got mixed up: what is named, what a mended list is, and that sound ones stay."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from compactor.formats.openai import RESULT_ROLES, calls
from compactor.history import read_history
from compactor.models import Message
from compactor.repair import repair, sound_until
from compactor.validity import faults
from compactor.wording import CHINESE, ENGLISH
from tests.unit.chat import Chat, assistant, by_length, call, calling, result, stored, user
from tests.unit.conversations import busy_conversations, conversations, sound_conversations

INTERRUPTED = ENGLISH.interrupted
CODES = ("open_call", "late_answer", "orphan_result")
SECONDS = 1.5

chats = st.one_of(conversations(), busy_conversations())
few = settings(max_examples=80)


def values(messages: Sequence[Message]) -> list[Chat]:
    return [dict(message.value) for message in messages]


def mended(chat: Sequence[Chat]) -> list[Chat]:
    return values(repair(stored(chat), by_length).messages)


def codes(problems: Sequence[str]) -> Counter[str]:
    return Counter(problem.partition("@")[0] for problem in problems)


def waits_at_the_end(chat: Sequence[Chat]) -> int:
    """Open calls that nothing but results follows."""
    history = read_history(chat)
    return sum(
        step.results.count(None)
        for step in history.steps
        if all(role in RESULT_ROLES for role in history.roles[step.start + 1 :])
    )


def ids(chat: Sequence[Chat]) -> set[str | None]:
    return {made.id for message in chat if message["role"] == "assistant" for made in calls(message)}


# --- whatever the list


@few
@given(sound_conversations())
def test_a_sound_list_comes_back_as_the_same_objects(chat: list[Chat]) -> None:
    messages = stored(chat)
    whole = repair(messages, by_length)
    assert whole.messages is messages
    assert whole.problems == ()


@few
@given(chats, st.booleans())
def test_every_fault_is_named_and_nothing_else(chat: list[Chat], mend: bool) -> None:
    messages = stored(chat, offset=17)
    problems = repair(messages, by_length, mend=mend).problems
    found = faults(chat)
    assert codes(problems) == +Counter({code: found[code] for code in CODES})
    assert {int(problem.partition("@m")[2]) for problem in problems} <= {message.position for message in messages}


@few
@given(chats)
def test_a_list_that_is_not_to_be_mended_comes_back_as_it_is(chat: list[Chat]) -> None:
    messages = stored(chat)
    assert repair(messages, by_length, mend=False).messages is messages


@settings(max_examples=200)
@given(chats)
def test_a_mended_list_has_its_results_behind_their_calls(chat: list[Chat]) -> None:
    whole = mended(chat)
    found = faults(whole)
    assert found["late_answer"] == 0
    assert found["open_call"] == waits_at_the_end(whole)
    history = read_history(whole)
    for index, message in enumerate(whole):
        if history.is_orphan(index):
            assert message.get("tool_call_id") not in ids(chat) - {None}
    event(f"faults: {sorted(faults(chat))}")


@few
@given(chats)
def test_mending_again_changes_nothing(chat: list[Chat]) -> None:
    once = mended(chat)
    assert mended(once) == once


@few
@given(chats)
def test_every_message_occurs_once_unless_it_is_a_second_answer(chat: list[Chat]) -> None:
    messages = stored(chat)
    whole = repair(messages, by_length).messages
    history = read_history(chat)
    times = Counter(id(message) for message in whole)
    for index, message in enumerate(messages):
        assert times.pop(id(message), 0) == 1 or (history.is_orphan(index) and times[id(message)] == 0)
    added = [message for message in whole if id(message) in times]
    assert all(message.value["content"] in (INTERRUPTED, CHINESE.interrupted) for message in added)
    assert len(added) <= faults(chat)["open_call"]


@few
@given(chats)
def test_what_is_no_result_keeps_its_order(chat: list[Chat]) -> None:
    def others(values: Sequence[Chat]) -> list[Chat]:
        return [message for message in values if message["role"] in ("user", "system", "developer")]

    assert others(mended(chat)) == others(chat)


@few
@given(chats)
def test_no_answer_is_moved_away_from_the_end_so_that_an_assistant_speaks_last(chat: list[Chat]) -> None:
    history = read_history(chat)
    if chat and chat[-1]["role"] in RESULT_ROLES and not history.is_orphan(len(chat) - 1):
        assert mended(chat)[-1]["role"] != "assistant"


@few
@given(chats, st.data())
def test_what_is_in_order_is_known_piece_by_piece(chat: list[Chat], data: st.DataObject) -> None:
    messages = stored(chat)
    known = 0
    for end in sorted(data.draw(st.lists(st.integers(0, len(chat)), max_size=4))):
        known = sound_until(messages[:end], known)
        assert known == sound_until(messages[:end])
    assert sound_until(messages, known) == sound_until(messages)
    assert repair(messages, by_length, start=known) == repair(messages, by_length)


@few
@given(chats)
def test_what_is_in_order_has_no_fault(chat: list[Chat]) -> None:
    sound = chat[: sound_until(stored(chat))]
    assert not set(faults(sound)) & set(CODES)


# --- by name


@pytest.mark.parametrize(
    ("chat", "problems", "expected"),
    [
        ([user("a"), calling("x"), user("b"), result("x")], ("late_answer@m3",),
         [user("a"), calling("x"), result("x"), user("b")]),
        ([user("a"), calling("x"), user("b")], ("open_call@m1",),
         [user("a"), calling("x"), result("x", INTERRUPTED), user("b")]),
        ([user("a"), calling("x", "y"), result("y"), user("b")], ("open_call@m1",),
         [user("a"), calling("x", "y"), result("y"), result("x", INTERRUPTED), user("b")]),
        ([user("a"), calling("x"), result("x", "1"), result("x", "2"), user("b")], ("orphan_result@m3",),
         [user("a"), calling("x"), result("x", "1"), user("b")]),
        ([user("a"), calling("x"), calling("x"), result("x", "2"), result("x", "1"), user("b")], ("late_answer@m4",),
         [user("a"), calling("x"), result("x", "1"), calling("x"), result("x", "2"), user("b")]),
        ([user("a"), assistant(None, function_call={"name": "f", "arguments": "{}"}), user("b")], ("open_call@m1",),
         [user("a"), assistant(None, function_call={"name": "f", "arguments": "{}"}),
          {"role": "function", "name": "f", "content": INTERRUPTED}, user("b")]),
    ],
    ids=["late", "open", "partly open", "second answer", "reused id", "legacy"],
)  # fmt: skip
def test_how_a_fault_is_mended(chat: list[Chat], problems: tuple[str, ...], expected: list[Chat]) -> None:
    whole = repair(stored(chat), by_length)
    assert (values(whole.messages), whole.problems) == (expected, problems)


def test_a_call_at_the_end_still_waits() -> None:
    messages = stored([user("a"), calling("x", "y"), result("y")])
    whole = repair(messages, by_length)
    assert values(whole.messages) == values(messages)
    assert whole.problems == ("open_call@m1",)


def test_a_result_of_no_call_stays_where_it_is() -> None:
    chat = [user("a"), result("never"), assistant("b"), user("c")]
    assert mended(chat) == chat
    assert repair(stored(chat), by_length).problems == ("orphan_result@m1",)


def test_the_closing_words_follow_the_language_of_the_chat() -> None:
    whole = mended([user("请查一下文件在哪里"), calling("x"), user("还有吗？")])
    assert whole[2] == result("x", CHINESE.interrupted)


def test_a_closing_result_counts_and_stands_at_its_call() -> None:
    closing = repair(stored([user("a"), calling("x"), user("b")], offset=5), by_length).messages[2]
    assert (closing.position, closing.tokens > 4) == (6, True)
    with pytest.raises(TypeError):
        closing.value["content"] = "x"  # type: ignore[index] # why: writing is what must fail


@pytest.mark.parametrize("last", [user("b"), result("first")])
@pytest.mark.parametrize("answered", [True, False])
def test_ten_thousand_messages_are_mended_in_about_a_second(last: Chat, answered: bool) -> None:
    steps = [calling(call(f"c{number}")) for number in range(10_000)]
    if answered:
        steps = [message for number in range(5_000) for message in (steps[number], result(f"c{number}"))]
    messages = stored([user("a"), calling("first"), user("meanwhile"), *steps, last])
    start = time.process_time()
    repair(messages, by_length)
    assert time.process_time() - start < SECONDS
