"""`compactor serve`: a process that listens on loopback, lets requests end at a stop, and says little."""

from __future__ import annotations

import json
import signal
import socket
import threading
import urllib.error
import urllib.request
import uuid
from typing import Any

import pytest

from compactor import Compactor
from compactor.embedded import EmbeddedServer, free_port
from compactor.settings import read_settings
from tests.acceptance.cli_process import Command, run
from tests.acceptance.waiting import wait_until
from tests.http.service import Bot, Service, serving

WORDS = "private words 4711"


def is_up(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=2) as answer:
            return int(answer.status) == 200
    except (urllib.error.URLError, OSError):
        return False


def test_a_stop_lets_requests_end(server: EmbeddedServer) -> None:
    settings = read_settings(redis_url=server.url, namespace=f"h{uuid.uuid4().hex[:12]}")
    env = {"REDIS_URL": server.url, "COMPACTOR_NAMESPACE": settings.namespace}
    port = free_port()
    with Compactor(settings=settings) as memory, Command("serve", "--json", "--port", str(port), env=env) as command:
        bot = Bot(port, Service(settings, port, memory).key("acme"))
        assert json.loads(command.line()) == {"ready": True, "http_url": f"http://127.0.0.1:{port}"}
        wait_until(lambda: is_up(port), what="the service")
        config: dict[str, Any] = {"model": "gpt-4o", "context_limit_tokens": 60}
        message = {"role": "user", "content": f"{WORDS} " * 100}
        bot.post("/v1/sessions/private-name/messages", {"messages": message, "config": config}).good()
        outcomes: list[Any] = []
        body = {"wait": 2, "config": config}
        waiting = threading.Thread(
            target=lambda: outcomes.append(bot.post("/v1/sessions/private-name/compact", body).good()["outcome"])
        )
        waiting.start()
        wait_until(lambda: memory_claim(memory) == "queued", what="the request under way")
        command.process.send_signal(signal.SIGTERM)
        ended = command.end()
        waiting.join()
    assert outcomes == ["queued"]
    assert ended.code == 0
    assert "POST /v1/sessions/{name}/messages 200" in ended.err
    assert "private" not in ended.err
    assert bot.key is not None
    assert bot.key.split("_", 2)[2] not in ended.err
    assert "warning" not in ended.err.lower()


def test_what_does_not_end_is_told_that_the_service_stops(
    server: EmbeddedServer, caplog: pytest.LogCaptureFixture
) -> None:
    settings = read_settings(redis_url=server.url, namespace=f"h{uuid.uuid4().hex[:12]}")
    with socket.socket() as slow:
        slow.settimeout(10)
        with serving(settings, grace=1) as service:
            slow.connect(("127.0.0.1", service.port))
            lines = ("POST /v1/sessions/chat/sync HTTP/1.1", "Host: x", f"Authorization: Bearer {service.key('acme')}")
            rest = ("Content-Type: application/json", "Content-Length: 500", "Expect: 100-continue", "", "")
            slow.sendall("\r\n".join((*lines, *rest)).encode())
            assert b" 100 " in slow.recv(65_536)
        got = slow.recv(65_536)
    assert b" 503 " in got[:20]
    assert b'"code":"stopping"' in got
    assert "Traceback" not in caplog.text
    assert not [each for each in caplog.records if each.exc_info]


def test_a_started_service_takes_no_long_heads_no_trailers_and_no_websockets(server: EmbeddedServer) -> None:
    settings = read_settings(redis_url=server.url, namespace=f"h{uuid.uuid4().hex[:12]}")
    env = {"REDIS_URL": server.url, "COMPACTOR_NAMESPACE": settings.namespace}
    port = free_port()
    with Compactor(settings=settings) as memory, Command("serve", "--port", str(port), env=env) as command:
        key = Service(settings, port, memory).key("acme")
        wait_until(lambda: is_up(port), what="the service")
        trailer = f"0\r\nAuthorization: Bearer {key}\r\n\r\n".encode()
        assert b" 401 " in first_answer(port, "Transfer-Encoding: chunked", trailer)
        assert b" 401 " in first_answer(port, "Connection: Upgrade\r\nUpgrade: websocket")
        assert b" 400 " in first_answer(port, "X: " + "y" * 200_000)
        command.process.send_signal(signal.SIGTERM)
        assert "private-name" not in command.end().err


def first_answer(port: int, head: str, rest: bytes = b"") -> bytes:
    """The beginning of what a request without a key is answered."""
    with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
        connection.sendall(
            f"POST /v1/sessions/private-name/clear HTTP/1.1\r\nHost: x\r\n{head}\r\n\r\n".encode() + rest
        )
        return connection.recv(65_536)[:20]


def memory_claim(memory: Compactor) -> str:
    from compactor import ModelConfig

    return memory.session("acme/private-name", ModelConfig("gpt-4o", 8)).status().claim


def test_listening_beyond_loopback_is_warned_of(server: EmbeddedServer) -> None:
    port = free_port()
    with Command("serve", "--host", "0.0.0.0", "--port", str(port), env={"REDIS_URL": server.url}) as command:
        wait_until(lambda: is_up(port), what="the service")
        command.process.send_signal(signal.SIGINT)
        ended = command.end()
    assert "Put a proxy with TLS in front" in ended.err
    assert ended.code in (0, 130)


def test_a_taken_port_is_told(server: EmbeddedServer) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        ended = run("serve", "--port", str(taken.getsockname()[1]), env={"REDIS_URL": server.url})
    assert ended.code == 2
    assert "Address already in use" in ended.err
    assert "--port" in ended.err
    assert "Traceback" not in ended.err


def test_a_wrong_setting_is_one_line(server: EmbeddedServer) -> None:
    ended = run("serve", "--port", str(free_port()), env={"REDIS_URL": "http://nowhere"})
    assert ended.code == 2
    assert "redis_url: expected" in ended.err
    assert "Traceback" not in ended.err


def test_what_keys_prints_is_all_a_bot_needs(server: EmbeddedServer) -> None:
    env = {"REDIS_URL": server.url, "COMPACTOR_NAMESPACE": f"h{uuid.uuid4().hex[:12]}"}
    made = json.loads(run("keys", "create", "acme", "--json", env=env).out)
    assert made["key"].startswith(f"cptr_{made['id']}_")
