"""A session of which Redis lost a part: typed, counted, never taken for another, healed by a caller's own list."""

from __future__ import annotations

from typing import Any

import pytest

from compactor import Fit, RecallExpiredError, SessionEvictedError
from compactor.commands.counters import read_counters
from compactor.settings import Settings
from tests.integration.clients import Client, Connect, StoreClient
from tests.integration.conversations import ROOMY, SMALL, assistant, conversation, step, user
from tests.integration.inline_worker import InlineWorker
from tests.integration.stored import keys_of

TALK = conversation(2)[1:]
PARTS = ("state", "messages")


def lose(raw: Any, settings: Settings, session: str, part: str) -> None:
    raw.delete(getattr(keys_of(settings, session), part))


@pytest.fixture(params=PARTS)
def part(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_a_session_fed_by_push_says_that_it_was_evicted(
    connect: Connect, settings: Settings, raw: Any, part: str
) -> None:
    name = f"evicted/push-{part}"
    held, fresh = (connect(settings).session(name, ROOMY) for _ in range(2))
    held.push(TALK)
    held.prepare()
    lose(raw, settings, name, part)
    with pytest.raises(SessionEvictedError):
        held.push(user("more"))
    with pytest.raises(SessionEvictedError):
        fresh.prepare()
    context = held.prepare()
    assert context.messages == TALK
    assert context.verdict.fit is Fit.DEGRADED
    assert "evicted" in context.verdict.problems


def test_a_callers_own_list_heals_it_in_the_same_send(
    memory: Client, settings: Settings, raw: Any, store: StoreClient, part: str
) -> None:
    name = f"evicted/list-{part}"
    session = memory.session(name, ROOMY)
    session.prepare(TALK)
    lose(raw, settings, name, part)
    context = session.prepare([*TALK, user("And?")])
    assert context.messages == [*TALK, user("And?")]
    assert context.verdict.fit is Fit.FITS
    assert context.verdict.problems == ("evicted",)
    assert session.originals() == [*TALK, user("And?")]
    assert store.run(read_counters(settings.namespace))["evicted"] == 1
    assert session.prepare([*TALK, user("And?")]).verdict.problems == ()


def test_a_process_that_knows_nothing_heals_it_too(connect: Connect, settings: Settings, raw: Any, part: str) -> None:
    name = f"evicted/cold-{part}"
    connect(settings).session(name, ROOMY).prepare(TALK)
    lose(raw, settings, name, part)
    assert connect(settings).session(name, ROOMY).sync([*TALK, user("And?")]).length == len(TALK) + 1
    assert connect(settings).session(name, ROOMY).prepare().messages == [*TALK, user("And?")]


def test_what_is_left_of_it_stays_recallable(memory: Client, settings: Settings, raw: Any) -> None:
    session = memory.session("evicted/left", ROOMY)
    session.push([user("only here"), *TALK])
    lose(raw, settings, "evicted/left", "state")
    session.prepare(TALK)
    assert session.recall("m0") == user("only here")


def test_its_positions_do_not_come_again(memory: Client, settings: Settings, raw: Any) -> None:
    session = memory.session("evicted/positions", ROOMY)
    session.prepare(TALK)
    lose(raw, settings, "evicted/positions", "messages")
    assert session.sync(TALK).positions[0] == len(TALK)
    assert session.status().length == len(TALK)


def test_its_positions_do_not_come_again_after_a_clear_either(memory: Client, settings: Settings, raw: Any) -> None:
    session = memory.session("evicted/cleared", ROOMY)
    session.push([user("a"), user("b"), user("c")])
    session.clear()
    session.prepare(TALK)
    lose(raw, settings, "evicted/cleared", "state")
    session.prepare(TALK)
    with pytest.raises(RecallExpiredError):
        session.recall("m0")


def test_replaced_messages_come_back_as_the_list_has_them(
    memory: Client, settings: Settings, raw: Any, worker: InlineWorker, part: str
) -> None:
    name, talk = f"evicted/replaced-{part}", conversation(9)[1:]
    session = memory.session(name, SMALL)
    session.prepare(talk)
    worker.work(name)
    lose(raw, settings, name, part)
    session.prepare(talk)
    assert session.originals() == talk
    assert session.status().archived == 0


def test_two_processes_that_heal_at_once_store_the_list_once(
    connect: Connect, settings: Settings, raw: Any, part: str
) -> None:
    name = f"evicted/both-{part}"
    one, other = (connect(settings).session(name, ROOMY) for _ in range(2))
    one.prepare(TALK)
    other.prepare(TALK)
    lose(raw, settings, name, part)
    one.prepare(TALK)
    other.prepare([*TALK, user("And?")])
    one.prepare([*TALK, user("And?"), *step(5)])
    assert other.originals() == [*TALK, user("And?"), *step(5)]


def test_a_worker_that_meets_it_changes_nothing(
    memory: Client, settings: Settings, raw: Any, worker: InlineWorker, part: str
) -> None:
    name, talk = f"evicted/worker-{part}", conversation(9)[1:]
    session = memory.session(name, SMALL)
    session.prepare(talk)
    lose(raw, settings, name, part)
    owner = worker.owner(name)
    try:
        outcome = worker.work(name, owner=owner).outcome
    except SessionEvictedError:
        outcome = None
    assert outcome is None or not outcome.items
    assert session.prepare([*talk, assistant("Done.")]).verdict.problems == ("evicted",)
    assert session.originals() == [*talk, assistant("Done.")]


def test_a_session_of_which_only_the_rest_is_left_is_not_taken_for_a_new_one(
    memory: Client, settings: Settings, raw: Any
) -> None:
    session = memory.session("evicted/rest", ROOMY)
    session.push(user("keyed"), idempotency_key="k1")
    lose(raw, settings, "evicted/rest", "state")
    lose(raw, settings, "evicted/rest", "messages")
    with pytest.raises(SessionEvictedError):
        session.push(user("keyed"), idempotency_key="k1")
    seen = session.prepare(TALK)
    assert seen.verdict.problems == ("evicted",)
    assert session.originals() == TALK
    session.push(user("keyed"), idempotency_key="k1")
    assert session.originals() == [*TALK, user("keyed")], "what the operation stored is gone, so its repeat is stored"
