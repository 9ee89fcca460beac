"""plan(): which messages may be replaced, in which order, and why there may be nothing to do."""

from __future__ import annotations

import json
from dataclasses import replace
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

LARGE = "x" * 4_000  # 1,000 tokens
MEDIUM = "y" * 1_200  # 300 tokens
SMALL = "z" * 600  # 150 tokens


def planned(messages: list[Message], **given: Any) -> Plan | Nothing:
    """A plan that wants everything there is but folds, unless told otherwise."""
    budget = given.pop("budget", levels(ceiling=10**6))
    wanted: dict[str, Any] = {"target_tokens": 1, "keep_results": 0, "keep_rows": True, **given}
    return plan(Snapshot(messages, total(messages)), budget, **wanted)


def chosen(messages: list[Message], **given: Any) -> list[int]:
    found = planned(messages, **given)
    return [] if isinstance(found, Nothing) else [item.index for item in found.items]


def rows(*sizes: str) -> list[Chat]:
    """A user message and one answered step for each result text, then an answer."""
    chat = [user("go")]
    for number, text in enumerate(sizes):
        chat += [calling(call(f"c{number}", arguments=f'{{"n":{number}}}')), result(f"c{number}", f"{number}{text}")]
    return [*chat, assistant("done")]


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


# --- pointers


def repeats(times: int, text: str = LARGE) -> list[Chat]:
    chat = [user("go")]
    for number in range(times):
        chat += [calling(call(f"c{number}", arguments='{"q":1}')), result(f"c{number}", text)]
    return [*chat, assistant("done")]


def pointers(messages: list[Message], **given: Any) -> list[tuple[int, int | None]]:
    found = planned(messages, **given)
    return [] if isinstance(found, Nothing) else [(item.index, item.repeat_of) for item in found.items]


def test_exact_repeats_point_to_the_newest_one() -> None:
    messages = stored(repeats(3))
    assert pointers(messages, target_tokens=total(messages) - 1_500) == [(2, 6), (4, 6)]


def test_repeats_alone_are_taken_when_they_reach_the_need() -> None:
    chat = [*rows(LARGE), *repeats(2)]
    messages = stored(chat)
    assert pointers(messages, target_tokens=total(messages) - 500) == [(6, 8)]


def test_a_repeat_may_point_to_an_unread_or_pinned_result() -> None:
    messages = stored(repeats(2)[:-1])
    assert pointers(messages) == [(2, 4)]
    messages = stored(repeats(2))
    messages[4] = Message(4, messages[4].value, messages[4].tokens, pinned=True)
    assert pointers(messages) == [(2, 4)]


def test_a_small_repeat_is_a_pointer_too_when_that_is_smaller() -> None:
    messages = stored(repeats(2, SMALL))
    assert pointers(messages, target_tokens=total(messages) - 50) == [(2, 4)]
    assert pointers(stored(repeats(2, "tiny"))) == []


@pytest.mark.parametrize(
    "other",
    [
        [calling(call("b", arguments='{"q":2}')), result("b", LARGE)],
        [calling(call("b", name="read", arguments='{"q":1}')), result("b", LARGE)],
        [calling(call("b", arguments='{"q":1}')), result("b", LARGE + "!")],
        [
            calling(call("b", arguments='{"q":1}')),
            result("b", [{"type": "text", "text": LARGE}, {"type": "image_url"}]),
        ],
    ],
)
def test_another_call_or_another_result_is_no_repeat(other: list[Chat]) -> None:
    chat = [user(), calling(call("a", arguments='{"q":1}')), result("a", LARGE), *other, assistant()]
    assert all(repeat is None for _, repeat in pointers(stored(chat)))


def test_a_replaced_result_is_nothing_to_point_to() -> None:
    messages = stored(repeats(2))
    messages[4] = replaced(messages[4], LARGE)
    assert pointers(messages) == []


def test_positions_not_indexes_name_the_repeat() -> None:
    messages = stored(repeats(2), offset=100)
    assert pointers(messages, target_tokens=total(messages) - 500) == [(2, 104)]


