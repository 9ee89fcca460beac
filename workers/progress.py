"""Live phases for Flower: a broker that is slow or gone never holds or fails a compaction."""

from __future__ import annotations

import logging
import threading
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any, Final

from celery import Task

MOST_WAITING: Final = 100  # events; more are dropped, since each is outdated by the next
FLUSH: Final = 0.5  # seconds that a task's end waits for its last event
_log = logging.getLogger("compactor")
_room = threading.BoundedSemaphore(MOST_WAITING)
_sender = ThreadPoolExecutor(1, thread_name_prefix="progress")


class Progress:
    """The phases of one task; call it with a phase and a text of numbers and fixed words."""

    def __init__(self, task: Task[Any, Any]) -> None:
        self._app, self._id, self._host = task.app, task.request.id, task.request.hostname
        self._last: Future[None] | None = None

    def __call__(self, phase: str, text: str) -> None:
        """Sends the event `task-<phase>` from a thread of its own."""
        if _room.acquire(blocking=False):
            self._last = _sender.submit(self._send, phase, text)

    def flush(self) -> None:
        """Lets the last event go out before the task's own end does, for a moment at most."""
        if self._last is not None:
            wait([self._last], timeout=FLUSH)

    def _send(self, phase: str, text: str) -> None:
        try:
            with self._app.events.default_dispatcher(hostname=self._host) as dispatcher:
                dispatcher.send(f"task-{phase}", uuid=self._id, result=text, retry=False)
        except Exception as error:  # noqa: BLE001 # why: kombu raises whatever its transport raises
            _log.debug("event not sent: %s", type(error).__name__)
        finally:
            _room.release()
