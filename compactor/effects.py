"""What a session's flow asks its driver to do: run a command, publish, pause, compute.

A flow is a generator of effects; `Store` and `AsyncStore` clients drive the same flows.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any, TypeVar

from compactor.commands.command import Command
from compactor.models import CompactionId, SessionId

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Run:
    """One round trip to the store."""

    command: Command[Any]


@dataclass(frozen=True, slots=True)
class Publish:
    """Publish the task of a claim."""

    session: SessionId
    owner: CompactionId


@dataclass(frozen=True, slots=True)
class Pause:
    """Wait a moment, in seconds."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Compute:
    """Pure work; a heavy one (much text to encode) must not block an event loop."""

    work: Callable[[], Any]
    heavy: bool


Effect = Run | Publish | Pause | Compute
Flow = Generator[Effect, Any, T]


def run(command: Command[T]) -> Flow[T]:
    """The command's typed answer."""
    answer: T = yield Run(command)
    return answer


def compute(work: Callable[[], T], *, heavy: bool) -> Flow[T]:
    """The work's typed answer."""
    answer: T = yield Compute(work, heavy)
    return answer
