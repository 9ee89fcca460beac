"""Folds: which steps become one, what stands in their place, and that every list of the history is known again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from compactor.drafting import LARGEST, Limits, draft
from compactor.exceptions import SummarizerRefused, SummarizerTimeout
from compactor.folded import folds_among, skeleton
from compactor.folds import MOST_TOLD
from compactor.formats.openai import leading_system, text_of
from compactor.history import read_history
from compactor.matching import match
from compactor.models import Kind, Message
from compactor.planning import Nothing, Plan, Snapshot, plan
from compactor.records import encode_message
from compactor.rules import Rule, rules_of
from compactor.tokens import count_message
from compactor.validity import added_faults
from compactor.view import compose
from tests.unit.chat import (
    Chat,
    assistant,
    call,
    calling,
    levels,
    result,
    stored,
    system,
    total,
    user,
)
from tests.unit.folding import (
    SMALL,
    chats,
    drafted,
    folded,
    folded_indexes,
    history_of,
    o200k,
    planned,
    shown,
    task,
)
from tests.unit.summarizers import failing, saying

# --- which steps


def test_small_results_are_folded_where_nothing_else_frees_enough() -> None:
    assert folded_indexes(planned(stored(task(6)))) == [[2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]]


def test_a_fold_is_no_longer_than_the_need() -> None:
    messages = stored(task(12))
    found = planned(messages, target=total(messages) - 450)
    assert folded_indexes(found) == [[2, 3, 4, 5, 6, 7, 8]]


def test_nothing_is_folded_where_summaries_reach_the_target() -> None:
    messages = stored(task(6, "x" * 4_000))
    assert folded_indexes(planned(messages, target=total(messages) - 2_000)) == []


def test_a_long_run_becomes_several_folds_of_at_most_so_many_tokens() -> None:
    found = planned(stored(task(130)))
    assert isinstance(found, Plan)
    told = [item.fold.told for item in found.items if item.fold is not None]
    assert len(told) > 2
    assert max(told) <= MOST_TOLD


def test_a_fold_ends_where_a_turn_does_and_the_answer_to_the_user_stays() -> None:
    found = planned(stored([*task(4), *task(4)]))
    assert folded_indexes(found) == [list(range(2, 9)), list(range(12, 19))]


@pytest.mark.parametrize("between", [user("wait"), system("note")])
def test_what_stands_between_steps_bounds_a_fold(between: Chat) -> None:
    chat = task(6)
    assert folded_indexes(planned(stored([*chat[:7], between, *chat[7:]]))) == [list(range(2, 7)), list(range(9, 14))]


@pytest.mark.parametrize("mark", ["pinned", "kept"])
def test_a_step_that_stays_bounds_a_fold(mark: str) -> None:
    messages = stored(task(7))
    marks: dict[str, Any] = {mark: True}
    messages[8] = replace(messages[8], **marks)
    assert folded_indexes(planned(messages)) == [list(range(2, 7)), list(range(10, 15))]


def test_open_and_unread_steps_stay() -> None:
    chat = task(4)[:-1]
    assert folded_indexes(planned(stored(chat))) == [list(range(2, 7))]
    opened = [user("go"), calling("x"), *chat[1:], assistant("ok")]
    assert folded_indexes(planned(stored(opened))) == [list(range(3, 10))]


def test_what_a_rule_keeps_and_what_holds_a_pinned_phrase_stays() -> None:
    messages = stored(task(7))
    assert folded_indexes(planned(messages, rules=rules_of((Rule("grep", never=True),)))) == []
    assert folded_indexes(planned(messages, phrases=(f"3{SMALL}",))) == [list(range(2, 7)), list(range(10, 15))]
    assert folded_indexes(planned(messages, phrases=('"n":3',))) == [list(range(2, 7)), list(range(10, 15))]


def test_nothing_before_the_frontier_is_folded_without_originals() -> None:
    messages = stored(task(8))
    messages[6] = replace(messages[6], kind=Kind.EXTRACT, tokens=100)
    assert folded_indexes(planned(messages)) == [list(range(8, 17))]


def test_with_originals_what_was_replaced_is_folded_too_and_never_a_fold() -> None:
    messages = stored(task(12))
    original = messages[6]
    messages[6] = replace(messages[6], value=result("c2", "[short]"), kind=Kind.EXTRACT, tokens=100)
    found = planned(messages, originals={6: original})
    assert folded_indexes(found) == [list(range(2, 25))]
    assert folded_indexes(planned(messages, originals={})) == [list(range(8, 25))]
    after = folded(messages, drafted(messages, None, originals={6: original}))
    assert folded_indexes(planned(after, originals={})) == []


def test_a_fold_of_summaries_is_made_from_their_originals() -> None:
    messages = stored(task(4, "first kept_value=77123 last"))
    messages = [replace(m, tokens=m.tokens + 300) if m.role == "tool" else m for m in messages]
    shown = list(messages)
    shown[4] = replace(messages[4], value=result("c1", "[a summary]"), kind=Kind.SUMMARY, tokens=250)
    found = drafted(shown, None, originals={4: messages[4]})
    (holder,) = [item for item in found.replacements if item.kind is Kind.FOLD]
    assert "[a summary]" not in text_of(holder.value)


# --- what stands in their place


def test_parallel_calls_keep_one_answer_each() -> None:
    chat = [user("go"), calling("a", "b"), result("a", "1"), result("b", SMALL), *task(4)[1:]]
    found = drafted(stored(chat), None)
    shown = {item.position: item for item in found.replacements}
    assert [shown[2].kind, shown[3].kind] == [Kind.FOLD, Kind.FOLD]
    assert text_of(shown[2].value) == "[shortened together with m3; original: m2]"
    assert "5 earlier steps (grep x6)" in text_of(shown[3].value)
    assert "originals: m2-" in text_of(shown[3].value)


def test_a_model_is_asked_once_for_a_fold_and_sees_calls_and_results_as_data() -> None:
    model = saying("Five rows were read.")
    found = drafted(stored(task(5)), model)
    (asked,) = model.requests
    assert asked.tool == "grep x5"
    assert all(f'grep({{"n":{number}}})' in asked.text and f"{number}{SMALL}" in asked.text for number in range(5))
    assert "Five rows were read." in text_of(found.replacements[0].value)
    assert (found.by_fold, found.by_model, found.model) == (9, 0, "cheap")


def test_a_refusal_gives_an_extract_and_a_failure_that_may_pass_nothing_below_the_ceiling() -> None:
    assert drafted(stored(task(5)), failing(SummarizerRefused())).by_fold == 9
    waiting = drafted(stored(task(5)), failing(SummarizerTimeout()))
    assert (waiting.replacements, waiting.left) == ([], 1)
    over = drafted(stored(task(5)), failing(SummarizerTimeout()), over=True)
    assert over.by_fold == 9
    assert not any(item.provisional for item in over.replacements)


def test_no_model_sees_a_fold_with_a_result_that_none_may_see() -> None:
    chat = task(5)
    chat[3] = calling(call("c1", "bank", '{"n":1}'))
    model = saying("Five rows.")
    found = drafted(stored(chat), model, rules=rules_of((Rule("bank", extract=True),)))
    assert (model.requests, found.by_fold) == ([], 9)


def test_secrets_stand_in_no_fold() -> None:
    chat = task(5)
    chat[4] = result("c1", "password: hunter2-Kx9w7 " + SMALL)
    chat[5] = calling(call("c2", arguments='{"password": "hunter2-Kx9w7"}'))
    found = drafted(stored(chat), None)
    assert not any("hunter2" in str(item.value) for item in found.replacements)


def test_a_skeleton_has_calls_and_no_words() -> None:
    bare = skeleton({"role": "assistant", "content": "secret", "tool_calls": [call("a", arguments='{"q":1}'), "odd"]})
    assert bare == {
        "role": "assistant",
        "tool_calls": [{"id": "a", "function": {"name": "grep"}}, {"function": {"name": ""}}],
    }
    assert skeleton({"role": "function", "name": "grep", "content": "x"}) == {"role": "function", "name": "grep"}
    legacy = {"role": "assistant", "content": None, "function_call": {"name": "grep", "arguments": "{}"}}
    assert skeleton(legacy) == {"role": "assistant", "function_call": {"name": "grep"}}


# --- what always holds


def compacted(messages: Sequence[Message]) -> list[Message]:
    found = plan(Snapshot(messages, total(messages)), levels(ceiling=10**6), target_tokens=1, keep_results=0)
    if isinstance(found, Nothing):
        return list(messages)
    snapshot = Snapshot(messages, total(messages))
    written = draft(found, snapshot, encode=o200k(), summarize=None, limits=Limits(0.0, over=True))
    event(f"folds: {min(2, sum(item.kind is Kind.FOLD for item in written.replacements))}")
    return folded(messages, written)


@settings(max_examples=60)
@given(chats)
def test_a_folded_list_is_as_valid_as_it_was_and_counted_right(chat: list[Chat]) -> None:
    messages = history_of(chat)
    after = compacted(messages)
    assert not added_faults(chat, shown(after))
    assert total(after) == sum(count_message(value, o200k()) for value in shown(after)) <= total(messages)
    before, reads = read_history(chat), read_history([message.value for message in after])
    assert [(step.start, step.results) for step in reads.steps] == [(step.start, step.results) for step in before.steps]
    for fold in folds_among([message.kind for message in after]):
        assert all(after[index].tokens <= LARGEST for index in fold.carriers)
        assert not any(before.roles[index] in ("user", "system", "developer") for index in fold.indexes)
        assert all(after[index].tokens == 0 for index in fold.hidden)


@settings(max_examples=60)
@given(chats, st.data())
def test_any_list_of_a_folded_history_changes_nothing(chat: list[Chat], data: st.DataObject) -> None:
    messages = history_of([{**message, "name": f"n{index}"} for index, message in enumerate(chat)])
    after = compacted(messages)
    lead = leading_system([message.value for message in after])
    mine = [message.value for message in messages[lead:]]
    for rows in (mine, shown(after)[lead:], mine[: data.draw(st.integers(0, len(mine)))]):
        found = match(after, [encode_message(row) for row in rows], lead=lead)
        assert not found.changes
        assert found.branch is None
    returned = match(after, [encode_message(row) for row in shown(after)[lead:]], lead=lead)
    assert returned.places == tuple(range(lead, len(after)))


@settings(max_examples=60)
@given(chats, st.sampled_from([0.2, 0.5, 0.8]), st.booleans())
def test_a_view_of_a_folded_history_is_known_again_before_and_after_the_fold(
    chat: list[Chat], share: float, keep_rows: bool
) -> None:
    messages = history_of([{**message, "name": f"n{index}"} for index, message in enumerate(chat)])
    after = compacted(messages)
    lead = leading_system([message.value for message in after])
    for sent, stands in ((after, after), (messages, after), (messages, messages)):
        ceiling = max(1, int(total(sent) * share))
        view = compose(sent, levels(ceiling=ceiling), o200k(), beside=0, keep_rows=keep_rows)
        assert not added_faults(shown(sent), view.messages)
        assert view.tokens == sum(count_message(value, o200k()) for value in view.messages)
        if keep_rows:
            assert len(view.messages) == len(shown(sent))
        if view.shortened:
            continue
        found = match(stands, [encode_message(row) for row in view.messages[lead:]], lead=lead)
        assert not found.changes, "a view came back as something new"
