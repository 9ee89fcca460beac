"""A chat completions server over real HTTP, as OpenAI's clients expect it.

It answers with a summary of its own making, or with whatever a test scripts: a status, a body, a delay.
"""

from __future__ import annotations

import json
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self


@dataclass(frozen=True, slots=True)
class Answer:
    """One HTTP answer: status, JSON or raw body, seconds to wait before it, headers."""

    body: Any = None
    status: int = 200
    delay: float = 0.0
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    content_type: str = "application/json"


def completion(
    content: str | None, *, finish_reason: str = "stop", tokens: tuple[int, int] = (100, 20), **message: Any
) -> Answer:
    """A chat completion that says `content`; `message` adds keys such as `refusal` or `tool_calls`."""
    return Answer(
        {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "created": 1,
            "model": "fake",
            "choices": [
                {
                    "index": 0,
                    "finish_reason": finish_reason,
                    "message": {"role": "assistant", "content": content, **message},
                }
            ],
            "usage": {"prompt_tokens": tokens[0], "completion_tokens": tokens[1], "total_tokens": sum(tokens)},
        }
    )


def summary(note: str = "The tool returned rows.", **facts: str) -> Answer:
    """A completion in the JSON layout that the prompt asks for."""
    listed = [{"label": label, "value": value} for label, value in facts.items()]
    return completion(json.dumps({"outcome": "ok", "facts": listed, "note": note, "omitted": ""}))


class ModelServer:
    """A chat completions server on a free loopback port; use it as a context manager.

    `answer` makes the reply to a request's JSON body. Answers put into `script` are used up first,
    one per request. `requests` holds the bodies received, `answering` the client ports of those that
    are being answered.
    """

    def __init__(self, answer: Callable[[dict[str, Any]], Answer] | None = None, *, delay: float = 0.0) -> None:
        self.answer: Callable[[dict[str, Any]], Answer] = answer or _always_a_summary
        self.delay = delay
        self.script: deque[Answer] = deque()
        self.requests: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.answering: set[int] = set()
        self.most_in_flight = 0
        self._lock = threading.Lock()
        self._server = _Server(("127.0.0.1", 0), _Handler, self)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)

    @property
    def url(self) -> str:
        """The base URL for an OpenAI client."""
        return f"http://127.0.0.1:{self.port}/v1"

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    @property
    def in_flight(self) -> int:
        """How many requests are being answered."""
        return len(self.answering)

    def take(self, body: dict[str, Any], headers: dict[str, str]) -> Answer:
        """The answer to one request."""
        with self._lock:
            self.requests.append(body)
            self.headers.append(headers)
            scripted = self.script.popleft() if self.script else None
        return scripted or self.answer(body)

    def begin(self, port: int) -> None:
        """A client's request comes in."""
        with self._lock:
            self.answering.add(port)
            self.most_in_flight = max(self.most_in_flight, len(self.answering))

    def end(self, port: int) -> None:
        """Its answer is on its way."""
        with self._lock:
            self.answering.discard(port)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def _always_a_summary(_body: dict[str, Any]) -> Answer:
    return summary()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 512

    def __init__(self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler], owner: ModelServer) -> None:
        super().__init__(address, handler)
        self.owner = owner

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hung up is part of the tests, not an error of the server."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # else the body of each answer waits 40 ms for the head's acknowledgement

    def do_POST(self) -> None:
        assert isinstance(self.server, _Server)
        owner = self.server.owner
        owner.begin(self.client_address[1])
        try:
            raw = self.rfile.read(int(self.headers.get("content-length", "0")))
            answer = owner.take(json.loads(raw), {key.lower(): value for key, value in self.headers.items()})
            time.sleep(answer.delay + owner.delay)
            body = answer.body if isinstance(answer.body, bytes) else json.dumps(answer.body).encode()
            self.send_response(answer.status)
            for name, value in {"content-type": answer.content_type, **answer.headers}.items():
                self.send_header(name, value)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            owner.end(self.client_address[1])
            self.wfile.write(body)
        finally:
            owner.end(self.client_address[1])

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 # why: the name of the base class
        """Silent: a test reads `requests` instead."""
