"""What the model answered once is not paid for again: after a crash, a stale swap, a retry."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import Any

import pytest

from compactor import Code
from compactor.commands.command import Command
from compactor.exceptions import StoreUnavailableError, SummarizerReplyRejected, SummarizerServerError
from compactor.prompts import Summary, SummaryRequest
from compactor.settings import Settings
from tests.acceptance.waiting import wait_until
from tests.integration.clients import Client
from tests.integration.conversations import SMALL, conversation, user
from tests.integration.inline_worker import InlineWorker
from tests.integration.stored import keys_of
from tests.unit.summarizers import Answer, Scripted
from workers.saving import Saver

NAME = "reuse/chat"


class Died(Exception):
    """The worker was killed."""


@pytest.fixture
def asked(worker: InlineWorker) -> Scripted:
    """A model behind the worker that counts what it was asked."""
    model = Scripted(lambda request: Summary(f"{request.tool} returned rows.", "cheap", spent_in=100, spent_out=20))
    worker.tools = replace(worker.tools, summarize=model, model="cheap")
    return model


def crossed(memory: Client) -> Any:
    session = memory.session(NAME, SMALL)
    session.push(conversation(8))
    assert session.prepare().verdict.compaction == "queued"
    return session


def die() -> None:
    raise Died


def test_a_worker_that_died_before_its_swap_had_the_answers_kept(
    memory: Client, worker: InlineWorker, asked: Scripted
) -> None:
    crossed(memory)
    with pytest.raises(Died):
        worker.with_lease(0.001).work(NAME, at="swapping", then=die)
    calls = len(asked.requests)
    assert calls > 1
    ended = worker.work(NAME).outcome
    assert (ended.outcome, ended.by_model) == (Code.APPLIED, calls)
    assert len(asked.requests) == calls, "nothing was asked twice"
    assert (ended.spent_in, ended.spent_out) == (100 * calls, 20 * calls), "and what was spent is told"


def test_after_an_undo_the_same_results_cost_nothing(memory: Client, worker: InlineWorker, asked: Scripted) -> None:
    session = crossed(memory)
    first = worker.work(NAME).outcome
    calls = len(asked.requests)
    session.undo()
    session.release(first.id)
    session.push(user("and now something else"))  # another goal
    assert session.compact().outcome is Code.QUEUED
    again = worker.work(NAME).outcome
    assert again.by_model > 0
    texts = [request.text for request in asked.requests]
    assert len(texts) == len(set(texts)), "only what is new was asked"
    assert again.spent_in == 100 * (len(asked.requests) - calls)


def test_a_reply_that_failed_its_checks_is_not_asked_for_again_but_a_failed_server_is(
    memory: Client, worker: InlineWorker, asked: Scripted
) -> None:
    def answer(request: SummaryRequest) -> Answer:
        return SummarizerReplyRejected("invented") if "value_0" in request.text else SummarizerServerError("500")

    asked.answer = answer
    crossed(memory)
    worker.work(NAME)
    first = [request.text for request in asked.requests]
    rejected = [text for text in first if "value_0" in text]
    worker.work(NAME)
    second = [request.text for request in asked.requests[len(first) :]]
    assert rejected
    assert not set(second) & set(rejected)
    assert set(second) == set(first) - set(rejected)


@pytest.mark.parametrize("ending", ["clear", "erase"])
def test_nothing_of_it_outlives_the_conversation(
    memory: Client, settings: Settings, worker: InlineWorker, asked: Scripted, raw: Any, ending: str
) -> None:
    session = crossed(memory)
    worker.work(NAME)
    key = keys_of(settings, NAME).summaries
    assert raw.hlen(key) == len(asked.requests)
    assert 0 < raw.pttl(key) <= 3_600_000
    getattr(session, ending)()
    assert not raw.exists(key)


def test_garbage_in_its_place_is_asked_for_again(
    memory: Client, settings: Settings, worker: InlineWorker, asked: Scripted, raw: Any
) -> None:
    crossed(memory)
    with pytest.raises(Died):
        worker.with_lease(0.001).work(NAME, at="swapping", then=die)
    key = keys_of(settings, NAME).summaries
    for place, name in enumerate(raw.hkeys(key)):
        raw.hset(key, name, (b"{", b"[]", b"7", b"")[place % 4])
    assert worker.work(NAME).outcome.outcome is Code.APPLIED


@pytest.mark.parametrize("ending", ["clear", "erase"])
def test_an_answer_that_comes_after_the_end_of_its_conversation_is_not_kept(
    memory: Client, settings: Settings, worker: InlineWorker, asked: Scripted, raw: Any, ending: str
) -> None:
    session = crossed(memory)

    def answer(request: SummaryRequest) -> Answer:
        if len(asked.requests) == 1 or session.status().length:
            getattr(session, ending)()
        return Summary(f"{request.tool} returned rows.", "cheap", spent_in=100, spent_out=20)

    asked.answer = answer
    assert worker.work(NAME).outcome.outcome is not Code.APPLIED
    assert not raw.exists(keys_of(settings, NAME).summaries)


def test_answers_that_came_while_the_server_was_away_are_used_when_it_is_back(
    memory: Client, worker: InlineWorker, asked: Scripted
) -> None:
    crossed(memory)
    runner = worker.tools.runner

    class Away:
        """A store that fails from the model's first answer on."""

        def run(self, command: Command[Any]) -> Any:
            if asked.requests:
                raise StoreUnavailableError("away")
            return runner.run(command)

    working = worker.tools
    worker.tools = replace(working, runner=Away(), lease=0.001)
    with pytest.raises(StoreUnavailableError):
        worker.work(NAME)
    calls = len(asked.requests)
    worker.tools = working
    ended = worker.work(NAME).outcome
    assert (ended.outcome, len(asked.requests)) == (Code.APPLIED, calls)
    assert ended.spent_in == 100 * calls


def test_while_nobody_can_tell_what_was_answered_nothing_is_asked(
    memory: Client, worker: InlineWorker, asked: Scripted
) -> None:
    crossed(memory)
    runner = worker.tools.runner

    class Loading:
        """A store that began the run, and cannot be read any more."""

        def run(self, command: Command[Any]) -> Any:
            if command.script is None:
                raise StoreUnavailableError("loading")
            return runner.run(command)

    worker.tools = replace(worker.tools, runner=Loading(), lease=0.001)
    with pytest.raises(StoreUnavailableError):
        worker.work(NAME)
    assert not asked.requests, "a second attempt costs less than a second bill"


def test_answers_that_could_not_be_saved_are_saved_as_soon_as_the_server_is_back(
    memory: Client, worker: InlineWorker, asked: Scripted, raw: Any, settings: Settings
) -> None:
    crossed(memory)
    runner, back = worker.tools.runner, threading.Event()

    class Away:
        """A store that fails from the model's first answer on, until it is back."""

        def run(self, command: Command[Any]) -> Any:
            if asked.requests and not back.is_set():
                raise StoreUnavailableError("away")
            return runner.run(command)

    away = Away()
    worker.tools = replace(worker.tools, runner=away, answers=Saver(away).answers, lease=0.001)
    with pytest.raises(StoreUnavailableError):
        worker.work(NAME)
    assert not raw.exists(keys_of(settings, NAME).summaries)
    back.set()
    wait_until(lambda: raw.hlen(keys_of(settings, NAME).summaries) == len(asked.requests), what="all answers")
