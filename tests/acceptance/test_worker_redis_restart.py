"""Redis killed and started again while a task is in flight."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from compactor import Code, Compactor, Outcome, Session
from compactor.embedded import Child, EmbeddedServer
from compactor.testing import ModelServer
from tests.acceptance.scripted_model import long_talk, requests_with
from tests.acceptance.waiting import wait_until
from tests.acceptance.worker_process import running_worker, short_settings
from tests.integration.conversations import SMALL, recount

ENDED = re.compile(r"compact_session\[[\w-]+\] (?:raised|retry|reject|succeeded)", re.IGNORECASE)


def queued(session: Session, model: ModelServer, mark: str) -> list[dict[str, object]]:
    """Pushes a long talk, queues its compaction and waits until the model is being asked."""
    pushed = long_talk(9, "slow-but-fine", mark)
    session.push(pushed)
    assert session.prepare().verdict.compaction == "queued"
    wait_until(lambda: requests_with(model, mark), what="the model call")
    return pushed


def first_run_over(worker: Child, model: ModelServer) -> None:
    """The task that was in flight came to an end of some kind."""
    wait_until(lambda: model.in_flight == 0, what="the end of the model calls")
    wait_until(lambda: ENDED.search(worker.tail(1_000_000)), what="the end of the first run")


@pytest.mark.parametrize("back", ["before-the-swap", "after-the-run-failed"])
def test_the_worker_survives_and_the_session_is_compacted_in_the_end(
    own_server: EmbeddedServer, model: ModelServer, tmp_path: Path, back: str
) -> None:
    mark = f"mark-restart-{back}"
    settings = short_settings(own_server.url, "restart")
    with (
        running_worker(settings, tmp_path / "worker.log", model=model) as worker,
        Compactor(settings=settings) as memory,
    ):
        session = memory.session("restart/flight", SMALL)
        pushed = queued(session, model, mark)
        own_server.child.kill()
        if back == "after-the-run-failed":
            first_run_over(worker, model)
        own_server.restart()

        def sent_on() -> Outcome | None:
            session.prepare()
            return session.status().last

        outcome = wait_until(sent_on, seconds=30, what="the outcome while the bot sends on")
        assert outcome.outcome is Code.APPLIED
        assert session.originals() == pushed
        assert session.estimate().total == recount(session.prepare().messages) + 3
        assert worker.process.poll() is None, worker.tail()
        again = memory.session("restart/after", SMALL)
        again.push(long_talk(9, "well", f"{mark}-after"))
        assert again.compact(wait=30).outcome is Code.APPLIED


def test_a_store_that_goes_away_alone_is_tried_again_by_the_task_itself(
    server: EmbeddedServer, own_server: EmbeddedServer, model: ModelServer, tmp_path: Path
) -> None:
    settings = short_settings(own_server.url, f"store{own_server.port}", broker_url=server.url)
    with (
        running_worker(settings, tmp_path / "worker.log", model=model) as worker,
        Compactor(settings=settings) as memory,
    ):
        session = memory.session("restart/store", SMALL)
        pushed = queued(session, model, "mark-store-alone")
        own_server.child.kill()
        first_run_over(worker, model)
        own_server.restart()
        assert "StoreUnavailableError('store_unavailable')" in worker.tail(1_000_000)
        outcome = wait_until(lambda: session.status().last, seconds=30, what="the outcome")
        assert outcome.outcome is Code.APPLIED
        assert session.originals() == pushed


def test_a_broker_that_goes_away_alone_does_not_stop_a_compaction(
    server: EmbeddedServer, own_server: EmbeddedServer, model: ModelServer, tmp_path: Path
) -> None:
    settings = short_settings(server.url, f"broker{own_server.port}", broker_url=own_server.url)
    with (
        running_worker(settings, tmp_path / "worker.log", model=model) as worker,
        Compactor(settings=settings) as memory,
    ):
        session = memory.session("restart/broker", SMALL)
        pushed = queued(session, model, "mark-broker-alone")
        own_server.child.kill()
        first_run_over(worker, model)
        last = session.status().last
        own_server.restart()
        assert last is not None
        assert last.outcome is Code.APPLIED
        assert session.originals() == pushed
