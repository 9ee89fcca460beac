"""Live phases for Flower: a broker that is slow or gone never holds or fails a compaction."""

from __future__ import annotations

import logging
import threading
from functools import lru_cache
from queue import Empty, Full, Queue
from typing import Any, Final

from celery import Task

MOST_WAITING: Final = 100  # events; more are dropped, since each is outdated by the next
FLUSH: Final = 0.5  # seconds that a task's end waits for its last event
_log = logging.getLogger("compactor")


class Progress:
    """The phases of one task; call it with a phase and a text of numbers and fixed words."""

    def __init__(self, task: Task[Any, Any]) -> None:
        self._app, self._id, self._host = task.app, task.request.id, task.request.hostname
        self._last = threading.Event()
        self._last.set()

    def __call__(self, phase: str, text: str) -> None:
        """Sends the event `task-<phase>` from a thread of its own."""
        sent = threading.Event()
        try:
            _waiting().put_nowait((self, phase, text, sent))
        except Full:
            return
        self._last = sent

    def flush(self) -> None:
        """Lets the last event go out before the task's own end does, for a moment at most."""
        self._last.wait(FLUSH)

    def dispatcher(self) -> Any:
        """What sends this worker's events; use it as a context manager."""
        return self._app.events.default_dispatcher(hostname=self._host)

    def send(self, dispatcher: Any, phase: str, text: str) -> None:
        """Sends one event now. Raises whatever the broker's library raises."""
        dispatcher.send(f"task-{phase}", uuid=self._id, result=text, retry=False)


Event = tuple[Progress, str, str, threading.Event]
Waiting = Queue[Event]


@lru_cache(maxsize=1)
def _waiting() -> Waiting:
    """The queue of this process, and its sender: a daemon, so that a frozen broker does not hold a stop."""
    waiting: Waiting = Queue(MOST_WAITING)
    threading.Thread(target=_send_all, args=(waiting,), daemon=True, name="progress").start()
    return waiting


def _send_all(waiting: Waiting) -> None:
    while True:
        _send_waiting(waiting.get(), waiting)


def _send_waiting(first: Event, waiting: Waiting) -> None:
    """Sends an event and those behind it over one dispatcher: to open one costs more than to send."""
    now: Event | None = first
    try:
        with first[0].dispatcher() as dispatcher:
            while now is not None:
                progress, phase, text, sent = now
                progress.send(dispatcher, phase, text)
                sent.set()
                now = _next(waiting)
    except Exception as error:  # noqa: BLE001 # why: kombu raises whatever its transport raises
        _log.debug("event not sent: %s", type(error).__name__)
    if now is not None:
        now[3].set()


def _next(waiting: Waiting) -> Event | None:
    try:
        return waiting.get_nowait()
    except Empty:
        return None
