"""Children that are started again whenever they end, until a stop is asked for."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from compactor.cli.stopping import StopFlag
from compactor.embedded import Child
from compactor.exceptions import EmbeddedServerError

FIRST_PAUSE: Final = 1.0  # seconds before the first restart, doubling
LONGEST_PAUSE: Final = 30.0
_STEADY: Final = 60.0  # seconds after which a child counts as well again
_LOOK: Final = 0.1


@dataclass(slots=True)
class Supervised:
    """One child and how to start it; `start` returns it ready, or raises EmbeddedServerError.

    `needed`: the others cannot work without it, so it stops last.
    """

    name: str
    start: Callable[[], Child]
    needed: bool = False
    child: Child | None = None
    restarts: int = 0
    started: float = 0.0
    due: float | None = None

    @property
    def running(self) -> bool:
        return self.child is not None and self.child.process.poll() is None

    def begin(self) -> None:
        """Starts the child. Raises EmbeddedServerError."""
        self.child = self.start()
        self.started, self.due = time.monotonic(), None

    def pause(self) -> float:
        """Seconds until the next start: 1, 2, 4 up to 30; from the beginning after a steady minute."""
        if time.monotonic() - self.started > _STEADY:
            self.restarts = 0
        self.restarts += 1
        return min(LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** (self.restarts - 1))


@dataclass(slots=True)
class Supervisor:
    """Starts children in order, keeps them running, and stops them."""

    say: Callable[[str], None]
    children: list[Supervised] = field(default_factory=list[Supervised])

    def add(self, name: str, start: Callable[[], Child], *, needed: bool = False) -> None:
        """Starts one more child. Raises EmbeddedServerError."""
        self.children.append(Supervised(name, start, needed))
        self.children[-1].begin()

    def pids(self) -> dict[str, int]:
        """The process id of each child that was started."""
        return {child.name: child.child.process.pid for child in self.children if child.child is not None}

    def keep_running(self, flag: StopFlag) -> None:
        """Returns when a stop is asked for; a child that ended, whatever its exit code, starts again."""
        while not flag.asked:
            for child in self.children:
                if not child.running:
                    self._revive(child)
            time.sleep(_LOOK)

    def _revive(self, child: Supervised) -> None:
        if child.due is None:
            code = child.child.process.returncode if child.child is not None else None
            pause = child.pause()
            child.due = time.monotonic() + pause
            self.say(f"{child.name} ended with exit code {code}; it starts again in {pause:.0f} s")
        elif time.monotonic() >= child.due:
            try:
                child.begin()
            except EmbeddedServerError as error:
                pause = child.pause()
                child.due = time.monotonic() + pause
                self.say(f"{child.name} did not start ({str(error).splitlines()[-1]}); again in {pause:.0f} s")
            else:
                self.say(f"{child.name} runs again")

    def stop(self, grace: float) -> None:
        """SIGTERM to all at once, to those the others need afterwards; SIGKILL after `grace` seconds."""
        until = time.monotonic() + grace
        for needed in (False, True):
            ending = [child.child for child in self.children if child.needed is needed and child.child is not None]
            for child in ending:
                if child.process.poll() is None:
                    child.process.send_signal(signal.SIGTERM)
            for child in ending:
                child.stop(grace=max(0.1, until - time.monotonic()))
