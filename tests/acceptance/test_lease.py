"""A worker that dies delays a compaction by its lease, not by the time after which a broker delivers again."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Self

import pytest

from compactor import Code, Compactor, Session
from compactor.embedded import EmbeddedServer
from compactor.settings import Settings
from tests.acceptance.scripted_model import long_talk
from tests.acceptance.stations import HeldModel, Station, Stations, crash_settings, warm_up
from tests.acceptance.waiting import wait_until
from tests.acceptance.worker_process import running_worker
from tests.integration.conversations import SMALL
from tests.integration.gate import Gate
from tests.integration.stored import bare, published

MARK = "mark-lease"
LEASE, VISIBILITY = 3.0, 60.0  # seconds
BETWEEN_SENDS = 0.2  # seconds


@pytest.fixture
def settings(server: EmbeddedServer) -> Settings:
    return crash_settings(server.url, f"lease-{uuid.uuid4().hex[:8]}", lease=LEASE, visibility=VISIBILITY)


@pytest.fixture
def stations(server: EmbeddedServer) -> Iterator[Stations]:
    model = HeldModel(MARK)
    with Gate(server.port) as store, Gate(server.port) as broker, model.server:
        yield Stations(store, broker, model)
        model.let_go()


@pytest.fixture
def session(settings: Settings) -> Iterator[Session]:
    with Compactor(settings=settings) as memory:
        opened = memory.session("lease/session", SMALL)
        opened.push(long_talk(9, "well", MARK))
        yield opened


class Bot:
    """Sends on and on; keeps the seconds until a send first heard that the compaction is queued, and done."""

    def __init__(self, session: Session) -> None:
        self._session, self._began, self._over = session, time.monotonic(), threading.Event()
        self.queued: float | None = None
        self.compacted: float | None = None
        self._thread = threading.Thread(target=self._send)

    def _send(self) -> None:
        while not self._over.wait(BETWEEN_SENDS):
            context = self._session.prepare()
            if self.queued is None and context.verdict.compaction == "queued":
                self.queued = time.monotonic() - self._began
            if self.compacted is None and context.replaced:
                self.compacted = time.monotonic() - self._began

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()


def killed_at(station: Station, session: Session, stations: Stations, settings: Settings, log: Path) -> None:
    """A worker takes the session's task and dies at that station."""
    with running_worker(stations.behind(settings), log, model=stations.model.server) as worker:
        warm_up(settings)
        reached = stations.hold(station, "lease/session")
        assert session.prepare().verdict.compaction == "queued"
        wait_until(reached, what=f"the station {station}")
        worker.kill()
    stations.model.let_go()


def test_a_worker_killed_in_the_model_call_delays_the_compaction_by_its_lease(
    session: Session,
    stations: Stations,
    settings: Settings,
    tmp_path: Path,
    record_property: Callable[[str, object], None],
) -> None:
    killed_at(Station.ASKING, session, stations, settings, tmp_path / "first.log")
    assert session.prepare().verdict.compaction == "running"
    with Bot(session) as bot, running_worker(settings, tmp_path / "second.log", model=stations.model.server) as second:
        compacted = wait_until(lambda: bot.compacted, what="the swap")
        second.kill()
    queued = bot.queued
    assert queued is not None
    record_property("queued again after s", round(queued, 2))
    record_property("compacted after s", round(compacted, 2))
    print(f"lease {LEASE} s, visibility {VISIBILITY} s: queued after {queued:.2f} s, compacted after {compacted:.2f} s")
    assert queued < LEASE + 1
    assert compacted < VISIBILITY / 2
    assert [outcome.outcome for outcome in session.compactions()] == [Code.APPLIED]


def test_a_worker_killed_before_it_began_delays_the_compaction_by_the_lease_too(
    session: Session, stations: Stations, settings: Settings, tmp_path: Path, server: EmbeddedServer
) -> None:
    killed_at(Station.RECEIVED, session, stations, settings, tmp_path / "first.log")
    with bare(server) as raw, Bot(session):
        assert published(raw, settings) == 0
        wait_until(lambda: published(raw, settings), seconds=LEASE + 1, what="the next task")
