"""Redis or the broker away: prepare goes on, push raises and can be repeated, nothing is lost or stored twice."""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Callable, Generator

import pytest

from compactor import Fit, SessionDamagedError, StoreUnavailableError
from compactor.embedded import EmbeddedServer
from compactor.settings import Settings
from tests.integration.clients import Connect
from tests.integration.conversations import ROOMY, SMALL, conversation, recount, user
from tests.integration.stored import bare, keys_of


@contextlib.contextmanager
def hanging(server: EmbeddedServer) -> Generator[None]:
    """The server takes connections and answers nothing."""
    server.child.process.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        server.child.process.send_signal(signal.SIGCONT)


@contextlib.contextmanager
def stopped(server: EmbeddedServer) -> Generator[None]:
    """The server is gone, then back with its data."""
    server.child.kill()
    try:
        yield
    finally:
        server.restart()


def seconds(call: Callable[[], object]) -> float:
    started = time.monotonic()
    call()
    return time.monotonic() - started


def test_prepare_hands_out_what_this_process_holds_while_the_server_is_gone(
    connect: Connect, own_server: EmbeddedServer, own_settings: Settings
) -> None:
    session = connect(own_settings).session("outage/held", ROOMY)
    session.push(conversation(2))
    session.prepare()
    with stopped(own_server):
        context = session.prepare(system="You are kind.")
        assert context.verdict.fit is Fit.DEGRADED
        assert context.verdict.compaction == "held(store_unavailable)"
        assert context.messages == [{"role": "system", "content": "You are kind."}, *conversation(2)]
        assert seconds(session.prepare) < 1
    assert session.prepare().verdict.fit is Fit.FITS


def test_a_degraded_list_fits_its_budget(connect: Connect, own_server: EmbeddedServer, own_settings: Settings) -> None:
    session = connect(own_settings).session("outage/over", SMALL)
    session.push([*conversation(12), user("And now?")])
    session.prepare()
    with stopped(own_server):
        context = session.prepare()
    assert context.verdict.fit is Fit.DEGRADED
    assert recount(context.messages) + 3 == context.verdict.sent <= context.verdict.ceiling
    assert context.messages[-1] == user("And now?")


def test_prepare_raises_when_this_process_holds_nothing(
    connect: Connect, own_server: EmbeddedServer, own_settings: Settings
) -> None:
    connect(own_settings).session("outage/nothing", ROOMY).push(user("hello"))
    session = connect(own_settings).session("outage/nothing", ROOMY)
    with stopped(own_server), pytest.raises(StoreUnavailableError, match="repeated safely"):
        session.prepare()
    assert session.prepare().messages == [user("hello")]


def test_a_conversation_that_was_cleared_does_not_come_back_while_the_server_is_gone(
    connect: Connect, own_server: EmbeddedServer, own_settings: Settings
) -> None:
    session = connect(own_settings).session("outage/cleared", ROOMY)
    session.push(user("a private matter"))
    session.prepare()
    session.clear()
    with stopped(own_server):
        try:
            messages = session.prepare().messages
        except StoreUnavailableError:
            messages = []
    assert messages == []


def test_a_session_seen_expired_does_not_come_back_while_the_server_is_gone(
    connect: Connect, own_server: EmbeddedServer, own_settings: Settings
) -> None:
    session = connect(own_settings).session("outage/expired", ROOMY)
    session.push(user("a private matter"))
    session.prepare()
    with bare(own_server) as client:
        client.delete(*keys_of(own_settings, "outage/expired").all)
    assert session.prepare().messages == []
    with stopped(own_server):
        try:
            messages = session.prepare().messages
        except StoreUnavailableError:
            messages = []
    assert messages == []


def test_a_server_that_hangs_costs_a_send_its_time_limits_and_no_more(
    connect: Connect, own_server: EmbeddedServer, own_settings: Settings
) -> None:
    quick = own_settings.model_copy(update={"read_timeout": 0.2})
    session = connect(quick).session("outage/hangs", ROOMY)
    session.push(conversation(1))
    session.prepare()
    with hanging(own_server):
        started = time.monotonic()
        assert session.prepare().verdict.fit is Fit.DEGRADED
        assert time.monotonic() - started < 1.2
        with pytest.raises(StoreUnavailableError):
            session.push(user("hello"))
    assert session.push(user("hello")).length == 6
    assert session.originals() == [*conversation(1), user("hello")]


def test_a_push_raises_while_the_server_is_gone_and_is_stored_once_when_repeated(
    connect: Connect, own_server: EmbeddedServer, own_settings: Settings
) -> None:
    session = connect(own_settings).session("outage/push", ROOMY)
    session.push(user("before"))
    with stopped(own_server):
        for _ in range(3):
            with pytest.raises(StoreUnavailableError):
                session.push(user("hello"))
    assert session.push(user("hello")).length == 2
    assert session.originals() == [user("before"), user("hello")]


@pytest.mark.parametrize("what", ["estimate", "compact", "originals", "compactions", "status", "clear", "recall"])
def test_every_other_call_raises_while_the_server_is_gone(
    connect: Connect, own_server: EmbeddedServer, own_settings: Settings, what: str
) -> None:
    session = connect(own_settings).session("outage/calls", ROOMY)
    session.push(user("hello"))
    session.prepare()
    call: Callable[..., object] = getattr(session, what)
    arguments = ("m0",) if what == "recall" else ()
    with stopped(own_server), pytest.raises(StoreUnavailableError):
        call(*arguments)
    assert session.originals() == [user("hello")]


def test_a_server_out_of_memory_refuses_the_push_whole_and_takes_it_later(
    connect: Connect, own_server: EmbeddedServer, own_settings: Settings
) -> None:
    session = connect(own_settings).session("outage/memory", ROOMY)
    session.push(user("before"))
    with bare(own_server) as client:
        client.config_set("maxmemory", 1)
        with pytest.raises(StoreUnavailableError, match="nothing was changed"):
            session.push([user("a"), user("b")])
        client.config_set("maxmemory", 0)
    assert session.status().length == 1
    assert session.push([user("a"), user("b")]).length == 3
    assert session.estimate().total == recount([user("before"), user("a"), user("b")]) + 3


def test_the_error_of_a_server_out_of_memory_says_so(
    connect: Connect, own_server: EmbeddedServer, own_settings: Settings
) -> None:
    session = connect(own_settings).session("outage/memory-text", ROOMY)
    with bare(own_server) as client:
        client.config_set("maxmemory", 1)
        with pytest.raises(StoreUnavailableError, match="OutOfMemory"):
            session.push(user("a"))


def test_a_session_whose_messages_were_evicted_is_damaged_not_empty(
    connect: Connect, own_server: EmbeddedServer, own_settings: Settings
) -> None:
    held, fresh = (connect(own_settings).session("outage/evicted", ROOMY) for _ in range(2))
    held.push(conversation(1))
    held.prepare()
    with bare(own_server) as client:
        client.delete(keys_of(own_settings, "outage/evicted").messages)
        with pytest.raises(SessionDamagedError, match="evicted"):
            held.push(user("more"))
        assert not client.exists(keys_of(own_settings, "outage/evicted").messages)
    assert held.prepare().verdict.fit is Fit.DEGRADED
    assert held.prepare().messages == conversation(1)
    with pytest.raises(SessionDamagedError):
        fresh.prepare()
    with pytest.raises(SessionDamagedError):
        fresh.originals()
    fresh.clear()
    assert fresh.push(user("new")).length == 1
    assert held.prepare().messages == [user("new")]
