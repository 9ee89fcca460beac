"""Redis killed and started again while a task is in flight."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from compactor import Code, Compactor
from compactor.embedded import Child, EmbeddedServer
from compactor.settings import Settings
from compactor.testing import ModelServer
from tests.acceptance.scripted_model import long_talk, requests_with
from tests.acceptance.waiting import wait_until
from tests.acceptance.worker_process import short_settings, started
from tests.integration.conversations import SMALL, recount


@pytest.fixture
def settings(own_server: EmbeddedServer) -> Settings:
    return short_settings(own_server.url, "restart")


@pytest.fixture
def worker(settings: Settings, model: ModelServer, tmp_path: Path) -> Iterator[Child]:
    child = started(settings, tmp_path / "worker.log", model=model)
    yield child
    child.stop(grace=20)


@pytest.mark.parametrize("back", ["before-the-swap", "after-the-swap-failed"])
def test_the_worker_survives_and_the_session_is_compacted_in_the_end(
    own_server: EmbeddedServer, settings: Settings, worker: Child, model: ModelServer, back: str
) -> None:
    mark = f"mark-restart-{back}"
    pushed = long_talk(9, "slow-but-fine", mark)
    with Compactor(settings=settings) as memory:
        session = memory.session("restart/flight", SMALL)
        session.push(pushed)
        assert session.prepare().verdict.compaction == "queued"
        wait_until(lambda: requests_with(model, mark), what="the model call")
        own_server.child.kill()
        if back == "after-the-swap-failed":
            wait_until(lambda: model.in_flight == 0, what="the end of the model calls")
            wait_until(lambda: "store_unavailable" in worker.tail(200_000), what="the failed swap")
        own_server.restart()
        outcome = wait_until(lambda: session.status().last, seconds=60, what="the outcome")
        assert outcome.outcome is Code.APPLIED
        assert session.originals() == pushed
        assert session.estimate().total == recount(session.prepare().messages) + 3
        assert worker.process.poll() is None, worker.tail()
        again = memory.session("restart/after", SMALL)
        again.push(long_talk(9, "well", f"{mark}-after"))
        assert again.compact(wait=30).outcome is Code.APPLIED
