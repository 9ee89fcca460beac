"""trim: whole steps leave, the oldest first; system messages and the latest user message never do."""

from __future__ import annotations

from typing import Any

import pytest

from compactor.context.trimming import newest, trim
from compactor.validity import faults
from tests.unit.chat import Chat, assistant, call, calling, developer, result, system, user

TEN = 10  # tokens of every message here, so that a room of 50 holds five


def kept(chat: list[Chat], room: int, *, most: int = 0, tokens: dict[int, int] | None = None) -> list[int]:
    return trim(chat, [(tokens or {}).get(index, TEN) for index in range(len(chat))], room=room, most=most)


def test_a_list_that_fits_stays_as_it_is() -> None:
    chat = [system("s"), result("lost"), user(), assistant()]
    assert kept(chat, 40) == [0, 1, 2, 3]


def test_the_oldest_turns_leave_first() -> None:
    chat = [system("s"), user("1"), assistant("1"), user("2"), assistant("2"), user("3")]
    assert kept(chat, 50) == [0, 3, 4, 5]
    assert kept(chat, 40) == [0, 3, 4, 5]
    assert kept(chat, 39) == [0, 5]


def test_a_call_and_its_results_leave_together() -> None:
    chat = [user("1"), calling("a", "b"), result("a"), result("b"), calling("c"), result("c"), user("2")]
    assert kept(chat, 40) == [0, 4, 5, 6]
    assert kept(chat, 60) == [0, 4, 5, 6]
    assert kept(chat, 39) == [6]


def test_what_stays_of_a_turn_begins_with_its_user_message() -> None:
    chat = [user("1"), assistant("a"), assistant("b"), assistant("c"), user("2"), assistant("d"), user("3")]
    assert kept(chat, 60) == [0, 2, 3, 4, 5, 6]
    assert kept(chat, 40) == [4, 5, 6]  # "c" alone would fit, but not with the message that its turn begins with


def test_steps_of_the_turn_in_progress_leave_while_its_question_stays() -> None:
    chat = [system("s"), user("1"), calling("a"), result("a"), calling("b"), result("b"), calling("c"), result("c")]
    assert kept(chat, 60) == [0, 1, 4, 5, 6, 7]
    assert kept(chat, 40) == [0, 1, 6, 7]


def test_a_reused_call_id_pairs_by_position() -> None:
    chat = [user("1"), calling("a"), result("a"), calling("a"), result("a"), user("2")]
    assert kept(chat, 40) == [0, 3, 4, 5]


def test_a_late_answer_leaves_with_its_call() -> None:
    chat = [user("1"), calling("a"), user("2"), result("a"), assistant("b"), user("3")]
    assert kept(chat, 40) == [2, 4, 5]


def test_a_second_answer_leaves_with_the_step_before_it() -> None:
    chat = [user("1"), calling("a"), result("a"), result("a"), assistant("b"), user("2")]
    assert kept(chat, 40) == [0, 4, 5]


def test_results_inside_a_user_message_stay_with_their_call() -> None:
    answer = user([{"type": "tool_result", "tool_use_id": "t", "content": "x"}])
    chat = [user("1"), assistant("call"), answer, assistant("b"), user("2")]
    assert kept(chat, 40) == [0, 3, 4]
    assert kept(chat[:3], 10) == [0, 1, 2]  # the question, and the answer that the model has not read


@pytest.mark.parametrize("place", [0, 2, 4])
def test_system_and_developer_messages_stay_wherever_they_stand(place: int) -> None:
    chat = [user("1"), calling("a"), result("a"), user("2")]
    for message in (system("s"), developer("d")):
        given = [*chat[:place], message, *chat[place:]]
        assert place in kept(given, 0)
        assert len(kept(given, 0)) == 2


@pytest.mark.parametrize("room", [9, 0, -1, -(10**9)])
def test_a_room_for_nothing_leaves_the_latest_user_message(room: int) -> None:
    assert kept([system("s"), user("1"), assistant(), user("2"), assistant()], room) == [0, 3]


def test_what_the_model_has_not_read_stays_as_long_as_the_ceiling_allows() -> None:
    chat = [user("1"), calling("a"), result("a"), calling("b"), result("b")]
    sizes = {4: 100}
    assert kept(chat, 60, tokens=sizes) == [0]
    assert kept(chat, 60, most=120, tokens=sizes) == [0, 3, 4]
    assert kept(chat, 60, most=119, tokens=sizes) == [0]


def test_an_open_call_leaves_whole() -> None:
    chat = [user("1"), calling("a", "b"), result("a")]
    assert kept(chat, 20, most=20) == [0]
    assert kept(chat, 20, most=30) == [0, 1, 2]


def test_a_list_without_user_messages_keeps_its_newest_steps() -> None:
    chat = [assistant("1"), calling("a"), result("a"), assistant("2")]
    assert kept(chat, 30) == [1, 2, 3]
    assert kept(chat, 5) == []


def test_nothing_is_made_of_nothing() -> None:
    assert kept([], 0) == []
    assert kept([], -5) == []


def test_a_tool_message_of_no_call_at_all_is_a_message_like_any_other() -> None:
    chat = [result("lost"), user("1"), assistant("a"), user("2")]
    assert kept(chat, 40) == [0, 1, 2, 3]
    assert kept(chat, 30) == [1, 2, 3]


# --- what stands in when a list cannot be read as steps


def fallback(chat: list[Chat], most: int) -> list[Any]:
    return [chat[index] for index in newest(chat, most)]


def test_the_fallback_is_system_messages_and_the_last_others() -> None:
    chat = [system("s"), user("1"), assistant("a"), system("t"), user("2"), assistant("b")]
    assert fallback(chat, 2) == [chat[0], chat[3], chat[4], chat[5]]


def test_the_fallback_holds_no_result_whose_call_is_gone() -> None:
    chat = [user("1"), calling("a", "b"), result("a"), result("b"), assistant("done"), user("2")]
    for most in range(7):
        found = fallback(chat, most)
        assert not faults(found)
        assert chat[5] in found


def test_the_fallback_never_loses_the_latest_user_message() -> None:
    chat = [user("1"), *(message for n in range(20) for message in (calling(f"c{n}"), result(f"c{n}")))]
    for most in (0, -3, 1, 2, 10):
        found = fallback(chat, most)
        assert found[0] is chat[0]
        assert not faults(found)


def test_the_fallback_pairs_each_result_with_one_call() -> None:
    chat = [calling("a"), calling("a"), result("a"), result("a"), user("2")]
    assert fallback(chat, 4) == [chat[1], chat[2], chat[4]]


def test_the_fallback_keeps_results_without_ids_behind_their_call() -> None:
    unnamed = {"role": "tool", "content": "x"}
    chat = [unnamed, user("1"), assistant(None, tool_calls=[call(None)]), unnamed, user("2")]
    assert fallback(chat, 5) == [chat[1], chat[2], chat[3], chat[4]]
