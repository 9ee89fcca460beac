"""Fair use: a tenant has so many places in the broker's queue, and its other claimed sessions wait their turn.

A place is taken before a task is published and given back when the task ended; whoever gives one back
publishes who comes next. Nothing is forgotten when somebody dies in between: places run out, the next
send of a session lines it up again, and workers sweep places whose claim has ended.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from typing import Final
from uuid import uuid4

from compactor.commands import claim, turns
from compactor.commands.command import session_keys
from compactor.commands.tenants import tenant_of
from compactor.commands.turns import Line, Turn
from compactor.effects import Flow, Publish, run
from compactor.exceptions import DispatchError, StoreUnavailableError
from compactor.models import CompactionId, SessionId
from compactor.settings import Settings

_MOST_AT_ONCE: Final = 32  # turns that one task's end, or one sweep of a tenant, hands out
_log = logging.getLogger("compactor")


class TenantTurns:
    """The turns of all tenants of a namespace; each method yields effects."""

    def __init__(self, settings: Settings) -> None:
        self._namespace = settings.namespace
        self._patience_ms = int(settings.queue_patience * 1000)
        self._line = Line(settings.namespace, settings.tenant_published, self._patience_ms)

    def join(self, session: SessionId, owner: CompactionId) -> Flow[bool]:
        """Whether the caller, who has just taken this claim, publishes it now; else somebody does in its turn.

        When the store does not answer whether it waits, it is published: fairness holds no compaction up.
        """
        own = Turn(session, owner)
        try:
            found = yield from run(self._line.join(session, owner, operation=_new()))
        except StoreUnavailableError:
            return True
        with suppress(StoreUnavailableError):  # who waits is published by whoever leaves, or lines up again at a send
            if own not in found.come:
                yield from run(turns.enter_crowded(self._namespace, tenant_of(session)))
            yield from self._publish([turn for turn in found.come if turn != own])
        return own in found.come

    def leave(self, session: SessionId, owner: CompactionId, *, hand_on: bool = True) -> Flow[None]:
        """Gives the place of an ended claim back, and publishes who comes next. A store that is away is left alone."""
        try:
            found = yield from run(
                self._line.leave(session, owner, most=_MOST_AT_ONCE if hand_on else 0, operation=_new())
            )
            yield from self._publish(found.come)
        except StoreUnavailableError:  # the place runs out, or a sweep finds it
            return

    def sweep(self) -> Flow[int]:
        """Publishes those who wait although places are free; answers how many. Raises StoreUnavailableError."""
        entered = yield from run(turns.read_crowded(self._namespace))
        if not entered:
            return 0
        crowds = yield from run(turns.read_crowds(self._namespace, list(entered)))
        calm = {tenant: at for tenant, at in entered.items() if not crowds[tenant].waiting}
        if calm:
            yield from run(turns.drop_crowded(self._namespace, calm))
        published = 0
        for tenant in entered.keys() - calm.keys():
            published += yield from self._sweep(tenant)
        return published

    def _sweep(self, tenant: str) -> Flow[int]:
        held = yield from run(turns.read_published(self._namespace, tenant))
        ended = (yield from run(turns.read_ended(self._namespace, tenant, held))) if held else ()
        for turn in ended:
            yield from run(self._line.leave(turn.session, turn.owner, most=0, operation=_new()))
        nobody = Turn(SessionId(f"{tenant}/"), CompactionId(""))  # hands on what is free, also where places ran out
        found = yield from run(self._line.leave(nobody.session, nobody.owner, most=_MOST_AT_ONCE, operation=_new()))
        published = yield from self._publish(found.come)
        yield from run(turns.enter_crowded(self._namespace, tenant))
        return published

    def _publish(self, come: Sequence[Turn]) -> Flow[int]:
        """Publishes turns of others; a claim that ended meanwhile hands its place on. Answers how many.

        A broker that refuses one is not asked again: the others go back to idle with it, and their next
        sends queue them.
        """
        waiting, published, refused = deque(come), 0, False
        while waiting:
            turn = waiting.popleft()
            keys = session_keys(self._namespace, turn.session)
            if not (yield from run(claim.publishing(keys, owner=turn.owner, patience_ms=self._patience_ms))):
                found = yield from run(self._line.leave(turn.session, turn.owner, most=1, operation=_new()))
                waiting.extend(found.come)
                continue
            try:
                if not refused:
                    yield Publish(turn.session, turn.owner)
                    published += 1
                    continue
            except DispatchError as error:
                _log.warning("session %s: %s", turn.session, error)
                refused = True
            yield from run(claim.unqueue(keys, owner=turn.owner))
            yield from run(self._line.leave(turn.session, turn.owner, most=0, operation=_new()))
        return published


def _new() -> str:
    """The id of one call: what a lost answer handed out is handed out again to its repeat, and to nobody else."""
    return uuid4().hex
