"""Workers that die or are told to stop in the middle of a model call."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from compactor import Code, Compactor, Session
from compactor.embedded import EmbeddedServer
from compactor.settings import Settings
from compactor.testing import ModelServer
from tests.acceptance.scripted_model import long_talk, requests_with
from tests.acceptance.waiting import wait_until
from tests.acceptance.worker_process import running_worker, short_settings
from tests.integration.conversations import SMALL, recount, user


@pytest.fixture
def settings(server: EmbeddedServer) -> Settings:
    return short_settings(server.url, f"crash-{uuid.uuid4().hex[:8]}")


def in_flight(session: Session, model: ModelServer, mark: str) -> list[dict[str, object]]:
    """Pushes a long talk, queues its compaction and waits until the model is being asked."""
    pushed = long_talk(9, "slow-but-fine", mark)
    session.push(pushed)
    assert session.prepare().verdict.compaction == "queued"
    wait_until(lambda: requests_with(model, mark), what="the model call")
    return pushed


def test_a_worker_killed_during_the_model_call_loses_nothing_and_another_ends_its_work(
    settings: Settings, model: ModelServer, tmp_path: Path
) -> None:
    log = tmp_path / "first.log"
    with running_worker(settings, log, model=model) as first, Compactor(settings=settings) as memory:
        session = memory.session("crash/killed", SMALL)
        pushed = in_flight(session, model, "mark-killed")
        first.kill()
        more = user("Still there?")
        session.push(more)
        context = session.prepare()
        assert context.verdict.compaction == "running"
        assert context.messages[-1] == more
        assert session.status().last is None
        with running_worker(settings, tmp_path / "second.log", model=model) as second:
            outcome = wait_until(lambda: session.status().last, seconds=40, what="the outcome")
            assert second.stop(grace=20) == 0
        assert outcome.outcome is Code.APPLIED
        assert outcome.by_model == outcome.items
        assert session.originals() == [*pushed, more]
        assert session.estimate().total == recount(session.prepare().messages) + 3
        assert session.status().attempts == 0
        assert len(session.compactions()) == 1


def test_a_worker_told_to_stop_ends_its_compaction_first(
    settings: Settings, model: ModelServer, tmp_path: Path
) -> None:
    with (
        running_worker(settings, tmp_path / "worker.log", model=model) as worker,
        Compactor(settings=settings) as memory,
    ):
        session = memory.session("crash/stopped", SMALL)
        pushed = in_flight(session, model, "mark-stopped")
        assert worker.stop(grace=20) == 0
        last = session.status().last
        assert last is not None
        assert last.outcome is Code.APPLIED
        assert session.originals() == pushed
