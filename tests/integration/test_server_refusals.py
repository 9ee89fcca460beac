"""A server that refuses: sends go on with what is held, pushes raise and are stored once when repeated."""

from __future__ import annotations

import contextlib
import threading
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TypeVar

import pytest

from compactor import Code, Compactor, Fit, StoreUnavailableError
from compactor.commands.command import Command
from compactor.embedded import EmbeddedServer
from compactor.settings import Settings, read_settings
from compactor.store import Store
from tests.integration.clients import Connect, SessionClient
from tests.integration.conversations import ROOMY, SMALL, conversation, recount, step, user
from tests.integration.inline_worker import InlineWorker
from tests.integration.refusals import OPTIONS, REFUSALS
from tests.integration.snapshot import everything
from tests.integration.stored import bare, keys_of

T = TypeVar("T")
NAMED = [
    ("READONLY", "ReadOnly"),
    ("OOM", "OutOfMemory"),
    ("LOADING", "BusyLoading"),
    *((word, word) for word in ("NOREPLICAS", "MISCONF", "BUSY")),
]
STILL_READS = ("READONLY", "OOM", "NOREPLICAS", "MISCONF")


@pytest.fixture(scope="module")
def refusing() -> Iterator[EmbeddedServer]:
    """A server that these tests may make refuse."""
    with EmbeddedServer(extra=OPTIONS) as running:
        yield running


@pytest.fixture
def settings(refusing: EmbeddedServer) -> Settings:
    return read_settings(redis_url=refusing.url, namespace=f"t{uuid.uuid4().hex[:12]}")


def seen(server: EmbeddedServer, settings: Settings, session: str) -> dict[str, object]:
    """Each key of a session as it is stored."""
    with bare(server) as client:
        return everything(client, settings, session)


@pytest.mark.parametrize("word", REFUSALS)
def test_a_push_raises_stores_nothing_and_is_stored_once_when_repeated(
    connect: Connect, settings: Settings, refusing: EmbeddedServer, word: str
) -> None:
    session = connect(settings).session("refused/push", ROOMY)
    session.push(conversation(1))
    before = seen(refusing, settings, "refused/push")
    with REFUSALS[word](refusing):
        for _ in range(2):
            with pytest.raises(StoreUnavailableError, match=r"nothing was changed|repeated safely"):
                session.push(step(7))
    assert seen(refusing, settings, "refused/push") == before
    assert session.push(step(7)).positions == (5, 6)
    assert session.originals() == [*conversation(1), *step(7)]
    assert session.estimate().total == recount(session.originals()) + 3


@pytest.mark.parametrize("word", REFUSALS)
def test_a_send_goes_on_with_what_this_process_holds_and_queues_when_it_is_over(
    connect: Connect, settings: Settings, refusing: EmbeddedServer, word: str
) -> None:
    session = connect(settings).session("refused/send", SMALL)
    session.push(conversation(5))
    session.prepare()
    other = connect(settings).session("refused/send", SMALL)
    other.push(asked := [message for order in range(5, 9) for message in step(order)])
    before = seen(refusing, settings, "refused/send")
    with REFUSALS[word](refusing):
        context = session.prepare()
        assert context.verdict.fit is Fit.DEGRADED
        assert context.verdict.compaction == "held(store_unavailable)"
        assert context.messages == conversation(5)
    assert seen(refusing, settings, "refused/send") == before
    assert session.prepare().verdict.compaction == "queued"
    assert session.originals() == [*conversation(5), *asked]


# Out of memory it is let in, since it frees some; a server that loads refuses whatever is asked, as a push shows.
@pytest.mark.parametrize("word", [word for word in REFUSALS if word not in ("OOM", "LOADING")])
def test_a_clear_raises_ends_nothing_and_keeps_the_conversation_recallable_when_repeated(
    connect: Connect, settings: Settings, refusing: EmbeddedServer, word: str
) -> None:
    session = connect(settings).session("refused/clear", ROOMY)
    session.push(conversation(1))
    before = seen(refusing, settings, "refused/clear")
    with REFUSALS[word](refusing), pytest.raises(StoreUnavailableError):
        session.clear()
    assert seen(refusing, settings, "refused/clear") == before
    assert session.clear() == 5
    assert session.recall("m3") == conversation(1)[3]


