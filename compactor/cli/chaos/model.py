"""The cheap model of a chaos run: over HTTP, with small summaries, and with every bad manner on demand."""

from __future__ import annotations

import re
import threading
import time
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final

from compactor.cli.chaos.seed import drawn
from compactor.testing import Answer, completion, summary

STALL: Final = 2.0  # seconds; longer than the run's call timeout
_CONTENT: Final = re.compile(r"=== ([0-9a-f]{16}) ===")  # the prompt's marker is a hash of the text between
_VALUE: Final = re.compile(r"id=([0-9a-f]{12})|编号([0-9a-f]{10})")


def _error(status: int, **headers: str) -> Answer:
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    return Answer({"error": {"message": f"no ({status})", "type": "x", "code": ""}}, status=status, headers=names)


MANNERS: Final[dict[str, Callable[[], Answer]]] = {
    "model_500": lambda: _error(500),
    "model_429": lambda: _error(429, retry_after="1"),
    "model_empty": lambda: completion(""),
    "model_html": lambda: Answer(b"<html><body>Sign in to the network</body></html>", content_type="text/html"),
    "model_cut_off": lambda: completion('{"outcome": "ok", "facts": [{"label', finish_reason="length"),
    "model_stalls": lambda: replace(summary(), delay=STALL),
}


@dataclass(frozen=True, slots=True)
class Call:
    """One request of the worker in `slot`: the hash of the text to be shortened, epoch seconds.

    `answered`: the answer was a summary, and left at `sent`. `value` is an identifier that stands in it.
    """

    slot: int
    content: str
    began: float
    answered: bool
    value: str = ""
    sent: float = 0.0


class ChaosModel:
    """Answers for all model servers of a run; `fails` is the share of calls that go wrong by themselves."""

    def __init__(self, *, seed: int, fails: float) -> None:
        self._random = drawn("model", seed)
        self._fails = fails
        self._armed: deque[str] = deque()
        self._lock = threading.Lock()
        self.calls: list[Call] = []
        self.misbehaved: Counter[str] = Counter()

    def arm(self, manner: str, times: int) -> None:
        """The next calls go wrong in this way."""
        with self._lock:
            self._armed.extend([manner] * times)

    def disarm(self) -> None:
        """Forgets what was still armed."""
        with self._lock:
            self._armed.clear()

    def answer(self, slot: int, body: dict[str, Any]) -> Answer:
        """The answer to one request of the worker in a slot."""
        text = str(body["messages"][1]["content"])
        found = _CONTENT.search(text)
        with self._lock:
            manner = self._armed.popleft() if self._armed else self._drawn()
            delay = self._random.uniform(0.05, 0.4)
            if manner:
                self.misbehaved[manner] += 1
            content = found[1] if found else ""
            began, value = time.time(), _first_value(text)
            self.calls.append(Call(slot, content, began, answered=not manner, value=value, sent=began + delay))
        return MANNERS[manner]() if manner else replace(_good(text), delay=delay)

    def _drawn(self) -> str:
        return self._random.choice(list(MANNERS)) if self._random.random() < self._fails else ""


def _good(text: str) -> Answer:
    note = "工具列出了一些订单。" if "编号" in text else "The tool listed rows."
    return summary(note, first=_first_value(text) or "none")


def _first_value(text: str) -> str:
    found = _VALUE.search(text)
    return (found[1] or found[2]) if found else ""
