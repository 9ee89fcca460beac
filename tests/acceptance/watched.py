"""Flower in tests: started, asked over HTTP, and sessions for it to show."""

from __future__ import annotations

import base64
import http.client
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final, TypeVar

from compactor.client import Compactor, Session
from compactor.embedded import Child, free_port, start_flower
from compactor.model_config import ModelConfig

TEXT: Final = "conversationfalcon7731"  # letters and digits only, so that no escaping can hide it
FLOWER_PASSWORD: Final = "flowerfalcon7731"
PATIENCE: Final = 60.0  # seconds
T = TypeVar("T")


def eventually(look: Callable[[], T | None], what: str, *, timeout: float = PATIENCE) -> T:
    """The first answer of `look` that is true."""
    until = time.monotonic() + timeout
    while not (seen := look()):
        assert time.monotonic() < until, f"never seen: {what}"
        time.sleep(0.05)
    return seen


@dataclass
class Flower:
    """A Flower that runs, asked over HTTP."""

    child: Child
    port: int

    def ask(self, path: str, *, method: str = "GET", password: str | None = FLOWER_PASSWORD) -> tuple[int, str]:
        """Status and body of one request."""
        token = base64.b64encode(f"flower:{password}".encode()).decode()
        headers = {"Authorization": f"Basic {token}"} if password is not None else {}
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        try:
            connection.request(method, path, headers=headers)
            response = connection.getresponse()
            return response.status, response.read().decode("utf-8", "replace")
        finally:
            connection.close()

    def json(self, path: str) -> Any:
        status, body = self.ask(path)
        assert status == 200, (path, status, body)
        return json.loads(body)

    def task(self, session: str, holds: Callable[[Mapping[str, Any]], object] = bool) -> dict[str, Any]:
        """The task of a session, as soon as it is as wanted."""

        def look() -> dict[str, Any] | None:
            tasks: dict[str, dict[str, Any]] = self.json("/api/tasks")
            return next((task for task in tasks.values() if session in (task["args"] or "") and holds(task)), None)

        return eventually(look, f"the task of {session}")

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.port}{path}"


def watch(env: Mapping[str, str], folder: Path, port: int | None = None) -> Flower:
    port = port or free_port()
    log, db = folder / "flower.log", folder / "flower.db"
    return Flower(start_flower(env=env, log=log, port=port, password=FLOWER_PASSWORD, db=db), port)


def has_ended(task: Mapping[str, Any]) -> bool:
    return task["state"] in ("SUCCESS", "FAILURE")


def converse(memory: Compactor, name: str, results: int) -> Session:
    """A session with so many tool results; 8 exceed the threshold of 8K, 12 the ceiling; with 14, steps are folded."""
    session = memory.session(name, ModelConfig("gpt-4o", 8))
    session.push([{"role": "system", "content": f"You are {TEXT}"}, {"role": "user", "content": f"Find {TEXT}"}])
    for index in range(results):
        call = {"id": f"c{index}", "type": "function", "function": {"name": "grep", "arguments": f'"{TEXT} {index}"'}}
        # No two lines begin alike, so that no form keeps all of them and a model has to be asked.
        words = [blake2b(f"{index} {row}".encode(), digest_size=9).hexdigest() for row in range(40)]
        rows = "\n".join(f"{word[:9]} {TEXT}: {word[9:]}" for word in words)
        session.push({"role": "assistant", "content": None, "tool_calls": [call]})
        session.push({"role": "tool", "tool_call_id": f"c{index}", "content": rows})
    return session