def test_a_pointer_names_the_newest_repeat_and_that_one_is_no_pointer() -> None:
    """It may be summarised by the same plan; both have a recall id of their own."""
    found = planned(stored(repeats(3)))
    assert isinstance(found, Plan)
    pointers = [item for item in found.items if item.repeat_of is not None]
    assert pointers
    assert len({item.repeat_of for item in pointers}) == 1
    assert all(item.repeat_of is not None and item.repeat_of > item.message.position for item in pointers)
    assert {item.repeat_of for item in pointers}.isdisjoint(item.message.position for item in pointers)


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


# --- condensed texts

TABLE = json.dumps([{"number": n, "status of the order": "delivered", "carrier": "north"} for n in range(60)])


def form(item: Item) -> str:
    return "pointer" if item.is_pointer else "condensed" if item.condensed else "summary"


def kinds(messages: list[Message], **given: Any) -> list[tuple[int, str]]:
    found = planned(messages, **given)
    return [] if isinstance(found, Nothing) else [(item.index, form(item)) for item in found.items]


def tables(*tails: str) -> list[Chat]:
    """Steps whose results are JSON that condenses to less than half, each with a text of its own."""
    chat = [user("go")]
    for number, tail in enumerate(tails):
        text = json.dumps({"page": number, "tail": tail, "orders": json.loads(TABLE)})
        chat += [calling(call(f"c{number}", arguments=f'{{"n":{number}}}')), result(f"c{number}", text)]
    return [*chat, assistant("done")]


def test_condensing_comes_before_summaries_when_it_reaches_the_need() -> None:
    messages = stored(tables("a", "b", "c"))
    assert kinds(messages, target_tokens=total(messages) - 700) == [(2, "condensed")]
    assert kinds(messages, target_tokens=total(messages) - 1_400) == [(2, "condensed"), (4, "condensed")]


def test_what_condenses_to_the_size_of_a_summary_keeps_everything() -> None:
    messages = stored([*tables("a", "b"), *rows(LARGE, LARGE)])
    assert kinds(messages, target_tokens=total(messages) - 2_800) == [
        (2, "condensed"), (4, "condensed"), (8, "summary"), (10, "summary"),
    ]  # fmt: skip


def test_all_become_summaries_where_condensing_would_not_reach_the_need() -> None:
    messages = stored(tables(*("x" * 3_000 for _ in range(3))))
    assert kinds(messages) == [(2, "summary"), (4, "summary"), (6, "summary")]


def test_a_condensed_text_that_frees_little_waits_for_a_summary() -> None:
    messages = stored(tables("many words " * 2_000))
    assert kinds(messages, target_tokens=total(messages) - 100) == [(2, "summary")]


def test_a_result_with_an_image_is_not_condensed() -> None:
    image = {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}
    chat = [user(), calling("a"), result("a", [{"type": "text", "text": TABLE}, image]), assistant()]
    assert kinds(stored(chat), target_tokens=500) == [(2, "summary")]


def test_the_newest_results_are_not_condensed_while_older_ones_suffice() -> None:
    messages = stored(tables("a", "b", "c", "d", "e"))
    found = kinds(messages, keep_results=3, target_tokens=total(messages) - 1_400)
    assert found == [(2, "condensed"), (4, "condensed")]


# --- superseded results


def polls(*answers: Any) -> list[Chat]:
    chat = [user("go")]
    for number, text in enumerate(answers):
        chat += [calling(call(f"c{number}", arguments='{"job":7}')), result(f"c{number}", text)]
    return [*chat, assistant("done")]


def superseded(messages: list[Message], *, ceiling: int = 1, **given: Any) -> list[tuple[int, int | None]]:
    found = planned(messages, budget=levels(ceiling=ceiling), **given)
    return [] if isinstance(found, Nothing) else [(item.index, item.superseded_by) for item in found.items]


def test_above_the_ceiling_earlier_answers_of_the_same_call_give_way_to_the_newest() -> None:
    messages = stored(polls("1" + LARGE, "2" + LARGE, "3" + LARGE))
    assert superseded(messages, target_tokens=total(messages) - 1_500) == [(2, 6), (4, 6)]


def test_below_the_ceiling_nothing_is_superseded() -> None:
    messages = stored(polls("1" + LARGE, "2" + LARGE, "3" + LARGE))
    assert all(newer is None for _, newer in superseded(messages, ceiling=10**6))


