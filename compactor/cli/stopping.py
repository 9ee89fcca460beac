"""SIGTERM and Ctrl-C for commands that have children to stop."""

from __future__ import annotations

import signal
import sys
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
    """Set by the first SIGTERM, Ctrl-C or hang-up; a second one interrupts."""

    def __init__(self) -> None:
        self.asked = False

    @contextmanager
    def listening(self) -> Generator[None, None, None]:
        """Within the block, signals set the flag."""
        before = {number: signal.signal(number, self._ask) for number in _stop_signals()}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _ask(self, _number: int, _frame: FrameType | None) -> None:
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True


def _stop_signals() -> list[signal.Signals]:
    """Those that ask for a stop; a hang-up that `nohup` ignores stays ignored."""
    numbers = [signal.SIGINT, signal.SIGTERM]
    if sys.platform != "win32" and signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        numbers.append(signal.SIGHUP)
    return numbers
