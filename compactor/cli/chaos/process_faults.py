"""Faults of processes and of the model: workers and bots killed, stopped, frozen; answers that are none."""

from __future__ import annotations

import os
import signal
import time
from random import Random

import redis

from compactor.cli.chaos.calls_under_way import under_way
from compactor.cli.chaos.outages import away_since
from compactor.cli.chaos.server_faults import EVERYBODY, NO_WORKER, Slots, seen
from compactor.cli.chaos.stage import Stage
from compactor.embedded import Child

_WAKING = 0.5  # seconds in which a worker that wakes goes on with what is no longer its own


def worker_killed(stage: Stage, random: Random) -> Slots | None:
    """SIGKILL to a worker, whatever it does."""
    slot = random.choice(EVERYBODY)
    child = stage.workers.running(slot)
    return None if child is None else _kill(stage, slot, child)


def worker_killed_in_call(stage: Stage, random: Random) -> Slots | None:
    """SIGKILL to a worker that waits for the model."""
    found = _calling(stage, random)
    if found is None:
        return None
    return _kill(stage, *found)


def _kill(stage: Stage, slot: int, child: Child) -> Slots:
    child.process.send_signal(signal.SIGSTOP)  # what is counted is what it dies with
    stage.in_flight += _calls_of(stage, slot, child)
    child.kill()
    return (slot,)


def _calls_of(stage: Stage, slot: int, child: Child) -> int:
    """A stopped worker's calls on their way to the model and back.

    Counts those whose answer is not in Redis, too, and of these the ones that Redis was away from.
    """
    seen(lambda: _stands(child))
    found, now = len(under_way(stage.models[slot])), time.time()
    since = now - stage.settings.claim_lease
    calls = [call for call in stage.model.calls if call.slot == slot and call.answered and call.began > since]
    stored = _stored(stage) if calls else ""
    unsaved = [call for call in calls if call.value not in stored]
    away = away_since(stage.outages, slot, now)
    stage.unsaved += len(unsaved)
    stage.stranded += max(0, sum(call.sent >= away for call in unsaved) - found)
    return found


def _stands(child: Child) -> bool:
    flags = os.WSTOPPED | os.WEXITED | os.WNOHANG | os.WNOWAIT
    return os.waitid(os.P_PID, child.process.pid, flags) is not None


def _stored(stage: Stage) -> str:
    """All answers of the model that Redis holds, once it can be asked."""
    found: list[str] = []

    def look() -> bool:
        try:
            with stage.control() as control:
                keys = list(control.scan_iter("*:summaries", count=1000))
                found[:] = [str(control.hvals(key)) for key in keys]
        except redis.RedisError:
            return False
        return True

    seen(look, 5)
    return "".join(found)


def worker_stopped(stage: Stage, random: Random) -> Slots | None:
    """SIGTERM: it ends its work, and another starts."""
    slot = random.choice(EVERYBODY)
    child = stage.workers.running(slot)
    if child is None:
        return None
    child.process.terminate()
    return (slot,) if seen(lambda: child.process.poll() is not None, 10) else None


def worker_paused(stage: Stage, random: Random) -> Slots | None:
    """A worker freezes in a call to the model, and wakes when its lease is over and others have its work."""
    found = _calling(stage, random)
    if found is None:
        return None
    slot, child = found
    child.process.send_signal(signal.SIGSTOP)
    try:
        stage.frozen += _calls_of(stage, slot, child)  # once its lease is over, nobody can tell it from a dead one
        time.sleep(stage.settings.claim_lease + 0.3)
    finally:
        child.process.send_signal(signal.SIGCONT)
    time.sleep(_WAKING)
    return (slot,)


def _calling(stage: Stage, random: Random) -> tuple[int, Child] | None:
    """A worker that waits for the model right now."""
    found: list[tuple[int, Child]] = []

    def look() -> bool:
        for slot in random.sample(EVERYBODY, len(EVERYBODY)):
            child = stage.workers.running(slot)
            if child is not None and stage.models[slot].in_flight:
                found.append((slot, child))
        return bool(found)

    return found[0] if seen(look) else None


def bots_killed(stage: Stage, random: Random) -> Slots | None:
    """SIGKILL to a process of bots, some of them between a call and its result; it starts again."""
    row = random.choice(range(len(stage.bots)))
    if not seen(lambda: stage.board.row(row, "open") > 0):
        return None
    stage.bots[row].kill()
    stage.board.clear(row, "open")
    stage.start_bots(row)
    return NO_WORKER


def misbehaves(stage: Stage, random: Random, manner: str) -> Slots | None:
    """The model answers one to three calls in one of its bad manners."""
    before = stage.model.misbehaved[manner]
    stage.model.arm(manner, random.randint(1, 3))
    hit = seen(lambda: stage.model.misbehaved[manner] > before, 4)
    stage.model.disarm()
    return NO_WORKER if hit else None
