"""Injects faults in step with the pushes, and keeps a log of those that really hit somebody."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Final

import redis

from compactor.cli.chaos.faults import OUTAGES, Kind, schedule
from compactor.cli.chaos.outages import Outage
from compactor.cli.chaos.server_faults import Slots
from compactor.cli.chaos.stage import Stage

_LEAD: Final = 2  # faults by which the pushes may be ahead
_LOOK: Final = 0.02


@dataclass(frozen=True, slots=True)
class Hit:
    """One fault that took effect, in epoch seconds, and the workers whose compactions it may have cut."""

    kind: Kind
    began: float
    ended: float
    slots: Slots


@dataclass(slots=True)
class Injector:
    """Draws faults from a schedule; pushes and faults wait for each other, so that both are spread evenly."""

    stage: Stage
    pushes: int
    faults: int
    random: Random
    deadline: float  # monotonic seconds
    progress: Callable[[int, int], None]
    hits: list[Hit] = field(default_factory=list[Hit])
    missed: Counter[str] = field(default_factory=Counter[str])
    crashed: int = 0  # processes of bots that ended by themselves

    def run(self) -> bool:
        """Until all pushes are stored under all faults; False when the time was over before."""
        drawn = schedule(self.faults, self.random)
        while len(self.hits) < self.faults:
            self.stage.board.allowed = self._due(len(self.hits) + _LEAD) + self._extra()
            if not self._await_pushes(self._due(len(self.hits))):
                return False
            self._inflict(next(drawn))
        self.stage.board.allowed = self.pushes + self._extra()
        return self._await_pushes(self.pushes)

    def _due(self, faults: int) -> int:
        return min(self.pushes, self.pushes * faults // self.faults)

    def _extra(self) -> int:
        """Faults that hit nobody get pushes of their own, since without any the workers have nothing to do."""
        return self.missed.total() * self.pushes // self.faults // 2

    def _inflict(self, kind: Kind) -> None:
        began = time.time()
        try:
            slots = kind.inflict(self.stage, self.random)
        except redis.RedisError:  # the fault before it still lasts
            slots = None
        if slots is not None:
            self.hits.append(Hit(kind, began, time.time(), slots))
            if kind.name in OUTAGES:
                self.stage.outages.append(Outage(began, time.time(), slots))
        else:
            self.missed[kind.name] += 1
        self._revive_bots()

    def _await_pushes(self, pushes: int) -> bool:
        while (now := self.stage.board.total("pushes")) < pushes:
            if time.monotonic() > self.deadline:
                return False
            self._revive_bots()
            self.progress(now, len(self.hits))
            time.sleep(_LOOK)
        self.progress(now, len(self.hits))
        return time.monotonic() <= self.deadline

    def _revive_bots(self) -> None:
        """A process of bots that ended by itself starts again, and is counted."""
        for row, child in enumerate(self.stage.bots):
            if child.process.poll() is not None:
                self.crashed += 1
                self.stage.start_bots(row)
