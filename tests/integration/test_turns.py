"""Fair use: of a tenant only so many compactions are published at a time, and nobody who waits is forgotten."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any, ClassVar

import pytest
from pydantic import SecretStr

from compactor import Compactor
from compactor.commands import turns
from compactor.commands.command import session_keys
from compactor.commands.turns import Crowd, Line, Turn, turns_keys
from compactor.effects import Publish
from compactor.embedded import EmbeddedServer
from compactor.exceptions import DispatchError, StoreUnavailableError
from compactor.models import CompactionId, SessionId
from compactor.settings import Settings
from compactor.store import Store
from compactor.turns import TenantTurns
from tests.integration.clients import Connect, SessionClient
from tests.integration.conversations import SMALL, conversation
from tests.integration.stored import published

MOST = 3


@pytest.fixture
def few(settings: Settings) -> Settings:
    """A tenant may have three compactions published."""
    return settings.model_copy(update={"tenant_published": MOST})


@pytest.fixture
def memory(few: Settings) -> Iterator[Compactor]:
    with Compactor(settings=few) as opened:
        yield opened


@pytest.fixture
def store(few: Settings) -> Iterator[Store]:
    with Store(few) as opened:
        yield opened


def crossed(client: Any, name: str) -> SessionClient:
    """A session over its threshold, whose send took the claim."""
    session: SessionClient = client.session(name, SMALL)
    session.push(conversation(8))
    assert session.prepare().verdict.compaction == "queued"
    return session


def owner(store: Store, settings: Settings, name: str) -> CompactionId:
    state = session_keys(settings.namespace, SessionId(name)).state
    return CompactionId(store.client.hget(state, "owner").decode())


def crowd(store: Store, settings: Settings, tenant: str) -> Crowd:
    return store.run(turns.read_crowds(settings.namespace, [tenant]))[tenant]


def end(memory: Compactor, store: Store, settings: Settings, name: str) -> None:
    """What a worker does when the task of a session has ended."""
    held = owner(store, settings, name)
    store.client.hset(session_keys(settings.namespace, SessionId(name)).state, "claim", "idle")
    memory.drive(TenantTurns(settings).leave(SessionId(name), held))


def test_one_tenant_has_so_many_published_and_the_next_tenant_is_not_held_up(
    connect: Connect, few: Settings, store: Store, raw: Any
) -> None:
    client = connect(few)
    for number in range(10):
        crossed(client, f"crowd/{number}")
    assert published(raw, few) == MOST
    assert crowd(store, few, "crowd") == Crowd(MOST, 10 - MOST)
    crossed(client, "other/1")
    assert published(raw, few) == MOST + 1


def test_who_ends_publishes_who_came_next_each_once(memory: Compactor, few: Settings, store: Store, raw: Any) -> None:
    names = [f"crowd/{number}" for number in range(8)]
    for name in names:
        crossed(memory, name)
    for count, name in enumerate(names, 1):
        held = store.run(turns.read_published(few.namespace, "crowd"))
        assert name in held, "in the order in which they came"
        end(memory, store, few, name)
        assert published(raw, few) == min(len(names), MOST + count)
        end(memory, store, few, name)  # a second delivery of the same task
        assert published(raw, few) == min(len(names), MOST + count)
    assert crowd(store, few, "crowd") == Crowd(0, 0)


def test_a_claim_that_ended_while_it_waited_is_passed_over(
    memory: Compactor, few: Settings, store: Store, raw: Any
) -> None:
    for number in range(MOST + 2):
        crossed(memory, f"crowd/{number}")
    memory.session(f"crowd/{MOST}", SMALL).erase()
    end(memory, store, few, "crowd/0")
    assert published(raw, few) == MOST + 1
    assert f"crowd/{MOST + 1}" in store.run(turns.read_published(few.namespace, "crowd"))


def test_whoever_dies_with_the_place_of_another_in_hand_loses_nothing(
    memory: Compactor, few: Settings, store: Store, raw: Any
) -> None:
    """Handed out and never published: a send after the lease publishes it, still once."""
    waiting = crossed(memory, "crowd/0")
    for number in range(1, MOST + 1):
        crossed(memory, f"crowd/{number}")
    last = f"crowd/{MOST}"
    line = Line(few.namespace, MOST, 900_000)
    came = store.run(line.leave(SessionId("crowd/0"), owner(store, few, "crowd/0"), most=9, operation="x")).come
    assert came == (Turn(SessionId(last), owner(store, few, last)),)
    assert published(raw, few) == MOST
    state = session_keys(few.namespace, SessionId(last)).state
    raw.hset(state, "published_at", int(raw.hget(state, "published_at")) - int(few.claim_lease * 1000) - 1)
    for _ in range(3):
        assert memory.session(last, SMALL).prepare().verdict.compaction == "queued"
    assert published(raw, few) == MOST + 1
    assert waiting.prepare().verdict.compaction == "queued"


def test_a_session_whose_tenant_lost_its_lists_lines_up_again_with_its_next_send(
    memory: Compactor, few: Settings, store: Store, raw: Any
) -> None:
    for number in range(MOST + 1):
        crossed(memory, f"crowd/{number}")
    raw.delete(*turns_keys(few.namespace, "crowd"))
    last = f"crowd/{MOST}"
    state = session_keys(few.namespace, SessionId(last)).state
    raw.hset(state, "published_at", int(raw.hget(state, "published_at")) - int(few.claim_lease * 1000) - 1)
    assert memory.session(last, SMALL).prepare().verdict.compaction == "queued"
    assert published(raw, few) == MOST + 1


def test_a_sweep_publishes_who_waits_for_places_that_nobody_gave_back(
    memory: Compactor, few: Settings, store: Store, raw: Any
) -> None:
    for number in range(MOST + 3):
        crossed(memory, f"crowd/{number}")
    assert memory.drive(TenantTurns(few).sweep()) == 0
    for number in range(2):  # their workers died after the swap
        raw.hset(session_keys(few.namespace, SessionId(f"crowd/{number}")).state, "claim", "idle")
    assert memory.drive(TenantTurns(few).sweep()) == 2
    assert published(raw, few) == MOST + 2
    held, *_ = turns_keys(few.namespace, "crowd")
    for name in raw.zrange(held, 0, -1):  # nobody sent, and the places ran out
        raw.zadd(held, {name: 1})
    assert memory.drive(TenantTurns(few).sweep()) == 1
    assert published(raw, few) == MOST + 3
    assert memory.drive(TenantTurns(few).sweep()) == 0
    assert not store.run(turns.read_crowded(few.namespace)), "nobody waits any more"


def test_a_broker_that_is_down_leaves_no_place_taken(few: Settings, store: Store) -> None:
    nowhere = few.model_copy(update={"broker_url": SecretStr("redis://127.0.0.1:1/0")})
    with Compactor(settings=nowhere) as memory:
        session = memory.session("crowd/1", SMALL)
        session.push(conversation(8))
        assert session.prepare().verdict.compaction == "held(broker_down)"
    assert crowd(store, few, "crowd") == Crowd(0, 0)


def test_the_next_in_turn_goes_back_to_idle_when_the_broker_is_down(
    memory: Compactor, few: Settings, store: Store, raw: Any
) -> None:
    for number in range(MOST + 1):
        crossed(memory, f"crowd/{number}")
    nowhere = few.model_copy(update={"broker_url": SecretStr("redis://127.0.0.1:1/0")})
    with Compactor(settings=nowhere) as cut_off:
        end(cut_off, store, few, "crowd/0")
    assert crowd(store, few, "crowd") == Crowd(MOST - 1, 0)
    assert memory.session(f"crowd/{MOST}", SMALL).prepare().verdict.compaction == "held(broker_down)"


def test_a_broker_that_refuses_one_turn_is_not_asked_for_the_others(
    memory: Compactor, few: Settings, store: Store, raw: Any
) -> None:
    for number in range(2 * MOST):
        crossed(memory, f"crowd/{number}")
    for number in range(MOST):
        raw.hset(session_keys(few.namespace, SessionId(f"crowd/{number}")).state, "claim", "idle")

    class Refusing(Compactor):
        asked = 0

        def _perform(self, effect: Any) -> Any:
            if isinstance(effect, Publish):
                Refusing.asked += 1
                raise DispatchError("no")
            return super()._perform(effect)

    with Refusing(settings=few) as refused:
        assert refused.drive(TenantTurns(few).sweep()) == 0
    assert Refusing.asked == 1
    assert crowd(store, few, "crowd").published == 0
    assert memory.session(f"crowd/{MOST}", SMALL).prepare().verdict.compaction == "held(broker_down)"


@pytest.mark.parametrize("script", ["crowded", "publishing"])
def test_who_waits_is_not_published_as_well_when_the_store_goes_away_after_it_lined_up(
    few: Settings, store: Store, raw: Any, script: str
) -> None:
    class Away(Compactor):
        def _perform(self, effect: Any) -> Any:
            if getattr(getattr(effect, "command", None), "script", None) == script:
                raise StoreUnavailableError("no answer")
            return super()._perform(effect)

    with Compactor(settings=few) as memory:
        for number in range(MOST + 1):
            crossed(memory, f"crowd/{number}")
    held, *_ = turns_keys(few.namespace, "crowd")
    raw.zadd(held, {"crowd/0": 1})  # a place runs out: the next to line up has another's turn in hand
    with Away(settings=few) as cut_off:
        crossed(cut_off, "crowd/last")
    assert published(raw, few) == MOST
    assert store.run(turns.is_waiting(few.namespace, SessionId("crowd/last")))


def test_a_crossing_costs_one_round_trip_more_and_the_sends_around_it_none(
    few: Settings, own_server: EmbeddedServer
) -> None:
    settings = few.model_copy(update={"redis_url": SecretStr(own_server.url), "namespace": f"t{uuid.uuid4().hex[:12]}"})

    class Counted(Compactor):
        ran: ClassVar[list[str | None]] = []

        def _perform(self, effect: Any) -> Any:
            if command := getattr(effect, "command", None):
                self.ran.append(command.script)
            return super()._perform(effect)

    with Counted(settings=settings) as memory:
        session = memory.session("crowd/1", SMALL)
        session.push(conversation(8))
        Counted.ran.clear()
        for _ in range(3):
            session.prepare()
    assert Counted.ran == ["prepare", "turns", "prepare", "prepare"]