def test_an_answer_that_came_again_is_a_repeat_not_a_superseded_one() -> None:
    messages = stored(polls(LARGE, "2" + LARGE, LARGE))
    assert superseded(messages, target_tokens=total(messages) - 1_500) == [(2, None), (4, 6)]
    assert pointers(messages, target_tokens=total(messages) - 1_500, budget=levels(ceiling=1))[0] == (2, 6)


def test_a_failure_supersedes_no_answer_but_a_failure() -> None:
    failure = "Traceback (most recent call last)\n" + LARGE
    assert superseded(stored(polls(LARGE, failure))) == [(2, None), (4, None)]
    assert superseded(stored(polls(failure, failure + "again")))[0] == (2, 4)


def test_an_empty_answer_supersedes_nothing() -> None:
    assert superseded(stored(polls(LARGE, ""))) == [(2, None)]


def test_a_newer_picture_supersedes_an_older_one() -> None:
    picture = [{"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}]
    messages = stored(polls(picture, picture))
    assert superseded(messages, target_tokens=total(messages) - 500) == [(2, 4)]


# --- elided arguments


def writes(count: int, *, size: int = 4_000, answer: str = "done") -> list[Chat]:
    """Steps that each write a long text, then an answer; the calls stand at 1, 3, 5, ..."""
    chat = [user("go")]
    for number in range(count):
        text = json.dumps({"path": f"a{number}.py", "content": f"{number}" * size})
        chat += [calling(call(f"c{number}", "write", text)), result(f"c{number}", f"{number}{answer}")]
    return [*chat, assistant("done")]


def test_long_arguments_of_old_calls_are_elided_from_the_oldest_on() -> None:
    messages = stored(writes(6))
    assert chosen(messages, keep_results=3, target_tokens=total(messages) - 100) == [1]
    assert chosen(messages, keep_results=3) == [1, 3, 5]


def test_the_newest_calls_stay_whatever_the_need() -> None:
    assert chosen(stored(writes(3)), keep_results=3) == []
    assert chosen(stored(writes(3)), keep_results=0) == [1, 3, 5]


def test_arguments_stay_as_long_as_results_reach_the_need() -> None:
    messages = stored([*writes(3), *rows(LARGE, LARGE, LARGE, LARGE, LARGE)])
    assert chosen(messages, keep_results=3, target_tokens=total(messages) - 1_000) == [10, 12]
    assert chosen(messages, keep_results=3, target_tokens=total(messages) - 3_000) == [1, 3, 5, 10]


def test_a_call_and_its_result_may_both_be_replaced() -> None:
    assert chosen(stored(writes(1, answer=LARGE))) == [1, 2]


def test_the_call_of_an_unread_or_open_step_is_not_touched() -> None:
    chat = writes(2)
    assert chosen(stored(chat[:-1])) == [1]
    assert chosen(stored([*chat[:3], calling("x", call("y", "write", json.dumps({"c": LARGE}))), result("x")])) == [1]
    parallel = calling(call("x", "write", json.dumps({"c": LARGE})), call("y", "write", json.dumps({"c": LARGE})))
    assert chosen(stored([user(), parallel, result("x"), assistant("meanwhile")])) == []


def test_a_pinned_kept_or_already_elided_call_is_not_touched() -> None:
    plain = stored(writes(2))
    for marked in (
        replace(plain[1], pinned=True),
        replace(plain[1], kept=True),
        replace(plain[1], kind=Kind.ELIDED),
    ):
        assert chosen([plain[0], marked, *plain[2:]]) == [3]


def test_no_arguments_before_the_frontier_are_touched() -> None:
    messages = stored(writes(3))
    messages[4] = replaced(messages[4], "short")
    assert chosen(messages) == [5]


def test_short_arguments_and_short_strings_stay() -> None:
    assert chosen(stored(writes(3, size=1_000))) == []  # 250 tokens each
    many = json.dumps({f"key {number}": "words " * 20 for number in range(60)})
    assert chosen(stored([user(), calling(call("a", "write", many)), result("a"), assistant()])) == []


def test_the_text_beside_a_call_counts_for_nothing() -> None:
    chat = [user(), {**calling(call("a", "read", '{"path": "a"}')), "content": LARGE * 4}, result("a"), assistant()]
    assert chosen(stored(chat)) == []
