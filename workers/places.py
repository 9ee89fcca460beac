"""The worker's part in fair use: gives a task's place back to its tenant, and sweeps places that nobody gave back."""

from __future__ import annotations

import logging
import threading
from collections.abc import Generator
from contextlib import contextmanager
from functools import lru_cache
from random import uniform
from typing import Any, Final

from celery.exceptions import Retry
from celery.signals import worker_ready

from compactor.client import Compactor
from compactor.models import CompactionId, SessionId
from compactor.settings import Settings, read_settings
from compactor.turns import TenantTurns

SWEEP_EVERY: Final = 30.0  # seconds between two sweeps of a process; those of several take turns by chance
_log = logging.getLogger("compactor")


@lru_cache(maxsize=1)
def publisher() -> Compactor:
    """Publishes the turns that this process hands on; made at the first task, after any fork."""
    return Compactor(settings=read_settings())


@contextmanager
def place_of(session: SessionId, owner: CompactionId, settings: Settings) -> Generator[None]:
    """Gives the place of a task back when it ended; one that comes again keeps it."""
    try:
        yield
    except Retry:
        raise
    except BaseException:
        publisher().drive(TenantTurns(settings).leave(session, owner))
        raise
    publisher().drive(TenantTurns(settings).leave(session, owner))


@worker_ready.connect
def start_sweeping(**_: Any) -> None:
    """Sweeps from a thread of its own for as long as the worker lives."""
    threading.Thread(target=sweep_for_ever, args=(read_settings(),), daemon=True, name="places").start()


def sweep_for_ever(settings: Settings) -> None:
    """Sweeps now and then; whatever goes wrong is told, and the next sweep comes."""
    pause = threading.Event()
    while True:
        pause.wait(SWEEP_EVERY * uniform(0.5, 1.5))  # noqa: S311 # why: spreads the sweeps, guards nothing
        try:
            publisher().drive(TenantTurns(settings).sweep())
        except Exception as error:  # noqa: BLE001 # why: nobody would miss a thread that ended, until places leak
            _log.warning("places: not swept (%s)", type(error).__name__)
