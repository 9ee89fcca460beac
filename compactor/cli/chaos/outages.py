"""When a worker could not save what it was told: Redis was away from it, or refused to write."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

# Seconds after the end of a fault in which workers still find back: a pause, a connection, what waited.
RECOVERY: Final = 0.5


@dataclass(frozen=True, slots=True)
class Outage:
    """From when until when the workers in `slots` had no Redis to write to, in epoch seconds."""

    began: float
    ended: float
    slots: tuple[int, ...]


def away_since(outages: Sequence[Outage], slot: int, now: float) -> float:
    """Since when a worker has had no Redis, faults that follow one another taken together; `now` when it has one."""
    since = now
    for outage in reversed(outages):
        if slot in outage.slots and outage.ended >= since - RECOVERY:
            since = min(since, outage.began)
    return since
