"""Reading a history: steps, pairing by position, what is open, unread or an orphan."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compactor.formats.openai import RESULT_ROLES, calls
from compactor.history import History, read_history
from tests.unit.chat import Chat, assistant, call, calling, developer, result, system, user
from tests.unit.conversations import conversations, odd_messages, sound_conversations


def pairs(chat: list[Chat]) -> dict[int, list[int | None]]:
    """Start of each step with calls -> where its results stand."""
    return {step.start: list(step.results) for step in read_history(chat).steps if step.calls}


def orphans(chat: list[Chat]) -> list[int]:
    history = read_history(chat)
    return [index for index in range(len(chat)) if history.is_orphan(index)]


def test_results_answer_their_calls_in_any_order() -> None:
    chat = [user(), calling("a", "b", "c"), result("c"), result("a"), result("b"), assistant()]
    assert pairs(chat) == {1: [3, 4, 2]}
    assert read_history(chat).steps[0].indexes == [1, 2, 3, 4]


def test_a_reused_id_belongs_to_the_latest_call_that_waits() -> None:
    chat = [calling("a"), result("a", "1"), calling("a"), result("a", "2"), calling("a"), result("a", "3")]
    assert pairs(chat) == {0: [1], 2: [3], 4: [5]}


def test_a_second_answer_goes_back_to_an_older_call_that_still_waits() -> None:
    assert pairs([calling("a"), calling("a"), result("a", "new"), result("a", "old")]) == {0: [3], 1: [2]}


def test_one_id_for_two_calls_of_a_message_is_answered_from_the_first_on() -> None:
    assert pairs([calling("a", "a"), result("a", "1"), result("a", "2")]) == {0: [1, 2]}


def test_a_doubled_answer_is_an_orphan() -> None:
    chat = [calling("a"), result("a"), result("a"), assistant()]
    assert pairs(chat) == {0: [1]}
    assert orphans(chat) == [2]
    assert read_history(chat).steps[0].indexes == [0, 1, 2]


@pytest.mark.parametrize("missing", [None, ""])
def test_a_result_without_an_id_answers_the_next_call_of_the_preceding_message(missing: Any) -> None:
    chat = [calling("a", "b"), result(missing, "1"), result(missing, "2"), result(missing, "3")]
    assert pairs(chat) == {0: [1, 2]}
    assert orphans(chat) == [3]


def test_a_result_without_an_id_does_not_reach_past_the_preceding_message() -> None:
    chat = [calling("a"), assistant("still working"), result(None)]
    assert pairs(chat) == {0: [None]}
    assert orphans(chat) == [2]


def test_a_call_that_a_result_without_an_id_answered_waits_no_more() -> None:
    assert pairs([calling("a", "a"), result(None, "1"), result("a", "2")]) == {0: [1, 2]}
    assert pairs([calling("a"), calling("a"), result(None, "new"), result("a", "old")]) == {0: [3], 1: [2]}
    assert pairs([calling("a", "b", "c"), result("b"), result(None, "a"), result(None, "c")]) == {0: [2, 1, 3]}


def test_a_result_of_a_foreign_id_is_an_orphan_even_while_a_call_waits() -> None:
    chat = [calling("a"), result("z")]
    assert (pairs(chat), orphans(chat)) == ({0: [None]}, [1])


def test_a_late_answer_finds_its_call_across_turns() -> None:
    chat = [user(), calling("a"), user("hurry"), assistant("soon"), result("a")]
    assert pairs(chat) == {1: [4]}


def test_a_legacy_function_message_answers_the_latest_call_of_its_name() -> None:
    def legacy(name: str) -> Chat:
        return assistant(None, function_call={"name": name, "arguments": "{}"})

    chat = [legacy("f"), legacy("g"), {"role": "function", "name": "f", "content": "1"}]
    assert pairs(chat) == {0: [2], 1: [None]}
    assert pairs([legacy("f"), {"role": "function", "name": "other", "content": "1"}]) == {0: [1]}
    assert pairs([legacy("f"), {"role": "function", "content": "1"}]) == {0: [1]}


def test_a_result_before_any_assistant_message_is_an_orphan() -> None:
    chat = [result("a"), user()]
    assert orphans(chat) == [0]
    assert read_history(chat).step_of == {}


def test_a_user_or_system_message_never_answers() -> None:
    chat = [calling("a"), {**user(), "tool_call_id": "a"}, {**system("x"), "tool_call_id": "a"}]
    assert pairs(chat) == {0: [None]}


def test_unread_is_every_result_behind_the_last_assistant_message() -> None:
    chat = [calling("a", "b"), result("a"), assistant(), result("b"), user(), result("z")]
    history = read_history(chat)
    assert [index for index in range(len(chat)) if history.is_unread(index)] == [3, 5]


def test_a_step_is_open_until_every_call_is_answered() -> None:
    assert read_history([calling("a", "b"), result("a")]).steps[0].open
    assert not read_history([calling("a", "b"), result("a"), result("b")]).steps[0].open
    assert not read_history([assistant()]).steps[0].open


def test_leading_counts_the_opening_system_and_developer_messages() -> None:
    assert read_history([system("a"), developer("b"), user(), system("c")]).leading == 2
    assert read_history([user(), system("a")]).leading == 0
    assert read_history([system("a")]).leading == 1
    assert read_history([]).leading == 0


def test_an_empty_list_has_no_assistant_and_no_user() -> None:
    history = read_history([])
    assert (history.last_assistant, history.last_user, history.steps) == (-1, -1, ())


def test_the_call_of_a_result_is_the_one_it_answers() -> None:
    history = read_history([calling(call("a", "grep"), call("b", "read")), result("b"), result("a"), result("a")])
    found = [history.call_of(index) for index in range(4)]
    assert [None if item is None else item.name for item in found] == [None, "read", "grep", None]


def check(history: History, chat: list[Chat]) -> None:
    taken = [index for step in history.steps for index in step.indexes]
    assert len(taken) == len(set(taken))
    for step in history.steps:
        assert history.roles[step.start] == "assistant"
        assert len(step.results) == len(step.calls) == len(calls(chat[step.start]))
        assert all(history.roles[index] in RESULT_ROLES for index in [*step.answered, *step.orphans])
        assert all(index > step.start for index in step.indexes if index != step.start)
        assert all(history.step_of[index] is step for index in step.indexes)
    for index, role in enumerate(history.roles):
        if role in RESULT_ROLES:
            assert history.is_orphan(index) is (history.call_of(index) is None)
            given_id = chat[index].get("tool_call_id")
            answered = history.call_of(index)
            if answered is not None and given_id and chat[index].get("role") == "tool":
                assert answered.id == given_id
        else:
            assert not history.is_orphan(index)
            assert not history.is_unread(index)


@given(st.one_of(conversations(), st.lists(odd_messages, max_size=8)))
def test_any_list_is_read_and_no_result_has_two_owners(chat: list[Chat]) -> None:
    check(read_history(chat), chat)


@given(sound_conversations(max_turns=3))
def test_a_sound_list_has_nothing_open_and_no_orphan(chat: list[Chat]) -> None:
    history = read_history(chat)
    check(history, chat)
    assert not any(step.open for step in history.steps)
    assert orphans(chat) == []


@given(conversations(), st.integers(0, 40))
def test_reading_goes_forward_what_comes_later_never_changes_an_answer(chat: list[Chat], end: int) -> None:
    part, whole = read_history(chat[:end]), read_history(chat)
    for early, late in zip(part.steps, whole.steps, strict=False):
        assert all(now is None or now == then for now, then in zip(early.results, late.results, strict=True))
