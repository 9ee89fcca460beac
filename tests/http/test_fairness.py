"""What one tenant may take of the process: few large calls at once, and answers that it reads."""

from __future__ import annotations

import asyncio
import socket
import time
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from itertools import cycle
from typing import Any

import pytest

from compactor.embedded import EmbeddedServer, free_port
from compactor.http.authentication import Caller
from compactor.http.problems import Problem
from compactor.http.rates import LargeCalls, RateLimits
from compactor.http.session_bodies import MOST_MESSAGES
from compactor.settings import read_settings
from compactor.store import AsyncStore
from tests.acceptance.waiting import wait_until
from tests.http.routes import HELLO
from tests.http.service import CONFIG, Bot, Service, serving

LONG = 6_000_000  # characters, more than the buffers of a connection hold


@pytest.fixture(scope="module")
def narrow(server: EmbeddedServer) -> Iterator[Service]:
    """A service with three places for each tenant."""
    namespace = f"h{uuid.uuid4().hex[:12]}"
    settings = read_settings(
        redis_url=server.url, namespace=namespace, http_tenant_concurrency=3, http_key_requests=100
    )
    with serving(settings) as running:
        yield running


def unread(bot: Bot, path: str) -> socket.socket:
    """A request whose answer nobody reads."""
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
    connection.settimeout(10)
    connection.connect(("127.0.0.1", bot.port))
    connection.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {bot.key}\r\n\r\n".encode())
    return connection


def test_an_answer_that_nobody_reads_keeps_its_place(narrow: Service, tenant: str) -> None:
    bot = narrow.bot(tenant)
    rows = [{"role": "user", "content": "word " * (LONG // 5)}] * 2
    bot.post("/v1/sessions/long/messages", {"messages": rows, "config": CONFIG}).good()
    with ExitStack() as held:
        for _ in range(3):  # two are answered, and one waits for them
            held.enter_context(unread(bot, "/v1/sessions/long/originals"))
        wait_until(lambda: narrow.bot(tenant).get("/v1/sessions/none").status == 429, what="no place")
        narrow.bot("another").get("/v1/sessions/none").problem(404, "session_not_found")
    wait_until(lambda: narrow.bot(tenant).get("/v1/sessions/none").status == 404, what="a place again")
    assert len(bot.get("/v1/sessions/long/originals").good()["messages"]) == 2


async def test_large_calls_of_a_tenant_wait_for_one_another() -> None:
    calls, order = LargeCalls(2), list[str]()

    async def call(tenant: str, name: str, ends: asyncio.Event) -> None:
        async with calls.place(tenant) as take:
            await take()
            await take()
            order.append(name)
            await ends.wait()

    async def after_all_ran() -> None:
        for _ in range(10):
            await asyncio.sleep(0)

    first, rest = asyncio.Event(), asyncio.Event()
    running = [asyncio.create_task(call("acme", name, first if name == "a" else rest)) for name in "abcd"]
    other = asyncio.create_task(call("other", "other", rest))
    await after_all_ran()
    assert order == ["a", "b", "other"]
    running[2].cancel()  # what waits and goes takes no place with it
    first.set()
    await after_all_ran()
    assert order == ["a", "b", "other", "d"]
    rest.set()
    await asyncio.gather(*running, other, return_exceptions=True)
    async with calls.place("acme") as take:
        await take()


async def test_without_redis_a_process_counts_alone() -> None:
    settings = read_settings(redis_url=f"redis://127.0.0.1:{free_port()}/0", http_key_requests=5)
    store = AsyncStore(settings)
    rates, caller = RateLimits(store, settings), Caller("acme", None, "0" * 16)
    for _ in range(5):
        await rates.admit(caller)
    with pytest.raises(Problem, match="This key may send 5 requests"):
        await rates.admit(caller)
    await rates.admit(Caller("acme", None, "1" * 16))
    await store.close()


async def test_calls_are_taken_in_hundredths_of_a_minute_and_never_more_than_there_are(server: EmbeddedServer) -> None:
    settings = read_settings(
        redis_url=server.url, namespace=f"h{uuid.uuid4().hex[:12]}", http_key_requests=1_000, http_tenant_requests=5_000
    )
    store, caller = AsyncStore(settings), Caller("acme", None, "0" * 16)
    processes = [RateLimits(store, settings) for _ in range(3)]
    before, started, admitted = await scripts_run(store), time.monotonic(), 0
    with suppress(Problem):
        for process in cycle(processes):
            await process.admit(caller)
            admitted += 1
    regained = 1_000 / 60 * (time.monotonic() - started)
    assert 1_000 - 3 * 10 <= admitted <= 1_000 + regained + 1
    assert await scripts_run(store) - before <= 1_000 / 10 + 1_000 / 50 + 3 * 10
    await store.close()


async def test_calls_that_come_at_once_take_no_more_of_a_minute_than_they_are(server: EmbeddedServer) -> None:
    settings = read_settings(
        redis_url=server.url, namespace=f"h{uuid.uuid4().hex[:12]}", http_key_requests=1_000, http_tenant_requests=5_000
    )
    store, caller = AsyncStore(settings), Caller("acme", None, "0" * 16)
    rates, before = RateLimits(store, settings), await scripts_run(store)
    await asyncio.gather(*(rates.admit(caller) for _ in range(90)))
    assert await scripts_run(store) - before <= 90 / 10 + 90 / 50 + 3
    for _ in range(900):
        await rates.admit(caller)
    await store.close()


async def scripts_run(store: AsyncStore) -> int:
    stats: Any = await store.client.info("commandstats")
    return int(stats.get("cmdstat_evalsha", {}).get("calls", 0))


def test_a_listing_costs_as_many_calls_as_it_may_look_at(narrow: Service, tenant: str) -> None:
    bot = narrow.bot(tenant)
    statuses = [bot.get("/v1/sessions").status for _ in range(6)]
    assert statuses == [200] * 5 + [429]


def test_messages_at_once_have_a_limit(bot: Bot) -> None:
    rows = [HELLO] * (MOST_MESSAGES + 1)
    for path in ("messages", "prepare", "sync"):
        told = bot.post(f"/v1/sessions/many/{path}", {"messages": rows, "config": CONFIG})
        assert "20,000 messages" in told.problem(422, "invalid_request")["detail"]
    bot.get("/v1/sessions/many").problem(404, "session_not_found")


def test_a_system_text_that_grows_beyond_measure_is_refused(bot: Bot) -> None:
    body = {"system": "{{a}}" * 10_000, "variables": {"a": "word " * 1_000}, "config": CONFIG}
    for path in ("prepare", "estimate"):
        told = bot.post(f"/v1/sessions/bomb/{path}", body).problem(422, "invalid_request")
        assert "when filled" in told["detail"]
    fine = body | {"system": "{{a}} {{ a }}"}
    bot.post("/v1/sessions/bomb/estimate", fine).good()


async def at_once(port: int, head: str, count: int) -> list[int]:
    """The statuses of a GET that so many send at the same time."""

    async def status() -> int:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(f"GET {head}\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
        got = await reader.read()
        writer.close()
        return int(got.split(b" ", 2)[1])

    return list(await asyncio.gather(*(status() for _ in range(count))))


async def test_callers_without_a_key_take_few_connections_to_redis(service: Service) -> None:
    wrong = f"Authorization: Bearer cptr_{'0' * 16}_{'A' * 43}"
    assert set(await at_once(service.port, f"/v1/sessions/a HTTP/1.1\r\n{wrong}", 200)) == {401}
    assert set(await at_once(service.port, "/readyz HTTP/1.1", 200)) == {200}
