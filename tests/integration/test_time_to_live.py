"""One life for all keys of a session: set by push and prepare, kept by everything else."""

from __future__ import annotations

from typing import Any

from compactor.settings import Settings
from tests.integration.clients import Client, Connect, SessionClient
from tests.integration.conversations import SMALL, conversation, step, user
from tests.integration.inline_worker import InlineWorker
from tests.integration.stored import expiries, keys_of, set_life

MONTH = 30 * 86_400


def lived_in(session: SessionClient, worker: InlineWorker, name: str) -> None:
    """A session with every key it can have: replaced messages, audit, a cleared conversation."""
    session.push(conversation(8))
    session.prepare()
    worker.work(name)
    session.clear()
    session.push([message for order in range(9) for message in step(order)])
    session.push(user("and?"))
    session.prepare()
    worker.work(name)


def test_every_key_of_a_session_expires_at_one_moment(
    memory: Client, settings: Settings, worker: InlineWorker, raw: Any
) -> None:
    session = memory.session("ttl/all", SMALL)
    lived_in(session, worker, "ttl/all")
    found = expiries(raw, settings, "ttl/all")
    assert found.keys() == set(keys_of(settings, "ttl/all").all)
    assert len(set(found.values())) == 1
    assert MONTH - 60 < session.status().expires_in <= MONTH


def test_a_first_push_gives_each_key_a_life(memory: Client, settings: Settings, raw: Any) -> None:
    memory.session("ttl/first", SMALL).push(user("hello"))
    found = expiries(raw, settings, "ttl/first")
    assert len(found) == 3
    assert min(found.values()) > 0


def test_push_and_prepare_renew_the_life_reading_does_not(
    memory: Client, settings: Settings, worker: InlineWorker, raw: Any
) -> None:
    session = memory.session("ttl/renew", SMALL)
    lived_in(session, worker, "ttl/renew")
    for renew in (lambda: session.push(user("x")), session.prepare):
        set_life(raw, settings, "ttl/renew", 3_600)
        session.estimate()
        session.originals()
        session.recall("m3")
        session.status()
        assert session.status().expires_in < 3_601
        renew()
        assert session.status().expires_in > MONTH - 60
        assert len(set(expiries(raw, settings, "ttl/renew").values())) == 1


def test_clear_keeps_the_life(memory: Client, settings: Settings, worker: InlineWorker, raw: Any) -> None:
    session = memory.session("ttl/clear", SMALL)
    lived_in(session, worker, "ttl/clear")
    set_life(raw, settings, "ttl/clear", 3_600)
    session.clear()
    found = expiries(raw, settings, "ttl/clear")
    assert len(set(found.values())) == 1
    assert 3_500 < session.status().expires_in < 3_601


def test_a_session_ends_with_its_life_and_begins_anew(connect: Connect, settings: Settings, raw: Any) -> None:
    memory = connect(settings.model_copy(update={"session_ttl": 0.05}))
    session = memory.session("ttl/end", SMALL)
    session.push(user("old"), idempotency_key="k")
    while session.status().exists:
        pass
    assert expiries(raw, settings, "ttl/end") == {}
    assert session.prepare().messages == []
    session.push(user("new"), idempotency_key="k")
    assert session.originals() == [user("new")]
