"""Waiting for a condition, never for a time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def wait_until(look: Callable[[], T | None], *, seconds: float = 20.0, what: str = "the condition") -> T:
    """The first truthy answer of `look`; fails when none came in time."""
    until = time.monotonic() + seconds
    while not (answer := look()):
        assert time.monotonic() < until, f"{what} did not come within {seconds} s"
        time.sleep(0.02)
    return answer
