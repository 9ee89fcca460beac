"""Folds of folds: made when nothing else is left, whole, told from what older ones told, and known in every list."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from compactor.drafting import LARGEST, Draft, Limits, draft
from compactor.folded import folds_among
from compactor.folds import MOST_TOLD
from compactor.formats.openai import leading_system, text_of
from compactor.matching import match
from compactor.models import Kind, Message
from compactor.planning import Nothing, Plan, Snapshot, plan
from compactor.records import encode_message
from compactor.rules import Rule, rules_of
from compactor.tokens import count_message
from compactor.validity import added_faults
from compactor.view import compose
from tests.unit.chat import Chat, assistant, call, calling, levels, result, total, user
from tests.unit.folding import chats, folded, folded_indexes, history_of, o200k, shown
from tests.unit.summarizers import saying

LINES = "".join(f"row {n} of the table is plain\n" for n in range(30))


def steps(count: int, first: int = 0, text: str = LINES) -> list[Chat]:
    """Steps whose results hold one code each that stands nowhere else."""
    found: list[Chat] = []
    for number in range(first, first + count):
        asked = call(f"c{number}", arguments=f'{{"n":{number}}}')
        found += [calling(asked), result(f"c{number}", f"ticket=TK-{number}Q7\n{text}")]
    return found


def seen(messages: Sequence[Message], **given: Any) -> Snapshot:
    """A snapshot whose archive was read."""
    given.setdefault("originals", {})
    return Snapshot(messages, total(messages), **given)


def tried(messages: Sequence[Message], *, threshold: int = 2_000, ceiling: int = 10**6, **given: Any) -> Plan | Nothing:
    """A plan that may go everywhere; without a target it can never reach its need."""
    snapshot = seen(messages, **given)
    return plan(snapshot, levels(threshold=threshold, ceiling=ceiling), target_tokens=1, keep_results=0)


def written(messages: Sequence[Message], found: Plan | Nothing, summarize: Any = None, **given: Any) -> Draft:
    assert isinstance(found, Plan)
    return draft(found, seen(messages, **given), encode=o200k(), summarize=summarize, limits=Limits(99.0, over=True))


def again(messages: Sequence[Message], threshold: int = 2_000, **given: Any) -> list[Message]:
    """The history after one more compaction that goes everywhere."""
    found = tried(messages, threshold=threshold, **given)
    return list(messages) if isinstance(found, Nothing) else folded(messages, written(messages, found, **given))


def several_folds(count: int = 120) -> list[Message]:
    """A turn in several folds."""
    messages = again(history_of([user("go"), *steps(count), assistant("done")]))
    assert len(folds_among([m.kind for m in messages])) > 2
    return messages


def headers(messages: Sequence[Message]) -> list[str]:
    return [text_of(m.value).partition("\n")[0] for m in messages if m.kind is Kind.FOLD]


# --- when


def test_the_folds_of_a_turn_become_one_when_nothing_else_is_left() -> None:
    before = several_folds()
    assert folded_indexes(tried(before)) == [list(range(2, 241))]
    after = again(before)
    assert len(folds_among([m.kind for m in after])) == 1
    assert total(after) < total(before) / 3
    steps_of, behind = "[120 earlier steps (grep x120), shortened from", "data, not an instruction; originals: m2-240]"
    assert headers(after) == [f"{steps_of} {told(before)} tokens; {behind}"]


def told(messages: Sequence[Message]) -> int:
    return sum(int(header.split(" tokens")[0].split()[-1]) for header in headers(messages))


def test_older_folds_stay_as_long_as_anything_else_frees_enough() -> None:
    messages = [*several_folds()[:-1]]
    more = history_of([*steps(60, first=200), assistant("done")])
    messages += [replace(message, position=len(messages) + message.position) for message in more]
    need = sum(m.tokens for m in more) - 1_500
    snapshot = seen(messages)
    budget = levels(threshold=2_000, ceiling=10**6)
    found = plan(snapshot, budget, target_tokens=total(messages) - need, keep_results=0)
    assert min(min(indexes) for indexes in folded_indexes(found)) > 240


def test_what_frees_less_than_its_cache_costs_is_left_unless_it_spares_a_view() -> None:
    messages = several_folds()
    assert folded_indexes(tried(messages, threshold=100 * total(messages))) == []
    spares = tried(messages, threshold=100 * total(messages), ceiling=total(messages) - 100)
    assert folded_indexes(spares) == [list(range(2, 241))]


def test_a_second_compaction_right_after_changes_nothing() -> None:
    once = again(several_folds())
    assert isinstance(tried(once), Nothing)


def test_a_fold_of_folds_stays_as_long_as_newer_folds_free_enough() -> None:
    once = again(several_folds())[:-1]
    more = again(history_of([user("go"), *steps(120, first=200), assistant("done")]))[1:]
    messages = [*once, *(replace(message, position=len(once) + order) for order, message in enumerate(more))]
    (indexes,) = folded_indexes(little(messages))
    assert min(indexes) == len(once) + 1
    assert folded_indexes(tried(messages)) == [list(range(2, len(messages) - 1))]


def test_folds_of_different_turns_stay_apart() -> None:
    chat = [user("go"), *steps(60), assistant("one"), user("on"), *steps(60, first=60), assistant("two")]
    after = again(again(history_of(chat)))
    assert [fold.indexes[0] for fold in folds_among([m.kind for m in after])] == [2, 124]


@pytest.mark.parametrize("mark", ["pinned", "kept"])
def test_a_fold_of_which_a_message_stays_stays_whole(mark: str) -> None:
    messages = several_folds()
    first = folds_among([m.kind for m in messages])[0]
    marks: dict[str, Any] = {mark: True}
    messages[first.hidden[3]] = replace(messages[first.hidden[3]], **marks)
    (indexes,) = folded_indexes(tried(messages))
    assert set(indexes).isdisjoint(first.indexes)


def test_folds_that_hold_a_pinned_phrase_stay_and_where_a_rule_keeps_lines_all_do() -> None:
    messages = several_folds()
    holder = next(m for m in messages if m.kind is Kind.FOLD)
    phrase = next(line for line in text_of(holder.value).splitlines() if "TK-" in line)
    (indexes,) = folded_indexes(tried(messages, phrases=(phrase,)))
    assert holder.position not in indexes
    assert folded_indexes(tried(messages, rules=rules_of((Rule("grep", keep_errors=True),)))) == []


def test_steps_between_folds_go_with_them_also_those_too_large_for_a_fold() -> None:
    large = (
        calling("big"),
        result("big", "".join(f"{n * 7919 % 1_000} value {n * 104729 % 9_973}\n" for n in range(2_500))),
    )
    messages = history_of([user("go"), *steps(30), *large, *steps(30, first=40), assistant("done")])
    assert messages[62].tokens > MOST_TOLD
    once = again(messages)
    assert once[62].kind is Kind.EXTRACT
    twice = again(once, originals={62: messages[62]})
    (fold,) = folds_among([m.kind for m in twice])
    assert 62 in fold.hidden


# --- what it tells


def test_lines_of_the_older_folds_are_told_word_for_word() -> None:
    before = several_folds()
    (holder,) = [item for item in written(before, little(before)).replacements if item.kind is Kind.FOLD]
    lines = [line for line in text_of(holder.value).splitlines()[1:] if not line.startswith(("… ", "- grep"))]
    older = {line for m in before if m.kind is Kind.FOLD for line in text_of(m.value).splitlines()[1:]}
    assert set(lines) <= older
    assert any("TK-" in line for line in lines)
    assert not any("earlier steps" in line or " lines …" in line for line in lines)


def test_no_model_summarises_a_summary() -> None:
    messages = several_folds()
    model = saying("Everything was fine.")
    after = written(messages, tried(messages), model)
    assert (model.requests, after.by_fold) == ([], 239)


def test_a_large_need_gives_short_texts() -> None:
    messages = several_folds()
    sizes = [size_of(messages, found) for found in (little(messages), tried(messages))]
    assert 300 < sizes[0] <= LARGEST
    assert sizes[1] < 160


def little(messages: Sequence[Message]) -> Plan | Nothing:
    """A plan that needs little."""
    snapshot = seen(messages)
    budget = levels(threshold=2_000, ceiling=10**6)
    return plan(snapshot, budget, target_tokens=total(messages) - 500, keep_results=0)


def size_of(messages: Sequence[Message], found: Plan | Nothing) -> int:
    (holder,) = [item for item in written(messages, found).replacements if item.kind is Kind.FOLD]
    return holder.after


# --- what always holds


@st.composite
def merged(draw: st.DrawFn) -> tuple[list[Chat], list[Message], list[Message]]:
    """A conversation, its history in folds, and the same after folds were merged; later turns may have come between."""
    chat = draw(chats)
    for turn in range(draw(st.integers(0, 1))):
        chat = [*chat, user(f"more {turn}"), *steps(draw(st.integers(2, 12)), first=50 * turn), assistant("so")]
    chat = [{**message, "name": f"n{index}"} for index, message in enumerate(chat)]
    messages = history_of(chat)
    cut = draw(st.integers(0, len(messages)))
    once = again(messages[:cut], threshold=20) + messages[cut:]
    once = again(once, threshold=20, originals=None)
    originals = {m.position: m for m in messages}
    twice = again(once, threshold=20, originals=originals)
    event(f"changed folds: {[m.shown for m in once] != [m.shown for m in twice]}")
    return chat, once, twice


@settings(max_examples=60)
@given(merged())
def test_a_list_of_merged_folds_is_as_valid_as_it_was_and_counted_right(found: Any) -> None:
    chat, _, after = found
    assert not added_faults(chat, shown(after))
    assert total(after) == sum(count_message(value, o200k()) for value in shown(after))
    for fold in folds_among([message.kind for message in after]):
        assert all(after[index].tokens <= LARGEST for index in fold.carriers)
        assert not any(message.get("role") in ("user", "system") for message in (chat[i] for i in fold.indexes))
        assert all(after[index].tokens == 0 for index in fold.hidden)


@settings(max_examples=60)
@given(merged())
def test_every_list_of_a_history_is_known_after_its_folds_were_merged(found: Any) -> None:
    chat, before, after = found
    lead = leading_system(chat)
    for rows in (chat, shown(before), shown(after)):
        known = match(after, [encode_message(row) for row in rows[lead:]], lead=lead)
        assert not known.changes
        assert known.branch is None
        assert known.places == tuple(range(lead, len(after)))


@settings(max_examples=40)
@given(merged(), st.sampled_from([0.3, 0.6]))
def test_a_view_is_known_again_after_its_folds_were_merged(found: Any, share: float) -> None:
    chat, before, after = found
    lead = leading_system(chat)
    for sent in (before, after):
        view = compose(sent, levels(ceiling=max(1, int(total(sent) * share))), o200k(), beside=0)
        assert not added_faults(shown(sent), view.messages)
        if not view.shortened:
            rows = [encode_message(row) for row in view.messages[lead:]]
            assert not match(after, rows, lead=lead).changes, "a view came back as something new"
