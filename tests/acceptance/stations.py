"""The stations of a compaction at which a test stops a worker for good, to kill it there."""

from __future__ import annotations

import re
import threading
import uuid
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from compactor import Code, Compactor
from compactor.dispatch import queue_name
from compactor.settings import Settings, read_settings
from compactor.testing import Answer, ModelServer, summary
from tests.acceptance.scripted_model import asked, long_talk
from tests.integration.conversations import SMALL
from tests.integration.gate import Fault, Gate, Place
from tests.integration.lossy_proxy import script_mark


class Station(StrEnum):
    """Where a worker stands still."""

    RECEIVED = "received"  # before the snapshot: it has the task, its claim is not begun
    BEGUN = "begun"  # the claim is begun, the snapshot did not arrive
    ASKING = "asking"  # during the model calls
    VERIFIED = "verified"  # after the last check, before the originals are archived
    ARCHIVED = "archived"  # between archive and swap
    SWAPPED = "swapped"  # the swap is carried out, its answer did not arrive
    FINISHED = "finished"  # after the swap, before the task is acknowledged


_HELD: Final[dict[Station, tuple[str, Place]]] = {
    Station.RECEIVED: ("begin", "request"),
    Station.BEGUN: ("begin", "reply"),
    Station.VERIFIED: ("archive", "request"),
    Station.ARCHIVED: ("swap", "request"),
    Station.SWAPPED: ("swap", "reply"),
}
_ACKNOWLEDGEMENT: Final = b"unacked_index"


def crash_settings(redis_url: str, namespace: str, *, lease: float, visibility: float, attempts: int = 3) -> Settings:
    """Settings whose claims run out after `lease` seconds, and whose tasks come back after `visibility`."""
    return read_settings(
        redis_url=redis_url,
        namespace=namespace,
        call_connect_timeout=lease * 0.3,
        call_timeout=lease * 0.8,
        compaction_deadline=lease * 0.95,
        claim_lease=lease,
        visibility_timeout=visibility,
        stop_grace=lease,
        max_attempts=attempts,
    )


@dataclass
class HeldModel:
    """A model that answers at once, but keeps those waiting whose text holds `mark`, until `let_go`."""

    mark: str
    _free: threading.Event = field(default_factory=threading.Event)
    server: ModelServer = field(init=False)

    def __post_init__(self) -> None:
        self.server = ModelServer(self._answer)

    def _answer(self, body: dict[str, Any]) -> Answer:
        if self.mark in asked(body):
            self._free.wait(60)
        return summary()

    def let_go(self) -> None:
        """From now on it keeps nobody waiting."""
        self._free.set()

    def waiting(self) -> int:
        """How many calls it keeps waiting now."""
        return 0 if self._free.is_set() else self.server.in_flight

    def calls(self, mark: str) -> Counter[str]:
        """How often it was asked for each result that carries a mark and its order."""
        found = (re.search(rf"{mark}-\d+", asked(body)) for body in list(self.server.requests))
        return Counter(each.group() for each in found if each)


@dataclass
class Stations:
    """Two gates between a worker and its server; the bots go past them."""

    store: Gate
    broker: Gate
    model: HeldModel

    def behind(self, settings: Settings) -> Settings:
        """The worker's settings; it is patient with what is held."""
        secret = type(settings.redis_url)
        return settings.model_copy(update={"redis_url": secret(self.store.url), "broker_url": secret(self.broker.url)})

    def hold(self, station: Station, session: str) -> Callable[[], bool]:
        """Stops the worker at that station of that session's compaction; answers whether it stands there."""
        if station is Station.ASKING:
            return lambda: self.model.waiting() > 0
        if station is Station.FINISHED:
            return self.broker.add(Fault((b"ZREM", _ACKNOWLEDGEMENT), "request")).met.is_set
        script, place = _HELD[station]
        return self.store.add(Fault((script_mark(script), f":{session}}}".encode()), place)).met.is_set


def warm_up(settings: Settings) -> None:
    """Lets a worker just started do its first compaction, which loads what later ones need."""
    with Compactor(settings=settings) as memory:
        session = memory.session(f"warm/{uuid.uuid4().hex[:8]}", SMALL)
        session.push(long_talk(9, "well", "mark-warm"))
        assert session.compact(wait=20).outcome is Code.APPLIED


def is_done(raw: Any, settings: Settings) -> bool:
    """Whether the broker holds no task of the namespace, neither waiting nor being worked on."""
    waiting = raw.llen(f"{settings.namespace}:{queue_name(settings.namespace)}")
    return not waiting and not raw.hlen(f"{settings.namespace}:unacked")
