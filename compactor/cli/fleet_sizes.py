"""What a fleet of bots needs: sizes from unit costs, and a simulation of its queue. Pure."""

from __future__ import annotations

import heapq
import math
import random
from array import array
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

BUSY: Final = 0.6  # of a core or a pool that is planned with; the rest is for peaks and failovers


@dataclass(frozen=True, slots=True)
class Costs:
    """What one thing costs, measured; seconds of CPU, bytes, counts per turn or per compaction."""

    redis_turn: float  # the server's CPU for the pushes, estimates and prepares of a turn
    redis_compaction: float
    bot_turn: float  # the bot's CPU for the same
    worker_compaction: float  # the worker's CPU, without the HTTP client of the model
    commands_turn: float
    network_turn: float  # bytes in and out of the server
    session_bytes: float  # of the live history, with all that is around it
    archive_turn: float  # bytes that a turn adds to the archive
    turn_tokens: float  # what a turn adds to the history
    freed_tokens: float  # what a compaction takes away
    calls_compaction: float  # model calls

    @property
    def compactions_turn(self) -> float:
        """In a steady state as much is freed as is added."""
        return self.turn_tokens / self.freed_tokens


@dataclass(frozen=True, slots=True)
class Load:
    """The fleet: live sessions, turns a second of all of them, turns of one session, seconds of a model call."""

    sessions: int = 1_000_000
    turns: float = 10_000.0
    turns_of_session: float = 40.0
    model_seconds: float = 1.0
    slots: int = 32  # compactions at once in a worker process
    calls_in_flight: int = 200  # model calls at once in a worker process
    threshold: float = 12_000.0
    ceiling: float = 14_000.0


@dataclass(frozen=True, slots=True)
class Need:
    """One resource: how much of it the fleet takes, in units that one server or process has, and how many of those."""

    resource: str
    taken: float
    unit: str
    count: int
    turns_of_one: float  # turns a second that one of them carries

    @property
    def row(self) -> tuple[str, str, str, str]:
        return self.resource, f"{self.taken:,.1f} {self.unit}", f"{self.count:,}", f"{self.turns_of_one:,.0f}"


def needs(costs: Costs, load: Load, *, server_gb: float = 32.0) -> list[Need]:
    """What the fleet needs, the first to saturate first: that of which one carries the fewest turns a second."""
    compactions = load.turns * costs.compactions_turn
    calls = compactions * costs.calls_compaction
    redis = load.turns * costs.redis_turn + compactions * costs.redis_compaction
    stored = load.sessions * (costs.session_bytes + costs.archive_turn * load.turns_of_session) / 1e9
    found = [
        _need("Redis CPU", redis, "cores", BUSY, load),
        _need("Redis memory", stored, "GB", server_gb * BUSY, load),
        _need("network of Redis", load.turns * costs.network_turn * 8 / 1e9, "Gbit/s", 10 * BUSY, load),
        _need("worker slots", compactions * load.model_seconds, "compactions at once", load.slots * BUSY, load),
        _need("model calls", calls * load.model_seconds, "at once", load.calls_in_flight * BUSY, load),
        _need("worker CPU", compactions * costs.worker_compaction, "cores", BUSY, load),
        _need("bot CPU", load.turns * costs.bot_turn, "cores", BUSY, load),
    ]
    return sorted(found, key=lambda need: need.turns_of_one)


def _need(resource: str, taken: float, unit: str, one: float, load: Load) -> Need:
    return Need(resource, taken, unit, max(1, math.ceil(taken / one)), load.turns * one / taken if taken else math.inf)


@dataclass(frozen=True, slots=True)
class Outcome:
    """A simulated stretch of time; waits in seconds from the crossing to a free slot."""

    workers: int
    turns: int
    compactions: int
    wait_median: float
    wait_p99: float
    in_flight_most: int
    waiting_at_end: int
    over_ceiling: float  # share of turns that met a history above the ceiling, which a view shortens


def simulate(costs: Costs, load: Load, workers: int, *, seconds: float, seed: int = 1) -> Outcome:
    """Turns come as a Poisson process to sessions drawn evenly; each crossing waits for a slot, then for the model.

    Sessions begin anywhere between target and threshold, as they stand in a steady state. A turn adds half to
    one and a half of its mean; a compaction lasts half the model's time and an exponential rest.
    """
    chance = random.Random(seed)  # noqa: S311 # why: a simulation, told by its seed
    target = load.threshold - costs.freed_tokens
    levels = array("d", (chance.uniform(target, load.threshold) for _ in range(load.sessions)))
    claimed: set[int] = set()
    waiting: deque[tuple[float, int]] = deque()
    running: list[tuple[float, int]] = []
    free, now, over, turns = workers * load.slots, 0.0, 0, 0
    waits, most = array("d"), 0

    while (now := now + chance.expovariate(load.turns)) < seconds:
        while running and running[0][0] <= now:
            ended, session = heapq.heappop(running)
            levels[session] -= costs.freed_tokens
            claimed.discard(session)
            if waiting:
                since, following = waiting.popleft()
                waits.append(ended - since)
                heapq.heappush(running, (ended + _duration(chance, load), following))
            else:
                free += 1
        turns += 1
        session = chance.randrange(load.sessions)
        levels[session] += costs.turn_tokens * chance.uniform(0.5, 1.5)
        over += levels[session] > load.ceiling
        if levels[session] >= load.threshold and session not in claimed:
            claimed.add(session)
            if free:
                free -= 1
                waits.append(0.0)
                heapq.heappush(running, (now + _duration(chance, load), session))
            else:
                waiting.append((now, session))
        most = max(most, len(running))
    ordered = sorted(waits)
    return Outcome(
        workers, turns, len(waits), _at(ordered, 0.5), _at(ordered, 0.99), most, len(waiting), over / max(1, turns)
    )


def _duration(chance: random.Random, load: Load) -> float:
    return load.model_seconds * (0.5 + 0.5 * chance.expovariate(1.0))


def _at(ordered: Sequence[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0
