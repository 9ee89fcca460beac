"""The workers of a chaos run: whatever ends one, another takes its place."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, Self

from compactor.embedded import Child, start_worker
from compactor.exceptions import EmbeddedServerError

CONCURRENCY: Final = 8
_LOOK: Final = 0.05


class Workers:
    """Worker processes in numbered slots; `starts` counts how often one was started."""

    def __init__(self, envs: Sequence[Mapping[str, str]], folder: Path) -> None:
        self._envs, self._folder = envs, folder
        self._running: list[Child | None] = [None] * len(envs)
        self._stopping = False
        self._failure = ""
        self.starts = 0
        # A child ends with the thread that started it, so each slot has one for the whole run.
        self._keepers = [threading.Thread(target=self._keep, args=(slot,), daemon=True) for slot in range(len(envs))]

    def running(self, slot: int) -> Child | None:
        """The worker of a slot, ready and alive; None while it starts."""
        child = self._running[slot]
        return child if child is not None and child.process.poll() is None else None

    def all_running(self) -> bool:
        return all(self.running(slot) is not None for slot in range(len(self._envs)))

    def _keep(self, slot: int) -> None:
        while not self._stopping:
            try:
                child = self._start(slot)
            except EmbeddedServerError as error:
                self._failure = str(error)
                continue
            self._running[slot] = child
            while child.process.poll() is None:
                time.sleep(_LOOK)

    def _start(self, slot: int) -> Child:
        self.starts += 1
        log = self._folder / f"worker-{slot}-{self.starts}.log"
        options = ["-n", f"worker-{slot}@%h"]
        return start_worker(env=self._envs[slot], log=log, concurrency=CONCURRENCY, options=options)

    def wait(self, until: Callable[[], bool], seconds: float) -> None:
        """Waits for the workers. Raises EmbeddedServerError."""
        end = time.monotonic() + seconds
        while not until():
            if time.monotonic() > end:
                raise EmbeddedServerError(f"workers: not ready within {seconds:.0f} s. {self._failure}")
            time.sleep(_LOOK)

    def __enter__(self) -> Self:
        for keeper in self._keepers:
            keeper.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping = True
        while any(keeper.is_alive() for keeper in self._keepers):
            for child in self._running:
                if child is not None:
                    child.stop(grace=10)
            time.sleep(_LOOK)
