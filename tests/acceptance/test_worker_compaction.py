"""A compaction end to end: bot, server, worker process, model over HTTP."""

from __future__ import annotations

import time

from compactor import Code, Fit
from compactor.testing import ModelServer
from compactor.validity import faults
from tests.acceptance.conftest import Service
from tests.acceptance.scripted_model import long_talk, requests_with
from tests.acceptance.waiting import wait_until
from tests.conftest import recorded
from tests.integration.conversations import SMALL, conversation, recount, user


def test_a_model_writes_the_summaries_while_the_bot_goes_on(modelled: Service, model: ModelServer) -> None:
    session = modelled.session("e2e/model", SMALL)
    pushed = long_talk(9, "unhurried", "mark-e2e")
    session.push(pushed)
    started = time.monotonic()
    first = session.prepare()
    assert time.monotonic() - started < 0.4, "prepare never waits for a model"
    assert first.verdict.compaction == "queued"
    assert first.verdict.sent <= first.verdict.ceiling
    more = user("And in the tests?")
    session.push(more)
    outcome = wait_until(lambda: session.status().last)
    assert (outcome.outcome, outcome.model) == (Code.APPLIED, "cheap")
    assert outcome.by_model == outcome.items == len(requests_with(model, "mark-e2e"))
    assert outcome.spent_in == 100 * outcome.items
    context = session.prepare()
    assert context.verdict.fit is Fit.FITS
    assert context.verdict.total == recount(context.messages) + 3
    assert outcome.after <= context.verdict.total <= outcome.after + recount([more])
    assert context.replaced == outcome.items
    assert all("The tool returned rows." in context.messages[i]["content"] for i in outcome.positions)
    assert not faults(context.messages)
    assert session.originals() == [*pushed, more]
    assert [session.recall(f"m{i}") for i in outcome.positions] == [pushed[i] for i in outcome.positions]


def test_without_a_model_extracts_take_the_place(modelless: Service) -> None:
    session = modelless.session("e2e/extract", SMALL)
    session.push(conversation(9))
    outcome = session.compact(wait=20)
    assert (outcome.outcome, outcome.model, outcome.by_model) == (Code.APPLIED, "", 0)
    assert outcome.by_extract == outcome.items
    assert outcome.reached
    context = session.prepare()
    assert context.verdict.total < context.verdict.threshold
    assert not faults(context.messages)
    assert session.originals() == conversation(9)


def test_a_send_that_would_be_shortened_can_wait_for_the_swap(modelled: Service) -> None:
    session = modelled.session("e2e/wait", SMALL)
    session.push(long_talk(12, "unhurried", "mark-wait"))
    context = session.prepare(wait=15)
    assert context.verdict.fit is Fit.FITS
    assert context.replaced > 0


def test_a_send_at_the_threshold_waits_only_when_asked_for_the_swap(modelled: Service) -> None:
    at_once, waiting = (modelled.session("e2e/wait-for", SMALL) for _ in range(2))
    for session in (at_once, waiting):
        session.push(long_talk(7, "unhurried", "mark-wait-for"))
        assert 6_000 <= session.estimate().total <= 7_000
    assert at_once.prepare(wait=15).replaced == 0
    assert waiting.prepare(wait=15, wait_for="swap").replaced > 0


def test_the_results_of_a_session_are_summarised_in_parallel(modelled: Service, model: ModelServer) -> None:
    session = modelled.session("e2e/parallel", SMALL)
    session.push(long_talk(14, "unhurried", "mark-parallel"))
    outcome = session.compact(wait=20)
    assert outcome.by_model == outcome.items >= 8
    assert outcome.ms < 400 * outcome.items / 2


def test_a_recorded_conversation_grows_and_is_compacted_several_times(modelless: Service) -> None:
    record = recorded("miniswe_deepseek", most=1)[0]["messages"]
    session = modelless.session("e2e/recorded", SMALL)
    for message in record:
        session.push(message)
        if message["role"] == "assistant":
            context = session.prepare(wait=10, wait_for="swap")
            assert context.verdict.fit in (Fit.FITS, Fit.SHORTENED)
            assert context.verdict.sent == recount(context.messages) + 3 <= context.verdict.ceiling
    outcomes = session.compactions()
    assert sum(outcome.outcome is Code.APPLIED for outcome in outcomes) >= 2
    assert session.originals() == record


def test_a_session_that_nothing_can_shrink_says_why(modelless: Service) -> None:
    session = modelless.session("e2e/exhausted", SMALL)
    session.push([user("word " * 1_000) for _ in range(7)])
    outcome = session.compact(wait=20)
    assert (outcome.outcome, outcome.reason) == (Code.EXHAUSTED, "user_and_assistant_text")
    assert session.prepare().verdict.compaction == "held(exhausted)"
