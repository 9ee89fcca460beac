"""What the service adds to a prepare, in CPU time of its process, next to the library's own call."""

from __future__ import annotations

import asyncio
import json
import socket
import time
import uuid
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any, Final

import psutil
import pytest

from compactor import AsyncCompactor, Compactor, ModelConfig
from compactor.embedded import EmbeddedServer, free_port
from compactor.settings import Settings, read_settings
from tests.acceptance.cli_process import Command
from tests.acceptance.waiting import wait_until
from tests.http.service import Service
from tests.http.test_serve import is_up

MESSAGES: Final = 1_000
ROUNDS: Final = 60
MOST: Final = 3.0  # ms of CPU over the library's call
CONFIG: Final[dict[str, Any]] = {"model": "gpt-4o", "context_limit": 1_000}


def conversation() -> list[dict[str, Any]]:
    """Turns of a user, a call, its result and an answer; about 0.5 MB."""
    rows: list[dict[str, Any]] = []
    for number in range(MESSAGES // 4):
        call = {"id": f"c{number}", "type": "function", "function": {"name": "read", "arguments": f'{{"n": {number}}}'}}
        text = "\n".join(f"{line}: value {line * number}" for line in range(70))
        rows += [
            {"role": "user", "content": f"Question {number}: " + "what does it say? " * 6},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": f"c{number}", "content": text},
            {"role": "assistant", "content": f"Answer {number}. " + "It says this. " * 8},
        ]
    return rows


def cpu_ms(calls: Callable[[int], object], used: Callable[[], float]) -> float:
    """CPU time of one call in ms, all threads of the process; the least of five series."""
    calls(10)
    series: list[float] = []
    for _ in range(5):
        started = used()
        calls(ROUNDS)
        series.append((used() - started) / ROUNDS * 1000)
    return min(series)


def of_library(settings: Settings, messages: list[dict[str, Any]] | None) -> float:
    """CPU time of the library's own prepare, in ms."""
    with asyncio.Runner() as runner:
        memory = AsyncCompactor(settings=settings)
        session = memory.session("acme/chat", ModelConfig(**CONFIG))

        async def calls(count: int) -> None:
            for _ in range(count):
                await session.prepare(messages)

        taken = cpu_ms(lambda count: runner.run(calls(count)), time.process_time)
        runner.run(memory.close())
        return taken


@contextmanager
def posting(port: int, key: str, body: bytes) -> Generator[Callable[[], int]]:
    """Sends the same request again and again over one bare connection; answers how many bytes came."""
    head = (
        f"POST /v1/sessions/chat/prepare HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {key}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    request, room = head.encode() + body, bytearray(4 * 1024**2)
    with socket.create_connection(("127.0.0.1", port)) as connection:

        def call() -> int:
            connection.sendall(request)
            got, whole = 0, 0
            while not whole or got < whole:
                got += connection.recv_into(memoryview(room)[got:])
                end = room.find(b"\r\n\r\n", 0, got)
                if not whole and end > 0:
                    assert room.startswith(b"HTTP/1.1 200"), bytes(room[:200])
                    length = bytes(room[:end]).lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]
                    whole = end + 4 + int(length)
            return got

        yield call


def of_process(pid: int) -> Callable[[], float]:
    """The CPU time that a process has used, in seconds."""
    process = psutil.Process(pid)

    def used() -> float:
        times = process.cpu_times()
        return float(times.user + times.system)

    return used


@pytest.mark.benchmark
@pytest.mark.parametrize("own", [False, True], ids=["stored history", "own list"])
def test_a_prepare_over_http_costs_little_more_than_the_library(server: EmbeddedServer, own: bool) -> None:
    env = {
        "REDIS_URL": server.url,
        "COMPACTOR_NAMESPACE": f"h{uuid.uuid4().hex[:12]}",
        "COMPACTOR_HTTP_KEY_REQUESTS": "1000000",
        "COMPACTOR_HTTP_TENANT_REQUESTS": "1000000",
    }
    settings = read_settings(redis_url=server.url, namespace=env["COMPACTOR_NAMESPACE"])
    rows, port = conversation(), free_port()
    with Compactor(settings=settings) as memory:
        memory.session("acme/chat", ModelConfig(**CONFIG)).push(rows)
        key = Service(settings, port, memory).key("acme")

    plain = of_library(settings, rows if own else None)
    request = {"config": CONFIG, "messages": rows} if own else {"config": CONFIG}
    body = json.dumps(request, separators=(",", ":")).encode()  # as JavaScript, Go and httpx write it
    with Command("serve", "--port", str(port), env=env) as command:
        wait_until(lambda: is_up(port), what="the service")
        with posting(port, key, body) as call:
            served = cpu_ms(lambda count: [call() for _ in range(count)], of_process(command.process.pid))
            size = call()
        command.process.terminate()
        assert command.end().code == 0
    print(
        f"\nprepare of {MESSAGES} messages, {'own list' if own else 'stored history'}: library {plain:.2f} ms CPU, "
        f"over HTTP {served:.2f} ms ({len(body):,} bytes in, {size:,} out): +{served - plain:.2f} ms"
    )
    assert served - plain <= MOST
