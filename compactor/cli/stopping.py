"""SIGTERM and Ctrl-C for commands that have children to stop."""

from __future__ import annotations

import signal
from collections.abc import Generator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def interrupted_by_sigterm() -> Generator[None, None, None]:
    """SIGTERM ends the block as Ctrl-C does, so that its clean-up runs."""
    before = signal.signal(signal.SIGTERM, _interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


class StopFlag:
    """Set by the first SIGTERM or Ctrl-C; a second one interrupts."""

    def __init__(self) -> None:
        self.asked = False

    @contextmanager
    def listening(self) -> Generator[None, None, None]:
        """Within the block, signals set the flag."""
        before = {number: signal.signal(number, self._ask) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _ask(self, _number: int, _frame: FrameType | None) -> None:
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True
