"""A crowd of sessions whose turns come by chance, as those of many users do."""

from __future__ import annotations

import heapq
import time
from collections import Counter
from dataclasses import dataclass, field
from random import Random
from typing import Final

from compactor.cli.load.conversations import turn
from compactor.client import Compactor, Session
from compactor.model_config import ModelConfig

# About 600 tokens of result a turn: every few turns cross the threshold, and one call summarises each result.
_CHARACTERS: Final = 2_400
_CONFIG: Final = ModelConfig("gpt-4o", context_limit_tokens=4_000)


@dataclass(slots=True)
class Crowd:
    """Sessions in turns: each takes its next one a random time after the last, `pause` seconds on average.

    `waits` holds, in seconds, how long compactions stood in the queue until a worker began; it is emptied by
    whoever reads it. `lag` is how late the last turn came; `ended` counts compactions by outcome.
    """

    memory: Compactor
    sessions: int
    tenants: int
    pause: float
    random: Random
    turns: int = 0
    lag: float = 0.0
    waits: list[float] = field(default_factory=list[float])
    ended: Counter[str] = field(default_factory=Counter[str])
    _due: list[tuple[float, int]] = field(default_factory=list[tuple[float, int]])
    _taken: Counter[int] = field(default_factory=Counter[int])
    _queued: dict[int, float] = field(default_factory=dict[int, float])

    def begin(self) -> None:
        """Spreads the first turns over one pause."""
        now = time.monotonic()
        self._due = [(now + self.random.uniform(0, self.pause), number) for number in range(self.sessions)]
        heapq.heapify(self._due)

    def run(self, until: float) -> None:
        """Lets the sessions talk until that moment, in monotonic seconds."""
        while self._due[0][0] < until:
            due, number = heapq.heappop(self._due)
            now = time.monotonic()
            if now >= until:
                heapq.heappush(self._due, (due, number))
                return
            time.sleep(max(0.0, due - now))
            self.lag = max(0.0, now - due)
            self._turn(number)
            heapq.heappush(self._due, (due + self.random.expovariate(1 / self.pause), number))
        time.sleep(max(0.0, until - time.monotonic()))

    def _turn(self, number: int) -> None:
        session = self._session(number)
        self._look(number, session)
        session.push(turn(self._taken[number], characters=_CHARACTERS, at=self.random.randrange(10_000_000)))
        self._taken[number] += 1
        self.turns += 1
        if session.prepare().verdict.compaction == "queued" and number not in self._queued:
            self._queued[number] = time.time()

    def _session(self, number: int) -> Session:
        return self.memory.session(f"tenant-{number % self.tenants}/{number}", _CONFIG)

    def _look(self, number: int, session: Session) -> None:
        """Enters how long a queued compaction waited, once it has ended."""
        queued = self._queued.get(number)
        last = session.status().last if queued is not None else None
        if queued is not None and last is not None and last.at >= queued:
            del self._queued[number]
            self.waits.append(max(0.0, last.at - last.ms / 1000 - queued))
            self.ended[last.outcome.value] += 1

    def waiting(self) -> int:
        """Sessions whose compaction has not ended; looks at each."""
        for number in list(self._queued):
            self._look(number, self._session(number))
        return len(self._queued)
