"""The queue on a real RabbitMQ, the sessions on Redis: what a worker, a bot and an operator see of it."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from compactor import Code, Compactor, Outcome, Session
from compactor.embedded import EmbeddedServer
from compactor.settings import Settings
from compactor.testing import ModelServer, summary
from tests.acceptance.cli_process import run
from tests.acceptance.scripted_model import long_talk, requests_with
from tests.acceptance.waiting import wait_until
from tests.acceptance.worker_process import environment, running_worker, short_settings
from tests.integration.conversations import SMALL, conversation
from tests.rabbits import GIVEN, RabbitServer


@pytest.fixture(scope="module")
def rabbit() -> Iterator[RabbitServer | None]:
    """A broker of this file; none when another one is given."""
    if GIVEN:
        yield None
    else:
        with RabbitServer() as running:
            yield running


@pytest.fixture
def settings(server: EmbeddedServer, rabbit: RabbitServer | None) -> Settings:
    url = GIVEN or (rabbit.url if rabbit else "")
    return short_settings(server.url, f"r{uuid.uuid4().hex[:8]}", broker_url=url)


def test_a_worker_compacts_and_an_operator_sees_queue_and_workers(
    settings: Settings, model: ModelServer, tmp_path: Path
) -> None:
    env = environment(settings)
    with Compactor(settings=settings) as memory:
        assert run("status", "--json", env=env).row["queue_length"] == 0  # nobody has made the queue yet
        waiting, failing = (memory.session(f"t/{name}", SMALL) for name in ("waiting", "failing"))
        waiting.push(conversation(9))
        assert waiting.prepare().verdict.compaction == "queued"
        assert run("status", "--json", env=env).row["queue_length"] == 1
        with running_worker(settings, tmp_path / "worker.log", model=model) as worker:
            outcome = wait_until(lambda: waiting.status().last, what="the outcome")
            assert outcome.outcome is Code.APPLIED
            # Each attempt but the last waits in the broker, not in the worker.
            failing.push(long_talk(7, "server-error", settings.namespace))
            failing.prepare()
            failed = wait_until(lambda: failing.status().last, what="the last attempt")
            assert (failed.outcome, failed.reason) == (Code.SUMMARIZER_FAILED, "server_error")
            asked = [str(body["messages"]) for body in requests_with(model, settings.namespace)]
            assert len(asked) > len(set(asked))
            told = {check["check"]: check for check in run("doctor", "--json", env=env).row["checks"]}
            assert told["broker"]["text"].startswith("answers; 0 tasks wait in the queue compaction.")
            assert told["worker"]["level"] == "ok"
            assert worker.stop(grace=20) == 0


def test_the_task_of_a_killed_worker_is_done_by_another(settings: Settings, tmp_path: Path) -> None:
    with ModelServer(lambda _: replace(summary(), delay=1.0)) as slow, Compactor(settings=settings) as memory:
        session = memory.session("t/killed", SMALL)
        session.push(conversation(9))
        session.prepare()
        with running_worker(settings, tmp_path / "first.log", model=slow) as first:
            wait_until(lambda: slow.requests, what="the model call")
            first.kill()
        with running_worker(settings, tmp_path / "second.log", model=slow):
            outcome = wait_until(lambda: session.status().last, what="the outcome")
            assert outcome.outcome is Code.APPLIED
        assert session.originals() == conversation(9)
        assert len(session.compactions()) == 1


def last_outcome(session: Session) -> Outcome | None:
    return session.status().last


def is_queued(session: Session) -> bool:
    return session.prepare().verdict.compaction == "queued"


def test_a_broker_that_hangs_or_dies_holds_up_no_send_and_keeps_its_tasks(
    settings: Settings, rabbit: RabbitServer | None, tmp_path: Path
) -> None:
    if rabbit is None:
        pytest.skip("the broker of COMPACTOR_TEST_RABBITMQ_URL is not ours to stop")
    with Compactor(settings=settings) as memory:
        kept, hung, dead = (memory.session(f"t/{name}", SMALL) for name in ("kept", "hung", "dead"))
        for session in (kept, hung, dead):
            session.push(conversation(9))
        assert kept.prepare().verdict.compaction == "queued"
        rabbit.freeze()
        try:
            began = time.monotonic()
            assert hung.prepare().verdict.compaction == "held(broker_down)"
            assert time.monotonic() - began < 3
        finally:
            rabbit.thaw()
        rabbit.shut_down()
        began = time.monotonic()
        assert dead.prepare().verdict.compaction == "held(broker_down)"
        assert time.monotonic() - began < 2
        rabbit.restart()
        with running_worker(settings, tmp_path / "worker.log"):
            for session in (hung, dead):
                wait_until(partial(is_queued, session), what="the claim")
            for session in (kept, hung, dead):
                outcome = wait_until(partial(last_outcome, session), what="the outcome")
                assert outcome.outcome is Code.APPLIED
                assert session.originals() == conversation(9)
