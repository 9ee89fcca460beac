"""What plan() never does, on conversations of every shape."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import event, given
from hypothesis import strategies as st

from compactor.budget import Budget
from compactor.condense import condense
from compactor.drafting import Limits, draft
from compactor.formats.openai import calls, text_of
from compactor.history import read_history
from compactor.models import Message
from compactor.planning import MEDIUM, Nothing, Plan, Snapshot, plan
from tests.unit.chat import Chat, by_length, total
from tests.unit.conversations import busy_conversations, conversations, histories, odd_messages

chats = st.one_of(busy_conversations(), busy_conversations(), conversations(), st.lists(odd_messages, max_size=8))
any_history = histories(chats)
shares = st.sampled_from([0.0, 0.2, 0.5, 0.9])


def budget_of(messages: Sequence[Message], share: float, ceiling: float) -> Budget:
    size = total(messages)
    return Budget(10**6, max(1, int(size * share)), max(1, int(size * ceiling)), 0)


def choose(messages: Sequence[Message], share: float, ceiling: float, keep: int) -> Plan | Nothing:
    budget = budget_of(messages, share, ceiling)
    return plan(Snapshot(messages, total(messages)), budget, keep_results=keep, keep_rows=True)


@given(any_history, shares, shares, st.integers(0, 4))
def test_a_plan_touches_only_what_may_be_touched(
    messages: list[Message], share: float, ceiling: float, keep: int
) -> None:
    found = choose(messages, share, ceiling, keep)
    event(type(found).__name__)
    if isinstance(found, Nothing):
        return
    roles = [message.value["role"] for message in messages]
    last_assistant = max((index for index, role in enumerate(roles) if role == "assistant"), default=-1)
    frontier = max((index for index, message in enumerate(messages) if message.replaced), default=-1)
    history = read_history([message.value for message in messages])
    indexes = [item.index for item in found.items]
    assert indexes == sorted(set(indexes))
    for item in found.items:
        assert item.message is messages[item.index]
        assert roles[item.index] in ("tool", "function")
        assert frontier < item.index < last_assistant
        assert not item.message.replaced
        assert not item.message.pinned
        assert not history.is_orphan(item.index)
        assert not history.step_of[item.index].open
        assert item.call in calls(messages[history.step_of[item.index].start].value)
        assert item.is_pointer or item.message.tokens > MEDIUM
        assert [item.repeat_of, item.superseded_by, item.condensed].count(None) >= 2
        assert item.superseded_by is None or total(messages) > budget_of(messages, share, ceiling).ceiling
        assert item.condensed is None or item.condensed == condense(text_of(item.message.value))
        assert item.saving > 0


@given(any_history, shares)
def test_a_pointer_names_a_newer_live_result_with_the_same_words(messages: list[Message], share: float) -> None:
    found = choose(messages, share, 0.0, 0)
    if isinstance(found, Nothing):
        return
    history = read_history([message.value for message in messages])
    by_position = {message.position: index for index, message in enumerate(messages)}
    for item in found.items:
        if item.repeat_of is None:
            continue
        index = by_position[item.repeat_of]
        other = history.call_of(index)
        assert index > item.index
        assert not messages[index].replaced
        assert text_of(messages[index].value) == text_of(item.message.value)
        assert other is not None
        assert (other.name, other.arguments) == (item.call.name, item.call.arguments)


@given(any_history, shares, shares)
def test_the_same_snapshot_always_gives_the_same_plan(messages: list[Message], share: float, ceiling: float) -> None:
    first, second = choose(messages, share, ceiling, 3), choose(messages, share, ceiling, 3)
    if isinstance(first, Nothing) or isinstance(second, Nothing):
        assert first == second
    else:
        assert (first.items, first.need) == (second.items, second.need)


@given(any_history, shares)
def test_a_superseded_result_names_a_newer_answer_of_the_same_call(messages: list[Message], share: float) -> None:
    found = choose(messages, share, 0.0, 0)
    if isinstance(found, Nothing):
        return
    history = read_history([message.value for message in messages])
    by_position = {message.position: index for index, message in enumerate(messages)}
    for item in found.items:
        if item.superseded_by is None:
            continue
        index = by_position[item.superseded_by]
        other = history.call_of(index)
        assert index > item.index
        assert not messages[index].replaced
        assert other is not None
        assert (other.name, other.arguments) == (item.call.name, item.call.arguments)
        event("superseded")


@given(any_history, shares)
def test_a_plan_stops_when_the_need_is_met(messages: list[Message], share: float) -> None:
    found = choose(messages, share, 0.0, 0)
    if isinstance(found, Plan):
        assert sum(item.saving for item in found.items[:-1]) < found.need


def swapped(messages: Sequence[Message], found: Plan) -> list[Message]:
    """The history after a swap of what the plan gives without a model."""
    snapshot = Snapshot(messages, total(messages))
    drafted = draft(found, snapshot, encode=by_length, summarize=None, limits=Limits(0.0, over=True))
    new = {item.position: item for item in drafted.replacements}
    return [
        Message(message.position, item.value, item.after, item.kind, pinned=message.pinned)
        if (item := new.get(message.position))
        else message
        for message in messages
    ]


@given(any_history, st.sampled_from([0.2, 0.5, 0.9]))
def test_a_second_plan_finds_nothing_or_goes_on_behind_the_first(messages: list[Message], share: float) -> None:
    budget = budget_of(messages, share, 2.0)
    first = plan(Snapshot(messages, total(messages)), budget)
    if isinstance(first, Nothing):
        return
    after = swapped(messages, first)
    second = plan(Snapshot(after, total(after)), budget)
    event(f"second: {type(second).__name__}")
    if total(after) < budget.threshold:
        assert isinstance(second, Nothing)
    if isinstance(second, Plan):
        written = {message.position for message in after if message.replaced}
        newest = max(written, default=-1)
        assert all(item.message.position > newest for item in second.items)
        assert sum(item.saving for item in second.items) >= budget.min_reclaim


@given(histories(chats, marked=False), st.integers(1, 3))
def test_plans_come_to_an_end(messages: list[Message], target: int) -> None:
    """Each round replaces something for good, so rounds are fewer than results."""
    rounds = 0
    while True:
        found = plan(Snapshot(messages, total(messages)), budget_of(messages, 0, 0), target_tokens=target)
        if isinstance(found, Nothing):
            break
        changed = swapped(messages, found)
        if changed == messages:
            break
        messages, rounds = changed, rounds + 1
    assert rounds <= sum(message.value["role"] in ("tool", "function") for message in messages)


@given(chats)
def test_planning_changes_no_message(chat: list[Chat]) -> None:
    before = repr(chat)
    messages = [Message(index, value, 500) for index, value in enumerate(chat)]
    choose(messages, 0.1, 0.2, 0)
    assert repr(chat) == before
