"""Workers that are told to stop, lose a process or their server, freeze, or die again and again over one session."""

from __future__ import annotations

import contextlib
import os
import signal
import uuid
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from compactor import Code, Compactor, Session
from compactor.dispatch import Dispatcher
from compactor.embedded import Child, EmbeddedServer
from compactor.models import CompactionId, session_id
from compactor.settings import Settings
from compactor.testing import ModelServer
from tests.acceptance.scripted_model import long_talk
from tests.acceptance.stations import HeldModel, crash_settings, warm_up
from tests.acceptance.waiting import wait_until
from tests.acceptance.worker_process import running_worker
from tests.integration.conversations import SMALL, recount
from tests.integration.refusals import read_only
from tests.integration.snapshot import everything
from tests.integration.stored import bare, keys_of

MARK = "mark-crash"
PUSHED = long_talk(9, "well", MARK)


@pytest.fixture
def settings(server: EmbeddedServer) -> Settings:
    """Claims run out after 6 s, which no test waits for; tasks of a dead worker do not come back within a test."""
    return crash_settings(server.url, f"crash-{uuid.uuid4().hex[:8]}", lease=6.0, visibility=60.0, attempts=2)


@pytest.fixture
def model() -> Iterator[HeldModel]:
    """It keeps the calls for the session waiting until a test lets them go."""
    held = HeldModel(MARK)
    with held.server:
        yield held
        held.let_go()


@pytest.fixture
def session(settings: Settings) -> Iterator[Session]:
    """A session over its threshold."""
    with Compactor(settings=settings) as memory:
        opened = memory.session("crash/session", SMALL)
        opened.push(PUSHED)
        yield opened


def queue(session: Session) -> None:
    assert session.prepare().verdict.compaction == "queued"


def end_lease(server: EmbeddedServer, settings: Settings, session: str = "crash/session") -> None:
    """Saves a test the seconds until a claim runs out."""
    with bare(server) as raw:
        raw.hset(keys_of(settings, session).state, "until", 0)


@dataclass(frozen=True)
class Workers:
    """Starts worker processes."""

    settings: Settings
    model: ModelServer
    folder: Path

    @contextlib.contextmanager
    def start(self, name: str) -> Generator[Child]:
        """A worker that has done its first compaction; it is killed in the end, which is quicker than a stop."""
        log = self.folder / f"{name}.log"
        with running_worker(self.settings, log, model=self.model) as worker:
            warm_up(self.settings)
            yield worker
            worker.kill()


@pytest.fixture
def workers(settings: Settings, model: HeldModel, tmp_path: Path) -> Workers:
    return Workers(settings, model.server, tmp_path)


def is_compacted_once(session: Session) -> None:
    (outcome,) = session.compactions()
    assert outcome.outcome is Code.APPLIED
    assert session.originals() == PUSHED
    context = session.prepare()
    assert context.replaced == outcome.items
    assert context.verdict.total == recount(context.messages) + 3


def test_a_worker_told_to_stop_ends_its_compaction_first(session: Session, workers: Workers, model: HeldModel) -> None:
    with workers.start("worker") as worker:
        queue(session)
        wait_until(model.waiting, what="the model call")
        worker.process.send_signal(signal.SIGTERM)
        wait_until(lambda: "Warm shutdown" in worker.tail(100_000), what="the stop")
        model.let_go()
        assert worker.stop(grace=20) == 0
    is_compacted_once(session)


def test_a_task_delivered_three_times_asks_the_model_once_for_each_result(
    session: Session, settings: Settings, workers: Workers, model: HeldModel
) -> None:
    with workers.start("worker") as worker, contextlib.closing(Dispatcher(settings)) as dispatcher:
        owner = CompactionId(session.compact().id)
        for _ in range(2):
            dispatcher.publish(session_id("crash/session"), owner)
        wait_until(model.waiting, what="the model call")
        wait_until(lambda: worker.tail(100_000).count("CompactionBusy") == 2, what="the other deliveries")
        model.let_go()
        wait_until(lambda: session.prepare().replaced, what="the swap")
    is_compacted_once(session)
    assert set(model.calls(MARK).values()) == {1}


