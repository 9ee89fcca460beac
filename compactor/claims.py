"""The names of the claim's states and of what a start can end in; transitions live in the scripts."""

from __future__ import annotations

from enum import StrEnum


class Claim(StrEnum):
    """Who may compact a session now."""

    IDLE = "idle"
    QUEUED = "queued"
    RUNNING = "running"


class Begun(StrEnum):
    """What a worker finds when it starts on a claim."""

    RUNNING = "running"
    LOST = "lost"
    BUSY = "busy"
    GONE = "gone"
    DEAD = "dead"


class Held(StrEnum):
    """Why no compaction starts although the threshold is crossed."""

    BACKOFF = "backoff"
    BROKER_DOWN = "broker_down"
    SUMMARIZER_FAILED = "summarizer_failed"
    THROTTLED = "throttled"
    NO_GAIN = "no_gain"
    EXHAUSTED = "exhausted"
    TARGET_NOT_REACHED = "target_not_reached"
    CRASHED = "crashed"
    SHADOW = "shadow"
    DAMAGED = "damaged"
    DRAFTED = "drafted"
    DEAD = "dead"
