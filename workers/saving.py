"""Answers of the model that could not be saved: a thread tries until the store takes them."""

from __future__ import annotations

import threading
from typing import Final

from compactor.exceptions import StoreUnavailableError
from compactor.reuse import Answers, Runner

_PAUSE: Final = 0.1  # seconds between attempts: whoever dies before the store is back has paid for nothing


class Saver:
    """Answers whose saving goes on in the background while the store is away."""

    def __init__(self, runner: Runner) -> None:
        self.answers = Answers(waits=self._start)
        self._runner = runner
        self._lock = threading.Lock()
        self._runs = False

    def _start(self) -> None:
        with self._lock:
            if self._runs:
                return
            self._runs = True
        threading.Thread(target=self._save, daemon=True, name="saver").start()

    def _save(self) -> None:
        pause = threading.Event()
        while True:
            try:
                self.answers.save(self._runner)
            except StoreUnavailableError:
                pause.wait(_PAUSE)
                continue
            with self._lock:
                if not self.answers.unsaved:
                    self._runs = False
                    return