@pytest.mark.parametrize("word", STILL_READS)
def test_reading_goes_on_while_writing_is_refused(
    connect: Connect, settings: Settings, refusing: EmbeddedServer, word: str
) -> None:
    session = connect(settings).session("refused/reads", ROOMY)
    session.push(conversation(1))
    with REFUSALS[word](refusing):
        assert session.originals() == conversation(1)
        assert session.estimate().total == recount(conversation(1)) + 3
        assert session.status().length == 5
        assert session.compactions() == []
        assert session.recall("m3") == conversation(1)[3]


@pytest.mark.parametrize(("word", "named"), NAMED)
def test_the_error_names_what_the_server_said(
    connect: Connect, settings: Settings, refusing: EmbeddedServer, word: str, named: str
) -> None:
    session = connect(settings).session("refused/word", ROOMY)
    with REFUSALS[word](refusing), pytest.raises(StoreUnavailableError, match=named) as caught:
        session.push(user("a private matter"))
    assert "private" not in str(caught.value)


@dataclass
class Refused:
    """A store whose server begins to refuse right before the first call of one script, and stops after it."""

    inner: Store
    server: EmbeddedServer
    word: str
    script: str

    def run(self, command: Command[T]) -> T:
        if command.script != self.script:
            return self.inner.run(command)
        self.script = ""
        with REFUSALS[self.word](self.server):
            return self.inner.run(command)


@pytest.mark.parametrize("word", ["READONLY", "OOM", "MISCONF", "BUSY"])
@pytest.mark.parametrize("script", ["begin", "archive", "swap"])
def test_a_worker_that_is_refused_leaves_the_history_and_the_run_after_it_compacts_once(
    settings: Settings, refusing: EmbeddedServer, script: str, word: str
) -> None:
    with Compactor(settings=settings) as memory, Store(settings) as store, bare(refusing) as raw:
        session = memory.session("refused/worker", SMALL)
        session.push(conversation(8))
        session.prepare()
        worker = InlineWorker(settings, store)
        worker.tools = replace(worker.tools, runner=Refused(store, refusing, word, script))
        before = raw.lrange(keys_of(settings, "refused/worker").messages, 0, -1)
        with pytest.raises(StoreUnavailableError):
            worker.work("refused/worker")
        assert raw.lrange(keys_of(settings, "refused/worker").messages, 0, -1) == before
        raw.hset(keys_of(settings, "refused/worker").state, "until", 0)  # the lease is over
        session.prepare()
        assert worker.work("refused/worker").outcome.outcome is Code.APPLIED
        assert len(session.compactions()) == 1
        assert session.originals() == conversation(8)
        assert session.status().archived == session.prepare().replaced


def test_memory_that_runs_out_between_pushes_leaves_each_push_whole_or_unstored(
    connect: Connect, settings: Settings, refusing: EmbeddedServer
) -> None:
    """Each push writes its messages in several portions."""
    session = connect(settings).session("refused/portions", ROOMY)
    batch = [user("x" * 200) for _ in range(2_500)]
    session.push(batch)
    refused = 0
    with bare(refusing) as raw:
        raw.config_set("maxmemory", raw.info("memory")["used_memory"] + 3_000_000)
        stored = 1
        while not refused:
            try:
                session.push(batch)
                stored += 1
            except StoreUnavailableError:
                refused += 1
        assert raw.llen(keys_of(settings, "refused/portions").messages) == stored * len(batch)
        raw.config_set("maxmemory", 0)
    assert session.status().length == stored * len(batch)
    assert session.push(batch).length == (stored + 1) * len(batch)


def test_scripts_that_are_forgotten_again_and_again_store_nothing_twice(
    connect: Connect, settings: Settings, refusing: EmbeddedServer
) -> None:
    """Also between loading a script and calling it: then the call raises, and is repeated."""
    session = connect(settings).session("refused/forgotten", ROOMY)
    over = threading.Event()

    def forgetting() -> None:
        with bare(refusing) as client:
            while not over.is_set():
                client.script_flush()

    thread = threading.Thread(target=forgetting)
    thread.start()
    try:
        for order in range(30):
            push_until_it_is_stored(session, order)
    finally:
        over.set()
        thread.join()
    assert session.originals() == [user(f"number {order}") for order in range(30)]


def push_until_it_is_stored(session: SessionClient, order: int) -> None:
    while True:
        with contextlib.suppress(StoreUnavailableError):
            session.push(user(f"number {order}"))
            return
