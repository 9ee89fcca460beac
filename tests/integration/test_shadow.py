"""Shadow mode: everything is computed and recorded, nothing replaced; the figures are those of real compactions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from compactor import Code, Fit, ModelConfig, Outcome
from compactor.models import CompactionId
from compactor.prompts import Summary
from compactor.settings import Settings
from tests.integration.clients import Client, Connect
from tests.integration.conversations import (
    SMALL,
    SYSTEM,
    WIDE,
    assistant,
    call,
    conversation,
    recount,
    result,
    step,
    user,
)
from tests.integration.inline_worker import InlineWorker
from tests.integration.stored import keys_of, published, records
from tests.unit.summarizers import Scripted

NAME = "shadow/one"


@pytest.fixture
def shadowed(settings: Settings) -> Settings:
    """The setting of bots in shadow mode."""
    return settings.model_copy(update={"shadow": "extracts"})


@pytest.fixture
def trying(connect: Connect, shadowed: Settings) -> Client:
    """A bot in shadow mode; the worker learns it from the claim."""
    return connect(shadowed)


def turns(first: int, count: int) -> list[Any]:
    """Steps whose calls use what older results said."""
    return [message for order in range(first, first + count) for message in step(order, 40)]


def account(run: Outcome) -> tuple[Any, ...]:
    """What a compaction did, without its id, its time, and how it ended."""
    return (
        run.before,
        run.after,
        run.positions,
        run.by_extract,
        run.by_fold,
        run.by_pointer,
        run.by_condensed,
        run.rewrite,
        run.reached,
    )


def test_nothing_is_replaced_and_sends_stay_whole(
    trying: Client, worker: InlineWorker, settings: Settings, raw: Any
) -> None:
    session = trying.session(NAME, SMALL)
    pushed = conversation(12)
    session.push(pushed)
    before = records(raw, settings, NAME)
    context = session.prepare(wait=10)
    assert context.messages == pushed
    assert context.verdict.total > context.verdict.ceiling
    assert (context.verdict.fit, context.verdict.compaction, context.left_out) == (Fit.SHADOW, "queued", 0)
    revision = session.status().revision
    ended = worker.work(NAME).outcome
    assert ended.outcome is Code.SHADOW
    assert ended.items == len(ended.positions) > 5
    assert ended.saved > 5_000
    assert records(raw, settings, NAME) == before
    after = session.status()
    assert (after.revision, after.archived, after.held, after.last) == (revision, 0, "shadow", ended)
    assert session.compactions() == [ended]
    assert session.prepare().messages == pushed
    assert session.estimate().fit is Fit.SHADOW
    assert session.originals() == pushed


def test_the_figures_are_those_that_real_compactions_have(trying: Client, memory: Client, worker: InlineWorker) -> None:
    """Round after round: a shadow run sees what the ones before it would have left."""
    tried, real = trying.session(NAME, SMALL), memory.session("shadow/twin", SMALL)
    for session in (tried, real):
        session.push(conversation(4))
    for order in range(20, 44):
        for name, session in ((NAME, tried), ("shadow/twin", real)):
            session.push(step(order, 40))
            if session.prepare(system="You look things up.").verdict.compaction == "queued":
                worker.work(name)
    done = real.compactions()
    assert [run.outcome for run in done] == [Code.APPLIED] * len(done)
    assert len(done) >= 4
    assert any(run.by_fold for run in done), "folds of what was replaced before are among them"
    assert [run.outcome for run in tried.compactions()] == [Code.SHADOW] * len(done)
    assert [account(run) for run in tried.compactions()] == [account(run) for run in done]


def test_between_two_runs_no_send_queues_anything(
    trying: Client, worker: InlineWorker, settings: Settings, raw: Any
) -> None:
    session = trying.session(NAME, SMALL)
    session.push(conversation(8))
    session.prepare()
    ended = worker.work(NAME).outcome
    tasks, room = published(raw, settings), session.estimate().threshold - ended.after
    while (room := room - recount(step(50, 40))) > 0:
        session.push(step(50, 40))
        assert session.prepare().verdict.compaction == "held(shadow)"
    assert published(raw, settings) == tasks
    session.push(step(50, 40))
    assert session.prepare().verdict.compaction == "queued", "a real compaction would be due, too"


def test_values_that_later_turns_use_are_looked_for_in_what_would_be_left(trying: Client, worker: InlineWorker) -> None:
    session = trying.session(NAME, SMALL)
    lookups = [
        f"order_id: ORD-{number}7431\nstatus: shipped\n" + "the weather is fine today\n" * 120 for number in range(9)
    ]
    steps = [message for order, text in enumerate(lookups) for message in (call(order), result(order, text))]
    session.push([SYSTEM, user("Look the orders up."), *steps, assistant("Done.")])
    session.prepare()
    first = worker.work(NAME).outcome
    assert (first.outcome, first.values_used) == (Code.SHADOW, 0)
    session.push([user("Which were shipped?"), assistant("ORD-07431 and ORD-17431 were."), *turns(60, 8)])
    session.prepare()
    second = worker.work(NAME).outcome
    assert second.outcome is Code.SHADOW
    assert second.values_used >= 2
    assert 0 < second.values_kept <= second.values_used


def test_with_workers_alone_in_shadow_mode_sends_are_shortened_as_ever(memory: Client, worker: InlineWorker) -> None:
    worker.tools = replace(worker.tools, shadow="extracts")
    session = memory.session(NAME, SMALL)
    session.push(conversation(12))
    context = session.prepare()
    assert context.verdict.fit is Fit.SHORTENED
    assert worker.work(NAME).outcome.outcome is Code.SHADOW
    assert session.originals() == conversation(12)


def test_a_caller_with_its_own_list_gets_it_back(trying: Client, worker: InlineWorker) -> None:
    session = trying.session(NAME, SMALL)
    own = conversation(12)
    for _ in range(2):
        context = session.prepare(own)
        assert context.messages == own
        if context.verdict.compaction == "queued":
            assert worker.work(NAME).outcome.outcome is Code.SHADOW
        own = [*context.messages, user("And then?"), assistant("Nothing.")]


@pytest.mark.parametrize(("mode", "asked"), [("extracts", False), ("model", True)])
def test_a_model_is_asked_only_when_the_operator_says_so(
    connect: Connect, settings: Settings, worker: InlineWorker, mode: str, asked: bool
) -> None:
    model = Scripted(lambda request: Summary(f"Found {request.text[:30]}", "cheap", spent_in=10, spent_out=2))
    worker.tools = replace(worker.tools, summarize=model, model="cheap")
    session = connect(settings.model_copy(update={"shadow": mode})).session(NAME, SMALL)
    session.push(conversation(10))
    session.prepare()
    ended = worker.work(NAME).outcome
    assert ended.outcome is Code.SHADOW
    assert bool(model.requests) is asked
    assert (ended.by_model > 0, ended.spent_in > 0) == (asked, asked)


def test_when_the_trial_ends_the_next_compaction_is_a_real_one(
    trying: Client, memory: Client, worker: InlineWorker, settings: Settings, raw: Any
) -> None:
    tried = trying.session(NAME, SMALL)
    tried.push(conversation(8))
    tried.prepare()
    worker.work(NAME)
    assert raw.hexists(keys_of(settings, NAME).state, "shadow")
    session = memory.session(NAME, SMALL)
    pushed = session.originals()
    while session.prepare().verdict.compaction != "queued":
        more = step(90, 40)
        pushed += more
        session.push(more)
    ended = worker.work(NAME).outcome
    assert ended.outcome is Code.APPLIED
    assert ended.positions[0] == 3, "from the oldest on"
    assert session.originals() == pushed
    assert not raw.hexists(keys_of(settings, NAME).state, "shadow")


def test_a_compaction_asked_for_by_name_is_a_shadow_too(
    trying: Client, settings: Settings, worker: InlineWorker
) -> None:
    session = trying.session(NAME, SMALL)
    session.push(conversation(8))
    queued = session.compact()
    assert queued.outcome is Code.QUEUED
    assert worker.work(NAME, owner=CompactionId(queued.id)).outcome.outcome is Code.SHADOW
    assert session.originals() == conversation(8)


def test_a_draft_that_was_kept_before_the_trial_is_not_swapped_in(
    trying: Client, memory: Client, worker: InlineWorker, settings: Settings, raw: Any
) -> None:
    waiting = ModelConfig("gpt-4o", 12, compact_at=6, max_output_tokens=3_000, cache_ttl=300, prefer_idle=True)
    pushed = conversation(8, lines=43)
    memory.session(NAME, waiting).push(pushed)
    memory.session(NAME, waiting).prepare()
    assert worker.work(NAME).outcome.outcome is Code.DRAFTED
    raw.hset(keys_of(settings, NAME).state, "sent_at", (raw.time()[0] - 400) * 1000)
    session = trying.session(NAME, waiting)
    first = session.prepare()
    assert first.messages == pushed
    assert session.compactions() == []
    if first.verdict.compaction != "queued":  # below the level at which the draft would have been swapped in
        session.push([user("and more"), *step(20, lines=43), assistant("so"), user("and"), *step(21, lines=43)])
        assert session.prepare().verdict.compaction == "queued", "the trial goes on"
    assert worker.work(NAME).outcome.outcome is Code.SHADOW
    assert session.originals()[: len(pushed)] == pushed


@pytest.mark.parametrize("ending", ["clear", "erase"])
def test_an_ended_conversation_leaves_no_draft(
    trying: Client, worker: InlineWorker, settings: Settings, raw: Any, ending: str
) -> None:
    session = trying.session(NAME, SMALL)
    session.push(conversation(8))
    session.prepare()
    worker.work(NAME)
    getattr(session, ending)()
    assert not raw.hexists(keys_of(settings, NAME).state, "shadow")


def test_drafts_that_were_damaged_from_outside_are_passed_over(
    trying: Client, worker: InlineWorker, settings: Settings, raw: Any
) -> None:
    session = trying.session(NAME, SMALL)
    session.push(conversation(8))
    session.prepare()
    worker.work(NAME)
    raw.hset(keys_of(settings, NAME).state, "shadow", b"\x00garbage")
    session.push(turns(50, 8))
    session.prepare()
    assert worker.work(NAME).outcome.outcome is Code.SHADOW
    assert trying.session(NAME, WIDE).prepare().messages == [*conversation(8), *turns(50, 8)]
