"""Faults of the network and the broker: requests cut, replies lost, nobody there, tasks twice and unasked."""

from __future__ import annotations

import time
from random import Random
from typing import Any, Final
from uuid import uuid4

from compactor.cli.chaos.server_faults import EVERYBODY, NO_WORKER, Slots, seen
from compactor.cli.chaos.stage import Stage
from compactor.commands.command import session_keys
from compactor.exceptions import DispatchError
from compactor.models import CompactionId, session_id
from compactor.testing import LossyProxy

_LINGERS: Final = 0.5  # seconds in which the rest of a burst may still hit


def bots_cut(stage: Stage, random: Random) -> Slots | None:
    """A bot's request never reaches the server."""
    return NO_WORKER if _cut(stage.to_bots, random) else None


def bots_reply_lost(stage: Stage, random: Random) -> Slots | None:
    """A bot's call is carried out, its reply lost; at times so is that of its retry."""
    script = random.choice((None, "push", "push", "prepare"))
    return NO_WORKER if _lose(stage.to_bots, random, script) else None


def worker_cut(stage: Stage, random: Random) -> Slots | None:
    """A worker's request never reaches the server."""
    slot = random.choice(EVERYBODY)
    return (slot,) if _cut(stage.to_workers[slot], random) else None


def worker_reply_lost(stage: Stage, random: Random) -> Slots | None:
    """A worker's call is carried out, its reply lost."""
    slot = random.choice(EVERYBODY)
    script = random.choice((None, "begin", "archive", "swap", "swap"))
    return (slot,) if _lose(stage.to_workers[slot], random, script) else None


def broker_away(stage: Stage, random: Random) -> Slots | None:
    """The broker's connections end, and nobody listens there for a while."""
    before = stage.broker.refused
    stage.broker.refuse()
    hit = seen(lambda: stage.broker.refused > before)
    time.sleep(random.uniform(0.0, 1.0))
    stage.broker.heal()
    return EVERYBODY if hit else None


def broker_reply_lost(stage: Stage, _random: Random) -> Slots | None:
    """The broker hands something out that never arrives: a task may be gone for good."""
    before = stage.broker.lost
    stage.broker.lose(replies=1)
    hit = seen(lambda: stage.broker.lost > before)
    stage.broker.heal()
    return EVERYBODY if hit else None


def delivered_twice(stage: Stage, random: Random) -> Slots | None:
    """A task that is queued or running is published once more, under the same id."""
    for session, claim, owner in _claims(stage, random):
        if claim in (b"queued", b"running"):
            return _published(stage, session, CompactionId(owner.decode()))
    return None


def unclaimed(stage: Stage, random: Random) -> Slots | None:
    """A task for a session that nobody claimed, or that does not exist."""
    names = [session for session, claim, _ in _claims(stage, random) if claim in (None, b"idle")]
    session = random.choice([*names[:3], f"chaos/nobody-{random.randint(1, 99)}"])
    return _published(stage, session, CompactionId(str(uuid4())))


def _published(stage: Stage, session: str, owner: CompactionId) -> Slots | None:
    try:
        stage.publisher.publish(session_id(session), owner)
    except DispatchError:
        return None
    return NO_WORKER


def _claims(stage: Stage, random: Random) -> list[tuple[str, Any, Any]]:
    """Session, claim and owner of all sessions, in random order."""
    names = random.sample(list(stage.sessions), len(stage.sessions))
    with stage.control() as control, control.pipeline(transaction=False) as pipeline:
        for name in names:
            pipeline.hmget(session_keys(stage.settings.namespace, session_id(name)).state, "claim", "owner")
        return [(name, claim, owner) for name, (claim, owner) in zip(names, pipeline.execute(), strict=True)]


def _cut(proxy: LossyProxy, random: Random) -> bool:
    before, times = proxy.cut_off, random.randint(1, 6)
    proxy.cut(requests=times)
    hit = seen(lambda: proxy.cut_off > before)
    seen(lambda: proxy.cut_off >= before + times, _LINGERS)
    proxy.heal()
    return hit


def _lose(proxy: LossyProxy, random: Random, script: str | None) -> bool:
    before, times = proxy.lost, random.randint(1, 6)
    proxy.lose(script, replies=times)
    hit = seen(lambda: proxy.lost > before)
    seen(lambda: proxy.lost >= before + times, _LINGERS)
    proxy.heal()
    return hit
