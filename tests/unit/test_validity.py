"""What a strict provider would refuse, and what a change added to it."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compactor.validity import added_faults, faults
from tests.unit.chat import Chat, assistant, call, calling, developer, result, system, user
from tests.unit.conversations import conversations, odd_messages, sound_conversations

SOUND = [system("s"), user("u"), calling("a", "b"), result("b"), result("a"), assistant("done"), user("next")]


def test_a_sound_list_has_no_fault() -> None:
    assert faults(SOUND) == Counter()


@given(sound_conversations(max_turns=3))
def test_no_sound_list_has_a_fault(chat: list[Chat]) -> None:
    assert faults(chat) == Counter()


@pytest.mark.parametrize(
    ("chat", "expected"),
    [
        ([user(), calling("a")], {"open_call": 1}),
        ([user(), calling("a", "b"), result("a"), user("never mind")], {"open_call": 1}),
        ([user(), result("a")], {"orphan_result": 1}),
        ([user(), calling("a"), result("a"), result("a")], {"orphan_result": 1}),
        ([user(), calling("a"), user("hurry"), result("a")], {"late_answer": 1}),
        ([user(), calling("a", "b"), result("a"), system("x"), result("b")], {"late_answer": 1}),
        ([user(), assistant("")], {"empty_content": 1}),
        ([user(), assistant(None)], {"empty_content": 1}),
        ([user(), {"role": "assistant"}], {"empty_content": 1}),
        ([user(), assistant(None, tool_calls=[])], {"empty_content": 1}),
        ([user("")], {"empty_content": 1}),
        ([user([])], {"empty_content": 1}),
        ([user({})], {"empty_content": 1}),
        ([user(), calling("a"), result("a", "")], {"empty_content": 1}),
        ([user(), calling("a"), result("a", None)], {"empty_content": 1}),
        ([user(), calling(call("a", arguments="{")), result("a")], {"bad_arguments": 1}),
        ([user(), calling(call("a", arguments=None)), result("a")], {"bad_arguments": 1}),
        ([system("a"), developer("b")], {"no_message": 1}),
        ([], {"no_message": 1}),
    ],
)
def test_each_fault_has_its_code(chat: list[Chat], expected: dict[str, int]) -> None:
    assert faults(chat) == Counter(expected)


def test_a_call_may_have_no_content() -> None:
    assert faults([user(), calling("a"), result("a")]) == Counter()


@pytest.mark.parametrize("content", [0, False, {}])
def test_content_that_python_calls_false_is_empty(content: Any) -> None:
    assert faults([user(content)])["empty_content"] == 1


@given(st.one_of(conversations(), st.lists(odd_messages, max_size=6)))
def test_any_list_is_judged_and_the_same_list_adds_nothing(chat: list[Chat]) -> None:
    assert all(count > 0 for count in faults(chat).values())
    assert added_faults(chat, chat) == Counter()


def test_only_what_was_added_is_named() -> None:
    before = [user(), result("z"), calling("a"), result("a")]
    after = [user(), result("z"), calling("a"), assistant("x")]
    assert added_faults(before, after) == Counter({"open_call": 1, "last_role": 1})


def test_taking_a_fault_away_adds_none() -> None:
    assert added_faults([user(), result("z"), user()], [user(), user()]) == Counter()


def test_an_emptied_list_lost_its_last_role() -> None:
    assert added_faults([user()], []) == Counter({"no_message": 1, "last_role": 1})
    assert added_faults([], []) == Counter()


@given(sound_conversations(max_turns=2), st.data())
def test_dropping_one_half_of_a_pair_is_always_seen(chat: list[Chat], data: st.DataObject) -> None:
    paired = [index for index, message in enumerate(chat) if message["role"] == "tool" or message.get("tool_calls")]
    if paired:
        index = data.draw(st.sampled_from(paired))
        added = added_faults(chat, chat[:index] + chat[index + 1 :])
        assert added["open_call"] + added["orphan_result"] >= 1
