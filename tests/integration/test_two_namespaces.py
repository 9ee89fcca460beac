"""Figures that span the sessions of a namespace never reach another, though one's name begins the other's."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from compactor.commands import counters, dead, sessions, tenants
from compactor.dead_list import dead_sessions
from compactor.models import SessionId
from compactor.settings import Settings
from tests.integration.clients import Connect, StoreClient
from tests.integration.conversations import SMALL, conversation, user
from tests.integration.driving import answered
from tests.integration.stored import keys_of

NAME = SessionId("ns/same")


@pytest.fixture(params=["{0}-blue", "{0}.", "x{0}", "tenant"])
def other(request: pytest.FixtureRequest, settings: Settings, raw: Any) -> Iterator[Settings]:
    """A namespace whose name is like the first one's."""
    namespace = str(request.param).format(settings.namespace)
    yield settings.model_copy(update={"namespace": namespace})
    for key in raw.scan_iter(match=f"{{{namespace}[:}}]*"):
        raw.delete(key)


def listed(settings: Settings, store: StoreClient) -> list[SessionId]:
    flow = dead_sessions(settings.namespace, max_attempts=settings.max_attempts)
    return [each.session for each in answered(flow, store)]


def test_a_dead_session_is_dead_in_its_own_namespace(
    connect: Connect, settings: Settings, other: Settings, store: StoreClient, raw: Any
) -> None:
    for each in (settings, other):
        connect(each).session(NAME, SMALL).push(user("hi"))
    raw.hset(keys_of(settings, NAME).state, "attempts", settings.max_attempts)
    store.run(dead.add(settings.namespace, NAME))
    assert listed(other, store) == []
    assert listed(settings, store) == [NAME]


def test_a_listing_finds_the_sessions_of_its_own_namespace(
    connect: Connect, settings: Settings, other: Settings, store: StoreClient
) -> None:
    connect(settings).session("ns/green", SMALL).push(user("hi"))
    connect(other).session("ns/blue", SMALL).push(user("hi"))
    assert (all_sessions(settings, store), all_sessions(other, store)) == (["ns/green"], ["ns/blue"])


def all_sessions(settings: Settings, store: StoreClient) -> list[SessionId]:
    found: set[SessionId] = set()
    cursor = 0
    while True:
        page = store.run(sessions.read_page(settings.namespace, cursor))
        found.update(page.sessions)
        cursor = page.cursor
        if not cursor:
            return sorted(found)


def test_counters_and_tenants_are_apart(settings: Settings, other: Settings, store: StoreClient) -> None:
    store.run(counters.add(settings.namespace, counters.EVICTED))
    store.run(tenants.report(settings.namespace, NAME, 100, life_ms=60_000))
    assert store.run(counters.read_counters(other.namespace)) == {}
    assert store.run(tenants.read_total(other.namespace, "ns")) == 0
    assert store.run(counters.read_counters(settings.namespace)) == {counters.EVICTED: 1}
    assert store.run(tenants.read_total(settings.namespace, "ns")) == 100


def test_new_attempts_are_given_in_one_namespace(
    connect: Connect, settings: Settings, other: Settings, store: StoreClient, raw: Any
) -> None:
    for each in (settings, other):
        session = connect(each).session(NAME, SMALL)
        session.push(conversation(9))
        raw.hset(keys_of(each, NAME).state, "attempts", each.max_attempts)
    assert store.run(dead.revive(keys_of(settings, NAME))) == "revived"
    assert connect(other).session(NAME, SMALL).prepare().verdict.compaction == "held(dead)"
    assert connect(settings).session(NAME, SMALL).prepare().verdict.compaction == "queued"
