"""What the worker tells Flower of a task: every event, each at once, and errors as class and code."""

from __future__ import annotations

from typing import Any

from celery.app.events import Events
from celery.events.dispatcher import EventDispatcher
from celery.worker.request import Request


class UnbufferedDispatcher(EventDispatcher):
    """Sends each event at once, under one lock.

    Celery collects them, and clears the collection after sending it: what a thread of the pool added
    in between is lost, and its task runs in Flower for ever.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{**kwargs, "buffer_group": None, "on_send_buffered": None})


class UnbufferedEvents(Events):
    """Celery's events, sent by that dispatcher."""

    dispatcher_cls = "workers.events:UnbufferedDispatcher"


class PlainRequest(Request):
    """Shows a retry as the error behind it; Celery shows its own wrapping, with a traceback of its insides."""

    def on_retry(self, exc_info: Any) -> None:
        """Acknowledges, and sends the event that Flower shows."""
        if self.task.acks_late:
            self.acknowledge()
        cause = exc_info.exception
        while (inner := getattr(cause, "exc", None)) is not None:
            cause = inner
        self.send_event("task-retried", exception=repr(cause), traceback=None)
