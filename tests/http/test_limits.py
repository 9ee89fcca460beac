"""How much, how often, how long and how many at once; one tenant's limits are no other's."""

from __future__ import annotations

import select
import socket
import time
import uuid
from collections.abc import Generator, Iterator
from contextlib import contextmanager

import pytest

from compactor.embedded import EmbeddedServer
from compactor.encodings import encoder
from compactor.settings import read_settings
from tests.http.routes import HELLO
from tests.http.service import CONFIG, Answer, Bot, Service, serving

MOST = 10_000  # bytes of a body
PUSH = "/v1/sessions/chat/messages"


@pytest.fixture(scope="module")
def narrow(server: EmbeddedServer) -> Iterator[Service]:
    """A service that allows little."""
    settings = read_settings(
        redis_url=server.url,
        namespace=f"h{uuid.uuid4().hex[:12]}",
        http_max_body_bytes=MOST,
        http_key_requests=40,
        http_tenant_requests=60,
        http_tenant_concurrency=3,
    )
    with serving(settings) as running:
        yield running


@pytest.fixture(scope="module")
def hasty(server: EmbeddedServer) -> Iterator[Service]:
    """A service that waits two seconds for a request; the vocabulary, which takes one to load, is there already."""
    encoder("o200k_base")
    settings = read_settings(redis_url=server.url, namespace=f"h{uuid.uuid4().hex[:12]}", http_request_timeout=2.0)
    with serving(settings) as running:
        yield running


@pytest.fixture
def caller(narrow: Service, tenant: str) -> Bot:
    return narrow.bot(tenant)


def sized(size: int) -> bytes:
    """A good push of that many bytes."""
    body = b'{"config": {"model": "gpt-4o", "context_limit": 8}, "messages": {"role": "user", "content": ""}}'
    return body[:-3] + b"x" * (size - len(body)) + body[-3:]


def test_a_body_at_the_limit_is_taken_and_one_byte_more_is_not(caller: Bot) -> None:
    caller.call("POST", PUSH, raw=sized(MOST)).good()
    told = caller.call("POST", PUSH, raw=sized(MOST + 1)).problem(413, "body_too_large")
    assert str(MOST) in told["detail"]


@contextmanager
def begun(bot: Bot, head: str) -> Generator[socket.socket]:
    """A request of which only the head was sent."""
    with socket.create_connection(("127.0.0.1", bot.port), timeout=10) as sent:
        lines = (
            f"POST {PUSH} HTTP/1.1",
            "Host: x",
            f"Authorization: Bearer {bot.key}",
            "Content-Type: application/json",
        )
        sent.sendall("\r\n".join((*lines, head, "", "")).encode())
        yield sent


def answered(connection: socket.socket) -> bytes:
    """What comes until the first piece of a body."""
    got = b""
    while b"\r\n\r\n" not in got or not got.partition(b"\r\n\r\n")[2]:
        piece = connection.recv(65_536)
        if not piece:
            break
        got += piece
    return got


def test_a_length_over_the_limit_is_refused_before_the_body_comes(caller: Bot) -> None:
    with begun(caller, f"Content-Length: {10**15}") as sent:
        assert b" 413 " in answered(sent)[:20]


def test_a_body_without_a_length_is_counted_as_it_comes(caller: Bot) -> None:
    with begun(caller, "Transfer-Encoding: chunked") as sent:
        piece = b"x" * 1_000
        for _ in range(MOST // 1_000 + 2):
            sent.sendall(b"%x\r\n%s\r\n" % (len(piece), piece))
        got = answered(sent)
    assert b" 413 " in got[:20]
    assert b"body_too_large" in got


def test_a_body_that_does_not_end_is_given_up(hasty: Service) -> None:
    with begun(hasty.bot("acme"), "Content-Length: 500") as sent:
        sent.sendall(b'{"messages":')
        got = answered(sent)
    assert b" 408 " in got[:20]
    assert b"body_timeout" in got


def test_a_call_that_takes_too_long_is_ended(hasty: Service) -> None:
    caller = hasty.bot("slow")
    config = {"model": "gpt-4o", "context_limit_tokens": 60}
    caller.post(PUSH, {"messages": {"role": "user", "content": "word " * 200}, "config": config}).good()
    started = time.monotonic()
    told = caller.post("/v1/sessions/chat/compact", {"wait": 15, "config": config}).problem(504, "timed_out")
    assert "Idempotency-Key" in told["detail"]
    assert time.monotonic() - started < 10


def test_a_key_and_a_tenant_may_send_so_much_per_minute(narrow: Service, tenant: str) -> None:
    first, second = narrow.bot(tenant), narrow.bot(tenant)

    def until_refused(bot: Bot) -> tuple[int, Answer]:
        for count in range(100):
            answer = bot.get("/v1/sessions/none")
            if answer.status != 404:
                return count, answer
        raise AssertionError("nobody was refused")

    count, refused = until_refused(first)
    assert 40 <= count <= 43
    assert "This key may send 40 requests per minute" in refused.problem(429, "too_many_requests")["detail"]
    assert 1 <= int(refused.headers["retry-after"]) <= 60
    count, refused = until_refused(second)
    assert 15 <= count <= 26
    assert "This tenant" in refused.problem(429, "too_many_requests")["detail"]
    narrow.bot("another").get("/v1/sessions/none").problem(404, "session_not_found")


def test_a_tenant_cannot_take_every_place(narrow: Service, caller: Bot) -> None:
    with reading(caller, 500) as one, reading(caller, 500) as two, reading(caller, 500) as three:
        refused = caller.get("/v1/sessions/none")
        assert "under way" in refused.problem(429, "too_many_requests")["detail"]
        assert int(refused.headers["retry-after"]) >= 1
        narrow.bot("another").post(PUSH, {"messages": HELLO, "config": CONFIG}).good()
        for held in (one, two, three):
            held.sendall(b"x" * 500)
            assert b" 400 " in answered(held)[:20]
    caller.get("/v1/sessions/none").problem(404, "session_not_found")


def test_the_bodies_of_a_tenant_together_have_a_limit(narrow: Service, caller: Bot) -> None:
    with reading(caller, MOST) as one, reading(caller, MOST) as two, reading(caller, MOST) as three:
        held = [one, two, three]
        for each in held:
            each.sendall(b"x" * (MOST - 10))
        (refused,), _, _ = select.select(held, [], [], 10)
        got = answered(refused)
        assert b" 429 " in got[:20]
        assert b"bodies of 20000 bytes" in got
        held.remove(refused)
        narrow.bot("another").call("POST", PUSH, raw=sized(MOST)).good()
        for each in held:
            each.sendall(b"x" * 10)
            assert b" 400 " in answered(each)[:20]
    caller.call("POST", PUSH, raw=sized(MOST)).good()


@contextmanager
def reading(bot: Bot, length: int) -> Generator[socket.socket]:
    """A request that has its place, and of which the service reads the body."""
    with begun(bot, f"Content-Length: {length}\r\nExpect: 100-continue") as sent:
        assert sent.recv(65_536).startswith(b"HTTP/1.1 100 ")
        yield sent
