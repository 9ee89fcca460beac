"""plan(): what each rung takes and leaves: pointers, condensed texts, superseded results, elided arguments."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from compactor.models import Kind, Message
from compactor.planning import Item, Nothing, Plan
from tests.unit.chat import (
    Chat,
    assistant,
    call,
    calling,
    levels,
    replaced,
    result,
    stored,
    total,
    user,
)
from tests.unit.planned import LARGE, SMALL, chosen, planned, rows

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
