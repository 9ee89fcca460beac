"""plan(): which messages may be replaced, in which order, and why there may be nothing to do."""

from __future__ import annotations

from typing import Any

import pytest

from compactor.models import Code, Kind, Message
from compactor.planning import Item, Nothing, Plan, Snapshot, plan
from tests.unit.chat import (
    Chat,
    assistant,
    by_length,
    call,
    calling,
    developer,
    levels,
    replaced,
    result,
    steps,
    stored,
    system,
    total,
    user,
)
from tests.unit.planned import LARGE, MEDIUM, SMALL, chosen, planned, rows


def test_below_the_threshold_there_is_nothing_to_do() -> None:
    messages = stored(rows(LARGE))
    nothing = plan(Snapshot(messages, 99), levels(ceiling=200, threshold=100))
    assert nothing == Nothing(Code.BELOW_THRESHOLD)


def test_the_threshold_itself_starts_a_plan() -> None:
    messages = stored(rows(*[LARGE] * 5))
    budget = levels(ceiling=10**6, threshold=total(messages))
    assert isinstance(plan(Snapshot(messages, total(messages)), budget), Plan)


def test_a_forced_target_that_is_reached_needs_nothing() -> None:
    messages = stored(rows(LARGE))
    assert planned(messages, target_tokens=total(messages)) == Nothing(
        Code.NOTHING_TO_DO, "the target is already reached"
    )


@pytest.mark.parametrize("kept", [system(LARGE), developer(LARGE), user(LARGE), assistant(LARGE)])
def test_no_words_of_system_developer_user_or_assistant_are_touched(kept: Chat) -> None:
    chat = [kept, user("go"), kept, calling("a"), result("a", LARGE), kept, assistant("ok")]
    assert chosen(stored(chat)) == [4]


def test_call_arguments_that_are_no_json_are_not_touched() -> None:
    assert chosen(stored([user(), calling(call("a", arguments=LARGE)), result("a", "short"), assistant()])) == []


def test_an_unread_result_is_not_touched() -> None:
    assert chosen(stored([user(), calling("a"), result("a", LARGE)])) == []
    assert chosen(stored([user(), calling("a"), result("a", LARGE), user("and?")])) == []
    assert chosen(stored([user(), calling("a"), result("a", LARGE), assistant()])) == [2]


def test_no_result_of_an_open_step_is_touched() -> None:
    chat = [user(), calling("a", "b"), result("a", LARGE), assistant("still working"), user("well?"), assistant("soon")]
    assert chosen(stored(chat)) == []
    assert chosen(stored([*chat, result("b", LARGE), assistant("done")])) == [2, 6]


def test_a_pinned_result_is_not_touched() -> None:
    messages = stored(rows(LARGE, LARGE))
    messages[2] = Message(2, messages[2].value, messages[2].tokens, pinned=True)
    assert chosen(messages) == [4]


def test_an_orphan_is_not_touched() -> None:
    assert (
        chosen(stored([user(), result("z", LARGE), calling("a"), result("z", LARGE), result("a"), assistant()])) == []
    )


def test_nothing_before_the_last_replacement_is_touched() -> None:
    messages = stored(rows(LARGE, LARGE, LARGE, LARGE))
    messages[4] = replaced(messages[4], "short")
    assert chosen(messages) == [6, 8]


def test_a_replacement_is_final_whatever_its_kind_and_size() -> None:
    for kind in [kind for kind in Kind if kind not in (Kind.ORIGINAL, Kind.LIMITED)]:
        messages = stored(rows(LARGE))
        messages[2] = replaced(messages[2], LARGE, kind=kind)
        assert chosen(messages) == []


def test_what_a_push_had_cut_is_a_candidate_and_puts_nothing_out_of_reach() -> None:
    messages = stored(rows(LARGE, LARGE))
    messages[4] = replaced(messages[4], LARGE, kind=Kind.LIMITED)
    assert chosen(messages) == [2, 4]


def test_the_oldest_go_first_and_only_as_many_as_needed() -> None:
    messages = stored(rows(*[LARGE] * 6))
    assert chosen(messages, target_tokens=total(messages) - 1) == [2]
    assert chosen(messages, target_tokens=total(messages) - 1_500) == [2, 4]


