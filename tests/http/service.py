"""The service under test: a real uvicorn on loopback, in a thread of this process, and a bare client for it."""

from __future__ import annotations

import http.client
import json
import threading
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Self

import uvicorn

from compactor import Compactor
from compactor.commands.api_keys import issue, new_key
from compactor.effects import run
from compactor.embedded import free_port
from compactor.http.app import create_app
from compactor.settings import Settings

CONFIG: dict[str, Any] = {"model": "gpt-4o", "context_limit": 8}


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    def problem(self, status: int, code: str) -> dict[str, Any]:
        """The problem that it is, checked for its shape."""
        assert self.headers["content-type"] == "application/problem+json", (self.status, self.body[:500])
        told: dict[str, Any] = self.json
        assert (self.status, told["code"]) == (status, code), told
        assert told["status"] == status
        assert told["type"] == f"urn:compactor:problem:{code}"
        assert told["title"]
        assert told["detail"]
        return told

    def good(self, status: int = 200) -> Any:
        """What was asked for."""
        assert self.status == status, (self.status, self.body[:1_000])
        return self.json


@dataclass(frozen=True, slots=True)
class Bot:
    """A caller with a key; `name` begins the names of its sessions in `call`."""

    port: int
    key: str | None = None

    def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        raw: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: float = 30.0,
    ) -> Answer:
        """One request on a connection of its own; `body` goes as JSON, `raw` as it is."""
        sent = dict(headers or {})
        content = raw
        if body is not None:
            content = json.dumps(body).encode()
        if content is not None:
            sent.setdefault("Content-Type", "application/json")
        if self.key is not None:
            sent.setdefault("Authorization", f"Bearer {self.key}")
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        try:
            connection.request(method, path, content, sent)
            got = connection.getresponse()
            return Answer(got.status, {name.lower(): value for name, value in got.getheaders()}, got.read())
        finally:
            connection.close()

    def get(self, path: str) -> Answer:
        return self.call("GET", path)

    def post(self, path: str, body: Any = None, **headers: str) -> Answer:
        return self.call("POST", path, body, headers=headers)

    def holding(self, key: str | None) -> Self:
        """The same caller with another key."""
        return replace(self, key=key)


@dataclass(frozen=True, slots=True)
class Service:
    """A running service; `memory` looks at the same sessions from inside."""

    settings: Settings
    port: int
    memory: Compactor

    def key(self, tenant: str, user: str | None = None, *, expires: float | None = None) -> str:
        key, stored = new_key(tenant, user=user, now=time.time(), expires=expires)
        assert self.memory.drive(run(issue(self.settings.namespace, stored)))
        return key

    def bot(self, tenant: str, user: str | None = None) -> Bot:
        return Bot(self.port, self.key(tenant, user))

    @property
    def anybody(self) -> Bot:
        return Bot(self.port)


@contextmanager
def serving(settings: Settings, *, grace: int | None = None) -> Generator[Service]:
    """Runs the service until the block ends; requests under way then have `grace` seconds, or as long as they take."""
    port = free_port()
    config = uvicorn.Config(
        create_app(settings),
        host="127.0.0.1",
        port=port,
        access_log=False,
        log_config=None,
        server_header=False,
        http="h11",
        ws="none",
        timeout_graceful_shutdown=grace,
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    until = time.monotonic() + 20
    while not server.started:
        assert thread.is_alive()
        assert time.monotonic() < until
        time.sleep(0.01)
    try:
        with Compactor(settings=settings) as memory:
            yield Service(settings, port, memory)
    finally:
        server.should_exit = True
        thread.join(20)
        assert not thread.is_alive()
