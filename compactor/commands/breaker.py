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
    PAUSED = "paused"


@dataclass(frozen=True, slots=True)
class Admission:
    """The answer; `failures` in a row while closed, `wait_ms` while it is open, paused or another call tries."""

    circuit: Circuit
    failures: int = 0
    wait_ms: int = 0


def server_name(server: str, model: str) -> str:
    """A name for one model on one server; theirs may hold anything, so it is a hash."""
    return blake2b(f"{server}\n{model}".encode(), digest_size=8).hexdigest()


def breaker_key(namespace: str, server: str, model: str) -> str:
    """The key of one model on one server."""
    return f"{namespace}:breaker:{server_name(server, model)}"


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


def pause(key: str, *, pause_ms: int) -> Command[bool]:
    """The server asked for a pause: no worker calls it until it is over. A longer one stays."""
    return Command(lambda replies: text(replies[0]) == "paused", "pause", (key,), (pause_ms, pause_ms + KEPT_MS))
