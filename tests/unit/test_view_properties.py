"""What holds for every view, whatever the conversation, the budget and the remembered cut."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from hypothesis import event, given, settings
from hypothesis import strategies as st

from compactor.encodings import encoder
from compactor.formats.openai import RESULT_ROLES, text_of
from compactor.history import History, read_history
from compactor.models import Fit, Message
from compactor.tokens import Encode, count_message
from compactor.validity import added_faults
from compactor.view import NO_CUT, Cut, View, compose
from tests.unit.chat import Chat, by_length, levels, stored, total
from tests.unit.conversations import busy_conversations, conversations, histories, odd_messages, sound_conversations

shares = st.sampled_from([0.02, 0.1, 0.3, 0.5, 0.8, 0.99])


def o200k() -> Encode:
    return encoder("o200k_base")


any_history = histories(
    st.one_of(conversations(), busy_conversations(), st.lists(odd_messages, max_size=8)), encode=o200k
)


def tagged(messages: Sequence[Message]) -> list[Message]:
    """The same messages under a key of the bot's own, by which they are found again in a view."""
    values: list[Chat] = [{**item.value, "tag": index} for index, item in enumerate(messages)]
    return [replace(item, value=value) for item, value in zip(messages, values, strict=True)]


def budgeted(messages: Sequence[Message], ceiling: float, target: float, cut: Cut | None, encode: Encode) -> View:
    most = max(1, int(total(messages) * ceiling))
    return compose(messages, levels(ceiling=most, threshold=max(1, int(most * target))), encode, beside=0, cut=cut)


def earlier_cut(messages: Sequence[Message], data: st.DataObject, encode: Encode) -> Cut:
    """A cut that an earlier send of the same session left, under a budget of its own."""
    end = data.draw(st.integers(0, len(messages)), label="earlier length")
    return budgeted(messages[:end], data.draw(shares), data.draw(shares), None, encode).cut if end else NO_CUT


def must_stay(history: History, messages: Sequence[Message], index: int) -> bool:
    role = messages[index].role
    return role in ("system", "developer") or index == history.last_user or messages[index].pinned


def stands_for_steps(message: Mapping[str, Any]) -> bool:
    """Whether a result holds the sentence for a gap of more than one step."""
    return any(sentence in text_of(message) for sentence in ("earlier messages are left out here", "此处省略较早的"))


def check(messages: Sequence[Message], view: View, ceiling: int, encode: Encode) -> None:
    history = read_history([message.value for message in messages])
    sent: dict[Any, Any] = {message["tag"]: message for message in view.messages}
    assert list(sent) == sorted(sent)
    assert len(sent) == len(view.messages)
    assert view.tokens == sum(count_message(message, encode) for message in view.messages)
    assert (view.fit is Fit.IMPOSSIBLE) is (view.tokens > ceiling)
    assert 0 <= view.stable_until <= len(view.messages)
    assert view.left_out == len(messages) - len(view.messages)
    for index, message in enumerate(messages):
        unread = history.is_unread(index)
        if must_stay(history, messages, index) and not unread:
            assert sent.get(index) is message.value
        if unread and index in history.step_of:
            assert index in sent
        if index in sent and sent[index] is not message.value:
            assert message.role in ("tool", "function")
            assert {**sent[index], "content": 0} == {**message.value, "content": 0}
            assert sent[index]["content"]
            # Where more than one step is missing it is said, whatever that costs.
            assert count_message(sent[index], encode) < message.tokens or stands_for_steps(sent[index])
    for order in range(view.stable_until):
        assert view.messages[order] is messages[order].value


@settings(max_examples=250)
@given(any_history, shares, shares, st.data())
def test_a_view_keeps_what_must_stay_and_adds_no_fault(
    messages: list[Message], ceiling: float, target: float, data: st.DataObject
) -> None:
    messages, encode = tagged(messages), o200k()
    values = [message.value for message in messages]
    cut = earlier_cut(messages, data, encode)
    view = budgeted(messages, ceiling, target, cut, encode)
    event(f"{view.fit}, cut {'kept' if view.cut == cut else 'new'}")
    check(messages, view, max(1, int(total(messages) * ceiling)), encode)
    assert not added_faults(values, view.messages)


def answered(values: Sequence[Mapping[str, Any]]) -> dict[int, tuple[int, int]]:
    """Tag of each result that answers a call -> tag of the calling message, place of the call."""
    history = read_history(values)
    return {
        values[index]["tag"]: (values[step.start]["tag"], order)
        for step in history.steps
        for order, index in enumerate(step.results)
        if index is not None
    }