def test_a_need_that_is_hardly_reached_takes_one_more() -> None:
    """What is written may free less than planned, and a target missed costs the session its next compaction."""
    messages = stored(rows(*[LARGE] * 3))
    found = planned(messages, target_tokens=total(messages) - 1)
    assert isinstance(found, Plan)
    saving = found.items[0].saving
    assert chosen(messages, target_tokens=total(messages) - saving) == [2, 4]
    assert chosen(messages, target_tokens=total(messages) - saving * 9 // 10) == [2]
    assert chosen(stored(rows(LARGE)), target_tokens=total(stored(rows(LARGE))) - saving) == [2]


def test_large_results_go_before_medium_ones_and_small_ones_never() -> None:
    messages = stored(rows(MEDIUM, SMALL, LARGE, MEDIUM))
    assert chosen(messages, target_tokens=total(messages) - 500) == [6]
    assert chosen(messages, target_tokens=1) == [2, 6, 8]


def test_the_newest_three_stay_while_older_ones_suffice() -> None:
    messages = stored(rows(*[LARGE] * 5))
    assert chosen(messages, keep_results=3, target_tokens=total(messages) - 1_000) == [2, 4]
    assert chosen(messages, keep_results=3, target_tokens=total(messages) - 2_000) == [2, 4, 6]
    assert chosen(messages, keep_results=3) == [2, 4, 6, 8, 10]


def test_a_medium_result_goes_before_one_of_the_newest() -> None:
    messages = stored(rows(MEDIUM, LARGE, LARGE, LARGE))
    assert chosen(messages, keep_results=3, target_tokens=total(messages) - 100) == [2]


def test_the_newest_two_steps_stay_when_they_hold_more_than_three_results() -> None:
    parallel = [calling("a", "b", "c"), *(result(name, name + LARGE) for name in "abc")]
    messages = stored([user(), *parallel, *parallel, *parallel, assistant()])
    assert chosen(messages, keep_results=3, target_tokens=total(messages) - 2_000) == [2, 3, 4]


def test_keeping_none_keeps_none() -> None:
    assert chosen(stored(rows(LARGE)), keep_results=0, target_tokens=500) == [2]


# --- why nothing


def test_a_gain_below_a_tenth_of_the_room_is_no_gain_below_the_ceiling() -> None:
    messages = stored([user("u" * 40_000), *rows(LARGE)])
    snapshot = Snapshot(messages, total(messages))
    nothing = plan(snapshot, levels(ceiling=20_000, threshold=10_000))
    assert isinstance(nothing, Nothing)
    assert nothing.code is Code.NO_GAIN
    assert isinstance(plan(snapshot, levels(ceiling=11_000, threshold=10_000)), Plan)


@pytest.mark.parametrize(
    ("chat", "fixed", "reason"),
    [
        ([user("u" * 8_000)], 100, "user_and_assistant_text"),
        ([user("hi")], 5_000, "system_and_tools"),
        ([system("s" * 80_000), user("hi")], 5_000, "system_and_tools"),
        ([user("hi"), calling("a"), result("a", LARGE * 3)], 100, "recent_or_small_results"),
    ],
)
def test_what_nothing_can_shrink_is_named_in_a_fixed_word(chat: list[Chat], fixed: int, reason: str) -> None:
    messages = stored(chat)
    budget = levels(ceiling=1_500, threshold=1_000, fixed=fixed)
    assert plan(Snapshot(messages, fixed + total(messages)), budget) == Nothing(Code.EXHAUSTED, reason)


def test_replacements_that_fill_a_context_are_named() -> None:
    messages = [
        replaced(message, LARGE) if message.role == "tool" else message for message in stored(rows(LARGE, LARGE))
    ]
    nothing = plan(Snapshot(messages, total(messages)), levels(ceiling=1_000, threshold=900))
    assert nothing == Nothing(Code.EXHAUSTED, "replacements")


def test_forced_below_the_threshold_without_a_candidate_is_not_exhausted() -> None:
    assert planned(stored([user("hi" * 100)])) == Nothing(Code.NOTHING_TO_DO, "no tool result that may be shortened")


@pytest.mark.parametrize(("tokens", "body"), [(100, 60), (400, 60), (1_000, 150), (2_266, 339), (90_000, 340)])
def test_a_summary_may_cost_15_percent_within_60_and_340(tokens: int, body: int) -> None:
    item = Item(0, Message(0, {"role": "tool"}, tokens), call_of())
    assert item.body_tokens == body


def call_of() -> Any:
    from compactor.formats.openai import Call

    return Call("a", "grep", "{}")


def test_the_last_position_of_a_plan_is_the_newest_it_touches() -> None:
    found = planned(stored(steps(4), by_length, offset=40))
    assert isinstance(found, Plan)
    assert found.last_position == 40 + found.items[-1].index