def children(process: int) -> list[int]:
    """The child processes of a process, as Linux tells them."""
    found = Path(f"/proc/{process}/task").glob("*/children")
    return [int(child) for each in found for child in each.read_text().split()]


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="finds the worker's child in /proc")
def test_a_child_of_a_pool_of_processes_killed_in_the_model_call_is_replaced_and_its_task_ends(
    session: Session, settings: Settings, model: HeldModel, tmp_path: Path, server: EmbeddedServer
) -> None:
    options = ("--pool", "processes", "--concurrency", "1")
    with running_worker(settings, tmp_path / "worker.log", model=model.server, options=options) as worker:
        queue(session)
        try:
            wait_until(model.waiting, seconds=4, what="the model call")
        finally:
            for child in children(worker.process.pid):
                os.kill(child, signal.SIGKILL)
            model.let_go()
        end_lease(server, settings)
        wait_until(lambda: session.prepare().replaced, what="the swap")
        assert worker.process.poll() is None
    is_compacted_once(session)
    assert set(model.calls(MARK).values()) <= {1, 2}, "only calls in flight are repeated"


def test_a_server_that_becomes_read_only_during_the_model_call_delays_the_compaction_and_ends_no_worker(
    own_server: EmbeddedServer, model: HeldModel, tmp_path: Path
) -> None:
    settings = crash_settings(own_server.url, "failover", lease=6.0, visibility=60.0)
    with Workers(settings, model.server, tmp_path).start("worker") as worker, Compactor(settings=settings) as memory:
        session = memory.session("crash/failover", SMALL)
        session.push(PUSHED)
        queue(session)
        wait_until(model.waiting, what="the model call")
        with read_only(own_server):
            model.let_go()
            wait_until(lambda: "store_unavailable" in worker.tail(100_000), what="the end of the first run")
            context = session.prepare()  # has nothing to write
            assert context.verdict.compaction == "running"
            assert context.verdict.sent <= context.verdict.ceiling
        end_lease(own_server, settings, "crash/failover")
        wait_until(lambda: session.prepare().replaced, what="the swap")
        assert worker.process.poll() is None
        is_compacted_once(session)


def is_asked(model: HeldModel, times: int) -> bool:
    """Whether the model was asked so often for the same text."""
    return max(model.calls(MARK).values(), default=0) == times


def test_a_session_that_kills_its_workers_is_given_up_until_somebody_asks(
    session: Session, settings: Settings, workers: Workers, model: HeldModel, server: EmbeddedServer
) -> None:
    for attempt in range(1, settings.max_attempts + 1):
        with workers.start(f"worker{attempt}") as worker:
            queue(session)
            wait_until(partial(is_asked, model, attempt), what="the model call")
            worker.kill()
        assert session.status().attempts == attempt
        end_lease(server, settings)
    context = session.prepare()
    assert context.verdict.compaction == "held(dead)"
    assert context.verdict.sent <= context.verdict.ceiling
    model.let_go()
    asked = model.calls(MARK)
    with workers.start("healthy"):
        assert session.compact(wait=20).outcome is Code.APPLIED
    is_compacted_once(session)
    assert max((model.calls(MARK) - asked).values()) == 1
    assert session.status().attempts == 0


def test_a_worker_that_wakes_after_another_compacted_its_session_changes_nothing(
    own_server: EmbeddedServer, model: HeldModel, tmp_path: Path
) -> None:
    settings = crash_settings(own_server.url, "frozen", lease=6.0, visibility=60.0)
    workers = Workers(settings, model.server, tmp_path)
    with workers.start("frozen") as frozen, Compactor(settings=settings) as memory, bare(own_server) as raw:
        session = memory.session("crash/frozen", SMALL)
        session.push(PUSHED)
        queue(session)
        wait_until(model.waiting, what="the model call")
        frozen.process.send_signal(signal.SIGSTOP)
        try:
            model.let_go()
            # A broker hands the next task to a worker that still waits for one, though it is frozen.
            wait_until(lambda: raw.info("clients")["blocked_clients"] == 0, what="the end of its wait")
            with workers.start("awake"):
                end_lease(own_server, settings, "crash/frozen")
                wait_until(lambda: session.prepare().replaced, what="the swap")
            before = everything(raw, settings, "crash/frozen")
        finally:
            frozen.process.send_signal(signal.SIGCONT)
        wait_until(lambda: "'outcome': 'stale'" in frozen.tail(100_000), what="the end of the first run")
        assert everything(raw, settings, "crash/frozen") == before
        is_compacted_once(session)
