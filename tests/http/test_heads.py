"""Heads that two readers may take differently, or that never end: refused, and nothing of them is done."""

from __future__ import annotations

import json
import logging
import socket
from typing import Final

import pytest

from tests.acceptance.waiting import wait_until
from tests.http.routes import HELLO
from tests.http.service import CONFIG, Bot, Service

PUSH: Final = "POST /v1/sessions/chat/messages HTTP/1.1"
BODY: Final = json.dumps({"messages": HELLO, "config": CONFIG}).encode()
CHUNKED: Final = b"%x\r\n%s\r\n0\r\n" % (len(BODY), BODY)
LENGTH: Final = f"Content-Length: {len(BODY)}"
JSON: Final = "Content-Type: application/json"


def sent(port: int, lines: list[str], body: bytes = b"") -> bytes:
    """All that comes back for a request as it stands, until the service closes the connection."""
    with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
        connection.sendall("\r\n".join((*lines, "Host: x", "Connection: close", "", "")).encode() + body)
        got = b""
        while piece := connection.recv(65_536):
            got += piece
    return got


def stored(bot: Bot) -> int:
    return len(bot.get("/v1/sessions/chat/originals").good()["messages"])


@pytest.fixture
def key(bot: Bot) -> str:
    return f"Authorization: Bearer {bot.key}"


def test_what_follows_a_body_is_no_header(bot: Bot, key: str) -> None:
    lines = [PUSH, JSON, "Transfer-Encoding: chunked"]
    assert b" 401 " in sent(bot.port, lines, CHUNKED + f"{key}\r\n\r\n".encode())[:20]
    lines = [PUSH, key, "Transfer-Encoding: chunked"]
    assert b" 415 " in sent(bot.port, lines, CHUNKED + f"{JSON}\r\n\r\n".encode())[:20]
    assert stored(bot) == 0


def test_a_head_has_a_limit_before_anybody_is_known(service: Service) -> None:
    with socket.create_connection(("127.0.0.1", service.port), timeout=10) as connection:
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\nX: " + b"y" * 200_000)
        assert b" 400 " in connection.recv(65_536)[:20]


def test_a_body_has_one_length(bot: Bot, key: str) -> None:
    for lengths in (["Content-Length: 4", "Transfer-Encoding: chunked"], ["Transfer-Encoding: chunked", LENGTH]):
        got = sent(bot.port, [PUSH, key, JSON, *lengths], CHUNKED + b"\r\nGET /v1/sessions HTTP/1.1\r\n\r\n")
        assert b" 400 " in got[:20]
        assert got.count(b"HTTP/1.1 ") == 1
    assert stored(bot) == 0


@pytest.mark.parametrize(
    "twice", [["Content-Type: text/plain"], ["Idempotency-Key: a", "Idempotency-Key: b"], ["content-type: x/y"]]
)
def test_a_header_that_decides_comes_once(bot: Bot, key: str, twice: list[str]) -> None:
    got = sent(bot.port, [PUSH, key, JSON, LENGTH, *twice], BODY)
    assert b" 400 " in got[:20]
    assert b"once each" in got
    assert stored(bot) == 0


def test_a_slash_in_a_name_reaches_no_other_address(bot: Bot) -> None:
    bot.post("/v1/sessions/chat/messages", {"messages": HELLO, "config": CONFIG}).good()
    for name in ("chat%2Foriginals", "chat%2foriginals", "%2Fchat", "chat%2Frecall/m0", "chat%2Frecall%2Fm0"):
        bot.get(f"/v1/sessions/{name}").problem(404, "not_found")
    bot.call("DELETE", "/v1/sessions/chat%2Fconfig").problem(404, "not_found")


def test_a_compressed_body_is_refused(bot: Bot) -> None:
    told = bot.call("POST", "/v1/sessions/chat/messages", raw=BODY, headers={"Content-Encoding": "gzip"})
    assert "not compressed" in told.problem(415, "unsupported_media_type")["detail"]
    place = "/v3/users/u/llm-model-configs/cfg_" + "0" * 32
    sent_as = {"Content-Encoding": "gzip", "Content-Type": "application/merge-patch+json"}
    bot.call("PATCH", place, raw=b"{}", headers=sent_as).problem(415, "unsupported_media_type")


def test_there_is_no_websocket(service: Service, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    upgrade = ["Upgrade: websocket", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="]
    with socket.create_connection(("127.0.0.1", service.port), timeout=10) as connection:
        lines = ("GET /v1/sessions/private-name HTTP/1.1", "Host: x", "Connection: Upgrade", *upgrade, "", "")
        connection.sendall("\r\n".join(lines).encode())
        assert b" 401 " in connection.recv(65_536)[:20]
    # The server's own access log is off where the service starts it.
    assert not [each for each in caplog.records if "private" in each.getMessage() and each.name != "uvicorn.access"]


@pytest.mark.parametrize("path", ["/v1/sessions/chat/messages", "/v3/users/u/llm-model-configs"])
def test_a_caller_that_goes_in_the_middle_of_a_body_is_no_failure_of_ours(
    bot: Bot, key: str, path: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "compactor.http")
    with socket.create_connection(("127.0.0.1", bot.port), timeout=10) as connection:
        lines = (f"POST {path} HTTP/1.1", "Host: x", key, JSON, "Content-Length: 500", "", "")
        connection.sendall("\r\n".join(lines).encode() + BODY)
    wait_until(lambda: "compactor.http.access" in {each.name for each in caplog.records}, what="the line of the call")
    assert " 400 " in caplog.text
    assert not [each for each in caplog.records if each.levelno >= logging.WARNING]
