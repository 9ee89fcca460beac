"""A worker that comes too late, and tasks that come twice: nothing is changed, nothing is paid for twice."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from compactor import Code, Compactor, Outcome
from compactor.archive import compress
from compactor.claims import Begun
from compactor.commands import claim
from compactor.compaction import Ended
from compactor.models import CompactionId
from compactor.settings import Settings
from compactor.store import Store
from tests.acceptance.waiting import wait_until
from tests.acceptance.worker_process import running_worker
from tests.integration.clients import Client, SessionClient, StoreClient
from tests.integration.conversations import SMALL, WIDE, conversation, recount, step
from tests.integration.crowd import Crowd
from tests.integration.inline_worker import InlineWorker
from tests.integration.snapshot import everything
from tests.integration.stored import keys_of

NAME = "race/session"
OTHER = [message for order in range(8) for message in step(order + 100)]


@dataclass
class Race:
    """A session whose compaction began under `late`, and what may happen to it before that worker wakes."""

    session: SessionClient
    settings: Settings
    worker: InlineWorker
    raw: Any
    late: CompactionId

    def lease_over(self) -> None:
        self.raw.hset(keys_of(self.settings, NAME).state, "until", 0)

    def queued_anew(self) -> None:
        self.lease_over()
        assert self.session.prepare().verdict.compaction == "queued"

    def running_anew(self) -> None:
        self.queued_anew()
        assert self.worker.begin(NAME, self.worker.owner(NAME)).begun is Begun.RUNNING

    def compacted(self) -> None:
        self.queued_anew()
        assert self.worker.work(NAME).outcome.outcome is Code.APPLIED

    def cleared(self) -> None:
        self.session.clear()

    def refilled(self) -> None:
        length = self.session.status().length
        self.session.clear()
        self.session.push([*conversation(1), *OTHER][:length])

    def refilled_with_the_same(self) -> None:
        self.session.clear()
        self.session.push(conversation(8))

    def refilled_and_compacted(self) -> None:
        self.refilled_with_the_same()
        self.session.prepare()
        assert self.worker.work(NAME).outcome.outcome is Code.APPLIED

    def expired(self) -> None:
        self.raw.delete(*keys_of(self.settings, NAME).all)

    def expired_and_begun_anew(self) -> None:
        self.expired()
        self.session.push(conversation(8))

    def expired_and_running_anew(self) -> None:
        self.expired_and_begun_anew()
        self.session.prepare()
        assert self.worker.begin(NAME, self.worker.owner(NAME)).begun is Begun.RUNNING

    def stored(self) -> dict[str, object]:
        return everything(self.raw, self.settings, NAME)


MEANWHILE: list[Callable[[Race], None]] = [
    Race.queued_anew,
    Race.running_anew,
    Race.compacted,
    Race.cleared,
    Race.refilled,
    Race.refilled_with_the_same,
    Race.refilled_and_compacted,
    Race.expired,
    Race.expired_and_begun_anew,
    Race.expired_and_running_anew,
]


def name_of(event: Callable[[Race], None]) -> str:
    return event.__name__


@pytest.fixture
def race(memory: Client, settings: Settings, worker: InlineWorker, raw: Any) -> Race:
    session = memory.session(NAME, SMALL)
    session.push(conversation(8))
    session.prepare()
    return Race(session, settings, worker, raw, worker.owner(NAME))


@pytest.mark.parametrize("event", MEANWHILE, ids=name_of)
def test_no_step_of_a_worker_that_wakes_too_late_changes_anything(
    race: Race, store: StoreClient, event: Callable[[Race], None]
) -> None:
    begun = race.worker.begin(NAME, race.late)
    assert begun.stored is not None
    record = begun.stored.records[3]
    event(race)
    before = race.stored()
    keys, owner = keys_of(race.settings, NAME), race.late
    swap = claim.swap(
        keys,
        owner=owner,
        last_position=3,
        replacements=[(3, record)],
        saved={"o200k_base": 7},
        bytes_saved=7,
        rearm=0,
        held="",
        outcome={"outcome": "applied", "id": owner},
    )
    release = claim.release(keys, owner=owner, outcome={"id": owner}, pause_ms=9, rearm=9, held="x", audit=True)
    assert store.run(claim.archive(keys, owner=owner, originals={3: compress(record.pack())})) in ("lost", "gone")
    assert store.run(swap) in ("stale", "gone")
    assert not store.run(release)
    assert not store.run(claim.retry(keys, owner=owner, wait_ms=9, patience_ms=9))
    assert not store.run(claim.unqueue(keys, owner=owner))
    assert race.worker.begin(NAME, owner).begun in (Begun.LOST, Begun.GONE)
    assert race.stored() == before


@pytest.mark.parametrize("at", ["snapshot", "swapping"])
@pytest.mark.parametrize("event", MEANWHILE, ids=name_of)
def test_a_run_that_sleeps_through_its_lease_ends_without_a_trace(
    race: Race, event: Callable[[Race], None], at: str
) -> None:
    before: list[dict[str, object]] = []

    def sleeping() -> None:
        event(race)
        before.append(race.stored())

    ended = race.worker.work(NAME, owner=race.late, at=at, then=sleeping)
    assert ended.outcome.outcome in (Code.STALE, Code.GONE)
    assert ended.retry_in is None
    assert [race.stored()] == before


def deliver(settings: Settings, owner: CompactionId, times: int) -> list[Ended]:
    """One task delivered so often at the same moment, to workers that share nothing."""
    gate = threading.Barrier(times)

    def work(_: int) -> Ended:
        with Store(settings) as store:
            gate.wait(10)
            return InlineWorker(settings, store).work(NAME, owner=owner)

    with ThreadPoolExecutor(times) as threads:
        return list(threads.map(work, range(times)))


@pytest.mark.parametrize("again", range(5))
def test_of_four_deliveries_at_the_same_moment_one_compacts(settings: Settings, race: Race, again: int) -> None:
    ended = deliver(settings, race.late, 4)
    codes = [end.outcome.outcome for end in ended]
    assert codes.count(Code.APPLIED) == 1
    assert set(codes) <= {Code.APPLIED, Code.BUSY, Code.STALE}
    assert len(race.session.compactions()) == 1
    assert race.session.originals() == conversation(8)
    assert race.session.estimate().total == recount(race.session.prepare().messages) + 3


def test_a_delivery_after_the_compaction_asks_no_model(race: Race) -> None:
    asked: list[int] = []

    def summarize(requests: Any, **_: Any) -> list[Any]:
        asked.append(len(requests))
        return []

    assert race.worker.work(NAME, owner=race.late).outcome.outcome is Code.APPLIED
    before = race.stored()
    race.worker.tools = replace(race.worker.tools, summarize=summarize)
    assert race.worker.work(NAME, owner=race.late).outcome.outcome is Code.STALE
    assert asked == []
    assert race.stored() == before


def replayed(audit: Sequence[Outcome]) -> tuple[set[int], set[int]]:
    """The positions that stand replaced, and those taken back, as the audit tells it in order."""
    replaced, undone = set[int](), set[int]()
    for outcome in audit:
        positions = set(outcome.positions)
        if outcome.outcome is Code.APPLIED:
            assert not positions & undone, "nothing is replaced again after it was taken back"
            assert len(positions & replaced) <= outcome.by_fold, "only a fold takes what stands replaced"
            replaced |= positions
        elif outcome.outcome is Code.UNDONE:
            assert positions <= replaced, "what is taken back stood replaced"
            replaced, undone = replaced - positions, undone | positions
    return replaced, undone


def test_in_a_crowd_every_message_keeps_its_one_place_and_every_total_is_right(
    settings: Settings, raw: Any, tmp_path: Path
) -> None:
    """Six bots, clears refilled to the same length, undos, two workers beside the one that gets the tasks."""
    crowd = Crowd(settings, "race/crowd")
    with running_worker(settings, tmp_path / "worker.log"), Compactor(settings=settings) as memory:
        session = memory.session("race/crowd", SMALL)
        beside: list[Callable[[], None]] = [crowd.worker, crowd.worker, crowd.impatient, partial(crowd.undoer, 9)]
        busy = [partial(crowd.bot, number, 14) for number in range(6)]
        crowd.run([*busy, partial(crowd.clearer, 3, 30)], beside)
        wait_until(lambda: session.prepare().verdict.compaction not in ("queued", "running"), what="the last claim")
        pushed = dict(crowd.pushed)
        assert sorted(position for position, _ in crowd.pushed) == list(range(len(crowd.pushed))), "each place once"
        begin = sum(crowd.moved)
        assert session.originals() == [pushed[position] for position in range(begin, len(pushed))]
        last = range(begin - crowd.moved[-1], begin)
        assert [session.recall(f"m{position}") for position in last] == [pushed[position] for position in last]
        replaced, undone = replayed(session.compactions())
        # Results, and whole steps where folds were needed: never a word of a user or of the system text.
        assert all(pushed[position]["role"] in ("tool", "assistant") for position in replaced | undone)
        whole = memory.session("race/crowd", WIDE).prepare()
        assert whole.replaced == sum(position >= begin for position in replaced)
        assert whole.verdict.total == recount(whole.messages) + 3 == session.estimate().total
        assert Code.STALE in [outcome.outcome for outcome in crowd.ended], "some came too late"
