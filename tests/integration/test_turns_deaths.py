"""Processes die at any step of the turns among a tenant's sessions: nobody is forgotten, and no place stays taken."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from compactor import Compactor
from compactor.commands import turns
from compactor.commands.command import session_keys
from compactor.commands.turns import Crowd, Turn, turns_keys
from compactor.effects import Publish
from compactor.models import SessionId
from compactor.settings import Settings
from compactor.store import Store
from compactor.turns import TenantTurns
from tests.integration.conversations import SMALL, conversation

MOST = 3
ROUNDS = 40


class Died(BaseException):
    """The end of a process; nothing in it may answer to that."""


class Mortal(Compactor):
    """A process that may die before or after each effect; what it publishes is a list."""

    chance: random.Random
    queue: list[Turn]

    def _perform(self, effect: Any) -> Any:
        dies = self.chance.choices(("before", "after", ""), (7, 7, 86))[0]
        if dies == "before":
            raise Died
        answer = None
        if isinstance(effect, Publish):
            self.queue.append(Turn(effect.session, effect.owner))
        else:
            answer = super()._perform(effect)
        if dies:
            raise Died
        return answer


class Tenant:
    """Its sessions, all over their threshold, in the hands of mortal processes."""

    def __init__(self, settings: Settings, raw: Any, seed: int) -> None:
        self.settings, self._raw, self.chance = settings, raw, random.Random(seed)
        self.queue: list[Turn] = []
        self.left = [SessionId(f"crowd/{number}") for number in range(4 * MOST)]
        self._states = {name: session_keys(settings.namespace, name).state for name in self.left}
        with Compactor(settings=settings) as memory:
            for name in self.left:
                memory.session(name, SMALL).push(conversation(8))

    def process(self, call: Callable[[Compactor], object]) -> None:
        with Mortal(settings=self.settings) as memory, suppress(Died):
            memory.chance, memory.queue = self.chance, self.queue
            call(memory)
        held, *_ = turns_keys(self.settings.namespace, "crowd")
        assert self._raw.zcard(held) <= MOST

    def send(self, name: SessionId) -> None:
        """A send; after it the time passes in which a queued task must be begun."""
        self.process(lambda memory: memory.session(name, SMALL).prepare())
        if self._raw.hget(self._states[name], "claim") == b"queued":
            self._raw.hset(self._states[name], mapping={"published_at": 1, "requeued": 0})

    def work(self, turn: Turn) -> None:
        """A task from the queue: one that still has its claim ends it, and each gives its place back."""
        state = self._states[turn.session]
        if self._raw.hmget(state, "claim", "owner") == [b"queued", turn.owner.encode()]:
            self._raw.hset(state, "claim", "idle")
            self.left.remove(turn.session)
        self.process(lambda memory: memory.drive(TenantTurns(self.settings).leave(turn.session, turn.owner)))


@pytest.mark.parametrize("seed", range(4))
def test_whatever_dies_every_session_has_its_turn_once_and_places_come_back(
    settings: Settings, raw: Any, seed: int
) -> None:
    few = settings.model_copy(update={"tenant_published": MOST})
    tenant = Tenant(few, raw, seed)
    for _ in range(ROUNDS):
        for name in tuple(tenant.left):
            tenant.send(name)
        tenant.process(lambda memory: memory.drive(TenantTurns(few).sweep()))
        while tenant.queue and tenant.chance.random() < 0.9:
            tenant.work(tenant.queue.pop(0))
    assert tenant.left == []
    with Compactor(settings=few) as memory, Store(few) as store:
        for number in range(MOST + 1):
            late = memory.session(f"crowd/late-{number}", SMALL)
            late.push(conversation(8))
            late.prepare()
        memory.drive(TenantTurns(few).sweep())
        assert store.run(turns.read_crowds(few.namespace, ["crowd"])) == {"crowd": Crowd(MOST, 1)}
