"""The circuit breaker of a model server: ask before a call, tell how it ended. One key for all workers."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from hashlib import blake2b
from typing import Final

from compactor.commands.command import Command, text

KEPT_MS: Final = 3_600_000  # after the pause: failures further apart than an hour do not add up


class Circuit(StrEnum):
    """What the breaker answers a call that wants to start; see `admit.lua`."""

    CLOSED = "closed"
    TRIAL = "trial"
    OPEN = "open"
    TRIED = "tried"


@dataclass(frozen=True, slots=True)
class Admission:
    """The answer; `failures` in a row while closed, `wait_ms` while it is open or another call tries."""

    circuit: Circuit
    failures: int = 0
    wait_ms: int = 0


def breaker_key(namespace: str, server: str, model: str) -> str:
    """The key of one model on one server; their names may hold anything, so the key holds a hash."""
    name = blake2b(f"{server}\n{model}".encode(), digest_size=8).hexdigest()
    return f"{namespace}:breaker:{name}"


def admit(key: str, *, trial_ms: int) -> Command[Admission]:
    """Whether a call may start; of the calls after a pause, one."""

    def parse(replies: list[list[bytes | int]]) -> Admission:
        circuit, figure = Circuit(text(replies[0][0])), int(replies[0][1])
        if circuit is Circuit.CLOSED:
            return Admission(circuit, failures=figure)
        return Admission(circuit, wait_ms=figure)

    return Command(parse, "admit", (key,), (trial_ms,))


def settle(key: str, *, answered: bool, failures: int, pause_ms: int) -> Command[bool]:
    """Whether this call's end opened the breaker."""
    args = ("answered" if answered else "failed", failures, pause_ms, pause_ms + KEPT_MS)
    return Command(lambda replies: text(replies[0]) == "open", "settle", (key,), args)
