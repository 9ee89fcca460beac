"""What holds for every replacement, whatever the conversation and whatever the model answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hypothesis import event, given, settings
from hypothesis import strategies as st

from compactor.drafting import Limits, Summarize, draft
from compactor.encodings import encoder
from compactor.exceptions import (
    SummarizerError,
    SummarizerRefused,
    SummarizerReplyRejected,
    SummarizerTimeout,
    SummarizerUnauthorized,
)
from compactor.folded import applied
from compactor.json_values import is_array
from compactor.models import Kind, Message
from compactor.planning import Plan, Snapshot, plan
from compactor.prompts import Summary, SummaryRequest
from compactor.tokens import Encode, count_message
from compactor.validity import added_faults
from tests.unit.chat import levels, total
from tests.unit.conversations import busy_conversations, conversations, histories, long_text, words
from tests.unit.summarizers import Scripted


def o200k() -> Encode:
    return encoder("o200k_base")


ERRORS: list[SummarizerError] = [
    SummarizerRefused(), SummarizerReplyRejected("empty"), SummarizerTimeout(), SummarizerUnauthorized("401"),
]  # fmt: skip
answers: st.SearchStrategy[Summary | SummarizerError] = st.one_of(
    st.builds(Summary, st.one_of(words, long_text), st.just("cheap"), st.integers(0, 9), st.integers(0, 9)),
    st.sampled_from(ERRORS),
)


def scripted(given_answers: Sequence[Summary | SummarizerError]) -> Scripted:
    def answer(request: SummaryRequest) -> Summary | SummarizerError:
        return given_answers[len(request.text) % len(given_answers)]

    return Scripted(answer)


models: st.SearchStrategy[Callable[[], Summarize | None]] = st.one_of(
    st.just(lambda: None), st.lists(answers, min_size=1, max_size=4).map(lambda drawn: lambda: scripted(drawn))
)
any_history = histories(st.one_of(busy_conversations(), busy_conversations(), conversations()), encode=o200k)


@settings(max_examples=150)
@given(any_history, models, st.booleans())
def test_a_draft_keeps_every_promise(
    messages: list[Message], model: Callable[[], Summarize | None], over: bool
) -> None:
    encode = o200k()
    snapshot = Snapshot(messages, total(messages))
    planned = plan(snapshot, levels(ceiling=10**6), target_tokens=1, keep_results=0, keep_rows=True)
    if not isinstance(planned, Plan):
        return
    found = draft(planned, snapshot, encode=encode, summarize=model(), limits=Limits(1.0, over=over))
    event(f"replacements: {min(3, len(found.replacements))}")
    originals = {item.message.position: item.message for item in planned.items}
    positions = [item.position for item in found.replacements]
    assert positions == sorted(set(positions))
    assert set(positions) <= originals.keys()
    assert len(positions) + found.left == len(planned.items)
    for item in found.replacements:
        original = originals[item.position]
        assert item.before == original.tokens
        assert item.after == count_message(item.value, encode) < item.before
        if item.kind is Kind.CONDENSED:
            assert item.after <= 0.75 * item.before
        else:
            assert item.kind is Kind.POINTER or (item.after <= 0.6 * item.before and item.after <= 400)
        assert {**item.value, "content": 0} == {**original.value, "content": 0}
        assert item.value["content"]
        assert is_array(item.value["content"]) is is_array(original.value.get("content"))
        assert not item.provisional or (found.failure is not None and item.kind is Kind.EXTRACT)
    if found.failure is not None and not over:
        assert found.by_model or not positions
        assert not positions or not found.replacements[-1].provisional
    before = [message.value for message in messages]
    assert not added_faults(before, applied(messages, found.replacements))


@settings(max_examples=50)
@given(any_history, st.booleans())
def test_without_a_model_a_draft_is_always_the_same(messages: list[Message], over: bool) -> None:
    snapshot = Snapshot(messages, total(messages))
    planned = plan(snapshot, levels(ceiling=10**6), target_tokens=1, keep_results=0)
    if isinstance(planned, Plan):
        limits = Limits(1.0, over=over)
        drafts = [draft(planned, snapshot, encode=o200k(), summarize=None, limits=limits) for _ in range(2)]
        assert drafts[0] == drafts[1]
