"""The connection is cut in the middle of each command: it was carried out once or not at all, and can be repeated."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import product
from typing import Any

import pytest

from compactor import Code, Compactor, Outcome, Session, StoreUnavailableError
from compactor.commands.command import Command
from compactor.compaction import Ended
from compactor.embedded import EmbeddedServer
from compactor.settings import Settings
from compactor.store import SCRIPTS, Store
from tests.integration.clients import Client, Connect, StoreClient, open_store
from tests.integration.commands_sent import CASES, rate_limited, script_of
from tests.integration.conversations import ROOMY, SMALL, call, conversation, recount, result, step, user
from tests.integration.gate import Fault, Gate, Place
from tests.integration.inline_worker import InlineWorker
from tests.integration.lossy_proxy import script_mark
from tests.integration.snapshot import Backup, whole_namespace
from tests.integration.stage import NAME, Stage
from tests.integration.stored import keys_of, published

PLACES: tuple[Place, ...] = ("request", "half", "reply")
ONCE, TWICE = 1, 2  # the first is hidden by the client's own repeat, after the second the call raises
COPY = f"{NAME}-copy"


@pytest.fixture(autouse=True)
def _warm(raw: Any) -> None:
    """The server knows every script, so that each call is one command."""
    for text in SCRIPTS.values():
        raw.script_load(text)


@pytest.fixture
def gate(server: EmbeddedServer) -> Iterator[Gate]:
    with Gate(server.port) as standing:
        yield standing


@pytest.fixture
def through_gate(settings: Settings, gate: Gate) -> Settings:
    """The same namespace behind the gate; the broker is reached past it."""
    urls = {"redis_url": type(settings.redis_url)(gate.url), "broker_url": settings.redis_url}
    return settings.model_copy(update=urls)


@pytest.fixture
def far_store(kind: str, through_gate: Settings) -> Iterator[StoreClient]:
    opened = open_store(kind, through_gate)
    yield opened
    opened.close()


def cut(gate: Gate, script: str, place: Place, times: int) -> Fault:
    """Cuts the connection at the next calls of a script."""
    return gate.add(Fault((script_mark(script),), place, "cut", times))


def stored(raw: Any, settings: Settings) -> list[object]:
    """All that is stored in the namespace, and which version the session has."""
    return [whole_namespace(raw, settings), raw.hmget(keys_of(settings, NAME).state, "revision", "version")]


def test_every_script_has_a_case() -> None:
    assert set(map(script_of, CASES)) == set(SCRIPTS)


@pytest.mark.parametrize("name", list(CASES))
def test_a_command_cut_in_the_middle_is_carried_out_once_or_not_at_all(
    settings: Settings, gate: Gate, far_store: StoreClient, raw: Any, name: str
) -> None:
    case, script = CASES[name], script_of(name)
    with contextlib.closing(Stage(settings, script)) as stage:
        command: Command[Any] = case.sent(stage)
        backup, before = Backup(raw, settings), stored(raw, settings)
        assert case.told(stage.store.run(command)) == case.first
        after = stored(raw, settings)
    assert (after == before) is case.reads, "the command changes what is stored, unless it only reads"
    for place, times in product(PLACES, (ONCE, TWICE)):
        if case.counts and place == "reply":
            continue  # a repeat counts once more
        backup.put_back()
        fault = cut(gate, script, place, times)
        if times == TWICE:
            with pytest.raises(StoreUnavailableError, match="repeated safely"):
                far_store.run(command)
            assert stored(raw, settings) == (after if place == "reply" else before)
        assert case.told(far_store.run(command)) == (case.again if place == "reply" else case.first)
        assert fault.seen == times
        assert stored(raw, settings) == after


def worked_off(worker: InlineWorker, raw: Any, settings: Settings) -> list[Ended]:
    """The task as its worker runs it: again after an error of the store, again when its lease is over."""
    owner, ended = worker.owner(NAME), list[Ended]()
    for _ in range(settings.max_attempts):
        with contextlib.suppress(StoreUnavailableError):
            ended.append(worker.work(NAME, owner=owner))
            if ended[-1].retry_in is None:
                return ended
        raw.hset(keys_of(settings, NAME).state, "until", 0)
    raise AssertionError(f"came to no end: {ended}")


@pytest.mark.parametrize("times", [ONCE, TWICE])
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("script", ["begin", "archive", "swap"])
def test_a_run_whose_commands_are_cut_compacts_the_session_once(
    memory: Client,
    settings: Settings,
    gate: Gate,
    far_store: StoreClient,
    raw: Any,
    script: str,
    place: Place,
    times: int,
) -> None:
    session = memory.session(NAME, SMALL)
    session.push(conversation(8))
    session.prepare()
    cut(gate, script, place, times)
    worked_off(InlineWorker(settings, far_store), raw, settings)
    (applied,) = session.compactions()
    assert applied.outcome is Code.APPLIED
    assert session.originals() == conversation(8)
    assert session.prepare().replaced == applied.items == session.status().archived
    assert session.estimate().total == recount(session.prepare().messages) + 3
    assert session.status().claim == "idle"


EARLIER, LATER = ([message for order in range(8) for message in step(first + order)] for first in (0, 20))
DIED_IN = call(99)


def two_compactions(session: Session, worker: InlineWorker) -> list[Outcome]:
    """A conversation that was compacted twice, and whose bot died in a call."""
    for messages in (EARLIER, LATER):
        session.push(messages)
        assert session.prepare().verdict.compaction == "queued"
        worker.work(NAME)
    session.push(DIED_IN)
    return session.compactions()


def seen(session: Session, copy: Session) -> list[object]:
    """What a bot can see of a session and of its copy, ids and times left out."""
    status = session.status()
    return [
        session.prepare().messages,
        session.originals(),
        copy.originals(),
        (status.length, status.archived, status.stored_bytes, status.totals),
        [(outcome.outcome, outcome.positions) for outcome in session.compactions()],
    ]


REPEATED: dict[str, tuple[str, Callable[[Session, str], object]]] = {
    "push": ("push", lambda session, _: session.push([user("hello"), user("there")])),
    "sync": ("sync", lambda session, _: session.sync([*EARLIER, *LATER, DIED_IN, result(99, "found")])),
    "undo": ("restore", lambda session, _: session.undo()),
    "undo-by-id": ("restore", lambda session, last: session.undo(last)),
    "release": ("unkeep", lambda session, last: session.release(last)),
    "rewind": ("sync", lambda session, _: session.rewind("m20")),
    "fork": ("fork", lambda session, _: session.fork(COPY)),
    "close": ("push", lambda session, _: session.close_open_calls()),
    "clear": ("clear", lambda session, _: session.clear()),
    "erase": ("clear", lambda session, _: session.erase()),
}


@pytest.mark.parametrize("what", list(REPEATED))
def test_a_call_that_raised_though_it_was_carried_out_does_the_same_once_when_repeated(
    settings: Settings, through_gate: Settings, gate: Gate, raw: Any, what: str
) -> None:
    script, call_on = REPEATED[what]
    with Compactor(settings=settings) as memory, Store(settings) as store:
        session = memory.session(NAME, SMALL)
        last = two_compactions(memory.session(NAME, SMALL), InlineWorker(settings, store))[-1].id
        if what == "release":
            session.undo(last)
        backup = Backup(raw, settings)
        call_on(session, last)
        once = seen(session, memory.session(COPY, SMALL))
        backup.put_back()
    with Compactor(settings=through_gate) as memory:
        session = memory.session(NAME, SMALL)
        fault = cut(gate, script, "reply", TWICE)
        with pytest.raises(StoreUnavailableError, match="repeated safely"):
            call_on(session, last)
        assert fault.seen == TWICE
        call_on(session, last)
        assert seen(session, memory.session(COPY, SMALL)) == once


def test_a_cleared_conversation_is_recallable_though_the_clear_had_to_be_repeated(
    connect: Connect, through_gate: Settings, gate: Gate
) -> None:
    session = connect(through_gate).session(NAME, ROOMY)
    session.push([user("first"), user("second")])
    cut(gate, "clear", "reply", TWICE)
    with pytest.raises(StoreUnavailableError, match="repeated safely"):
        session.clear()
    assert session.clear() == 2
    assert session.recall("m1") == user("second")


def test_a_compaction_asked_for_by_a_call_that_raised_is_published_when_repeated(
    connect: Connect, through_gate: Settings, gate: Gate, raw: Any
) -> None:
    session = connect(through_gate).session(NAME, SMALL)
    session.push(conversation(8))
    cut(gate, "prepare", "reply", TWICE)
    with pytest.raises(StoreUnavailableError, match="repeated safely"):
        session.compact()
    assert published(raw, through_gate) == 0
    assert session.compact().outcome is Code.QUEUED
    assert published(raw, through_gate) == 1


@pytest.mark.parametrize("place", ["request", "reply"])
def test_a_retry_whose_reply_is_lost_is_published_all_the_same(
    memory: Client, settings: Settings, gate: Gate, far_store: StoreClient, place: Place
) -> None:
    session = memory.session(NAME, SMALL)
    session.push(conversation(7))
    session.prepare()
    cut(gate, "retry", place, ONCE)
    worker = InlineWorker(settings, far_store)
    worker.tools = replace(worker.tools, summarize=rate_limited)
    assert worker.work(NAME).retry_in == 7.5
    assert session.status().claim == "queued"
