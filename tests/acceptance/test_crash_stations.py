"""A worker is killed with several compactions on its hands, each at another station; a second one takes over."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from compactor import Code, Compactor, Context, Outcome, Session, Status
from compactor.embedded import EmbeddedServer
from compactor.settings import Settings
from tests.acceptance.scripted_model import long_talk
from tests.acceptance.stations import HeldModel, Station, Stations, crash_settings, is_done, warm_up
from tests.acceptance.waiting import wait_until
from tests.acceptance.worker_process import running_worker
from tests.integration.conversations import SMALL, recount, user
from tests.integration.gate import Gate
from tests.integration.stored import bare, keys_of

MORE = user("Still there?")
AFTER_THE_SWAP = (Station.SWAPPED, Station.FINISHED)
# A call can be held for a moment only, and a held acknowledgement stops whatever comes behind it.
IN_TURN = sorted(Station, key=lambda station: (station is Station.FINISHED, station is Station.ASKING))


@dataclass
class Wreck:
    """One session: what was pushed, how it stood when the worker was killed, and what became of it."""

    station: Station
    session: Session
    pushed: list[dict[str, Any]]
    rows: list[bytes] = field(default_factory=list[bytes])
    rows_at_the_kill: list[bytes] = field(default_factory=list[bytes])
    status_at_the_kill: Status = field(default_factory=lambda: Status(exists=False))
    send_after_the_kill: Context | None = None
    calls: Counter[str] = field(default_factory=Counter[str])

    @property
    def name(self) -> str:
        return f"crash/{self.station}"

    @property
    def mark(self) -> str:
        return f"mark-{self.station}"

    @property
    def applied(self) -> Outcome:
        """The one compaction of the session."""
        (outcome,) = self.session.compactions()
        assert outcome.outcome is Code.APPLIED
        return outcome


@pytest.fixture(scope="module")
def wrecks(server: EmbeddedServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[Station, Wreck]]:
    settings = crash_settings(server.url, f"stations-{uuid.uuid4().hex[:8]}", lease=2.5, visibility=3.0)
    folder, model = tmp_path_factory.mktemp("stations"), HeldModel("mark-asking")
    with (
        Gate(server.port) as store,
        Gate(server.port) as broker,
        model.server,
        bare(server) as raw,
        Compactor(settings=settings) as memory,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setenv("COMPACTOR_READ_TIMEOUT", "30")  # the worker waits for what is held
        stations = Stations(store, broker, model)
        made = {station: pushed(memory, station) for station in Station}
        for wreck in made.values():
            wreck.rows = rows_of(raw, settings, wreck)
        with running_worker(stations.behind(settings), folder / "first.log", model=model.server) as first:
            warm_up(settings)
            for station in IN_TURN:
                stand_still(stations, made[station])
            first.kill()
        for wreck in made.values():
            look_at(wreck, raw, settings)
        model.let_go()
        with running_worker(settings, folder / "second.log", model=model.server) as second:
            warm_up(settings)
            wait_until(lambda: is_done(raw, settings), seconds=30, what="the end of every task")
            second.kill()
        for wreck in made.values():
            wreck.calls = model.calls(wreck.mark)
        yield made


def pushed(memory: Compactor, station: Station) -> Wreck:
    wreck = Wreck(station, memory.session(f"crash/{station}", SMALL), long_talk(9, "well", f"mark-{station}"))
    wreck.session.push(wreck.pushed)
    return wreck


def rows_of(raw: Any, settings: Settings, wreck: Wreck) -> list[bytes]:
    rows: list[bytes] = raw.lrange(keys_of(settings, wreck.name).messages, 0, -1)
    return rows


def stand_still(stations: Stations, wreck: Wreck) -> None:
    """Queues the compaction and waits until the worker stands at its station."""
    reached = stations.hold(wreck.station, wreck.name)
    assert wreck.session.prepare().verdict.compaction == "queued"
    wait_until(reached, what=f"the station {wreck.station}")


def look_at(wreck: Wreck, raw: Any, settings: Settings) -> None:
    """How the session stands after the kill; then its bot goes on."""
    wreck.rows_at_the_kill = rows_of(raw, settings, wreck)
    wreck.status_at_the_kill = wreck.session.status()
    wreck.session.push(MORE)
    wreck.send_after_the_kill = wreck.session.prepare()


@pytest.fixture(params=list(Station))
def wreck(request: pytest.FixtureRequest, wrecks: dict[Station, Wreck]) -> Wreck:
    return wrecks[request.param]


def test_at_the_kill_the_history_is_the_one_before_or_the_one_after(wreck: Wreck) -> None:
    changed = [position for position, row in enumerate(wreck.rows) if row != wreck.rows_at_the_kill[position]]
    assert changed == (list(wreck.applied.positions) if wreck.station in AFTER_THE_SWAP else [])
    assert len(wreck.rows_at_the_kill) == len(wreck.rows) == len(wreck.pushed)


def test_the_bot_goes_on_after_the_kill(wreck: Wreck) -> None:
    context = wreck.send_after_the_kill
    assert context is not None
    assert context.messages[-1] == MORE
    assert context.verdict.sent <= context.verdict.ceiling
    words = {Station.RECEIVED: "queued"} | dict.fromkeys(AFTER_THE_SWAP, "not_needed")
    assert context.verdict.compaction == words.get(wreck.station, "running")


def test_in_the_end_the_session_is_compacted_once_and_nothing_is_lost(wreck: Wreck) -> None:
    assert wreck.applied.items > 0
    assert wreck.session.originals() == [*wreck.pushed, MORE]
    context = wreck.session.prepare()
    assert context.replaced == wreck.applied.items == wreck.session.status().archived
    assert context.verdict.total == recount(context.messages) + 3
    assert context.verdict.compaction == "not_needed"
    assert [wreck.session.recall(f"m{position}") for position in range(len(wreck.pushed))] == wreck.pushed


def test_model_calls_are_repeated_once_and_only_if_their_answers_died_with_the_worker(wreck: Wreck) -> None:
    wasted = (Station.ASKING, Station.VERIFIED, Station.ARCHIVED)
    assert len(wreck.calls) <= wreck.applied.items
    assert set(wreck.calls.values()) <= ({1, 2} if wreck.station in wasted else {1})


def test_an_attempt_is_counted_as_soon_as_a_worker_begins_and_forgotten_after_the_swap(wreck: Wreck) -> None:
    counted = wreck.station is not Station.RECEIVED and wreck.station not in AFTER_THE_SWAP
    assert wreck.status_at_the_kill.attempts == counted
    assert wreck.session.status().attempts == 0