@settings(max_examples=150)
@given(any_history, shares, shares, st.data())
def test_a_result_that_stays_answers_the_call_it_answered(
    messages: list[Message], ceiling: float, target: float, data: st.DataObject
) -> None:
    messages = tagged(messages)
    cut = earlier_cut(messages, data, o200k())
    view = budgeted(messages, ceiling, target, cut, o200k())
    before = answered([message.value for message in messages])
    for result, calling in answered(view.messages).items():
        assert before.get(result) == calling


@settings(max_examples=100)
@given(any_history, st.integers(0, 200))
def test_below_the_ceiling_the_very_same_values_come_back(messages: list[Message], beside: int) -> None:
    budget = levels(ceiling=max(1, total(messages) + beside), threshold=1)
    view = compose(messages, budget, o200k(), beside=beside, cut=Cut(10**6, 10**6, carriers=False))
    assert view.fit is Fit.FITS
    assert all(sent is message.value for sent, message in zip(view.messages, messages, strict=True))


def smallest(messages: Sequence[Message]) -> int:
    """An upper bound of what the smallest list costs: what must stay, unread results at a few hundred characters.

    A step with a late answer, behind a message of somebody else, stays whole.
    """
    history = read_history([message.value for message in messages])
    newest = history.steps[-1] if history.steps else None
    kept: set[int] = {index for index in range(len(messages)) if must_stay(history, messages, index)}
    for step in history.steps:
        unread = any(history.is_unread(index) for index in step.indexes)
        late = any(history.roles[index] not in RESULT_ROLES for index in range(step.start + 1, max(step.indexes)))
        if unread or late or step is newest or step.open or any(messages[index].pinned for index in step.indexes):
            kept.update(step.indexes)
    shortened = {index for index in kept if history.is_unread(index) and not messages[index].pinned}
    return sum(min(messages[index].tokens, 400) if index in shortened else messages[index].tokens for index in kept)


@settings(max_examples=100)
@given(histories(st.one_of(sound_conversations(max_turns=3), busy_conversations())), shares)
def test_impossible_means_that_what_must_stay_is_too_large(messages: list[Message], ceiling: float) -> None:
    view = budgeted(messages, ceiling, 0.5, None, by_length)
    if view.fit is Fit.IMPOSSIBLE:
        assert smallest(messages) > int(total(messages) * ceiling)


def sends(chat: Sequence[Chat]) -> list[int]:
    """The lengths at which a bot would send: the model speaks next."""
    ends = range(1, len(chat) + 1)
    return [end for end in ends if chat[end - 1]["role"] in ("user", "tool") and _model_is_next(chat, end)]


def _model_is_next(chat: Sequence[Chat], end: int) -> bool:
    return end == len(chat) or chat[end]["role"] == "assistant"


@settings(max_examples=100)
@given(sound_conversations(max_turns=5), st.floats(0.05, 0.9), shares)
def test_a_remembered_cut_keeps_the_prefix_while_it_fits(chat: list[Chat], ceiling: float, target: float) -> None:
    messages = tagged(stored(chat))
    most = max(1, int(total(messages) * ceiling))
    budget = levels(ceiling=most, threshold=max(1, int(most * target)))
    last: View | None = None
    for end in sends(chat):
        view = compose(messages[:end], budget, by_length, beside=0, cut=last.cut if last else None)
        if last and view.cut == last.cut != NO_CUT and last.fit is Fit.SHORTENED and not _shortened(last, messages):
            event("a cut was kept")
            assert view.messages[: len(last.messages)] == last.messages
        last = view


def _shortened(view: View, messages: Sequence[Message]) -> bool:
    """Whether the view shortens a result of the newest step: read by the next send, it is sent whole or dropped."""
    newest = max((order for order, sent in enumerate(view.messages) if sent["role"] == "assistant"), default=0)
    indexes: list[int] = [sent["tag"] for sent in view.messages]
    return any(
        sent is not messages[index].value for sent, index in zip(view.messages[newest:], indexes[newest:], strict=True)
    )


@settings(max_examples=60)
@given(sound_conversations(max_turns=4), shares)
def test_one_process_and_another_compose_the_same(chat: list[Chat], ceiling: float) -> None:
    views = [budgeted(stored(chat), ceiling, 0.5, None, by_length) for _ in range(2)]
    assert views[0] == views[1]
