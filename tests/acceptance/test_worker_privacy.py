"""Nothing of a conversation leaves the session's keys: not to the broker, the log, the events, the result."""

from __future__ import annotations

import base64
import contextlib
import json
import re
import threading
from collections.abc import Generator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from celery import Celery

from compactor import Code, Compactor
from compactor.dispatch import broker_options
from compactor.embedded import EmbeddedServer
from compactor.settings import Settings
from compactor.testing import Answer, ModelServer, summary
from tests.acceptance.waiting import wait_until
from tests.acceptance.worker_process import running_worker, short_settings
from tests.integration.conversations import SMALL, SYSTEM, assistant, call, result, rows, user
from tests.integration.stored import bare

PLANTED = ("Xq7-user-secret", "Xq7-tool-output", "Xq7-tool-argument", "Xq7-system-rule", "Xq7-model-reply")


def talk(steps: int) -> list[dict[str, Any]]:
    """A conversation with a planted word in every kind of text."""
    middle: list[dict[str, Any]] = []
    for order in range(steps):
        asked = call(order)
        asked["tool_calls"][0]["function"]["arguments"] = json.dumps({"query": f"Xq7-tool-argument {order}"})
        middle += [asked, result(order, f"Xq7-tool-output {order}\n{rows(order)}")]
    system = {**SYSTEM, "content": "Xq7-system-rule"}
    return [system, user("Xq7-user-secret"), *middle, assistant("Xq7-user-secret, found.")]


def echoing(body: dict[str, Any]) -> Answer:
    """Good summaries; for two tools of the session errors that quote the request, as some servers do."""
    text = str(body["messages"][1]["content"])
    if "Xq7-tool-output 1\n" in text:
        return Answer({"error": {"message": f"cannot read {text}", "code": "bad"}}, status=400)
    if "Xq7-tool-output 2\n" in text:
        return Answer({"choices": [{"message": {"content": {"wrong": text}}}]})
    return summary("Xq7-model-reply as it was.", value="Xq7-model-reply")


def failing(body: dict[str, Any]) -> Answer:
    """An error for every request, which quotes it."""
    return Answer({"error": {"message": str(body), "code": "Xq7-tool-output"}}, status=500)


def dump(server: EmbeddedServer, *, session_keys: bool) -> str:
    """Every key and value of the server that is (not) a session's."""
    found: list[object] = []
    with bare(server) as client:
        for key in client.scan_iter():
            if key.startswith(b"{") != session_keys:
                continue
            kind = client.type(key).decode()
            read = {"list": "lrange", "hash": "hgetall", "string": "get", "set": "smembers", "zset": "zrange"}[kind]
            bounds = (0, -1) if kind in ("list", "zset") else ()
            found += [key, getattr(client, read)(key, *bounds)]
    text = repr(found)
    bodies = re.findall(r'"body": ?"([A-Za-z0-9+/=]+)"', text)
    return text + "".join(base64.b64decode(body).decode() for body in bodies)


def signal(ready: threading.Event, *_args: object, **_kwargs: object) -> None:
    ready.set()


@contextlib.contextmanager
def events_of(settings: Settings) -> Generator[list[dict[str, Any]]]:
    """Every Celery event, as Flower would receive it."""
    app = Celery(broker=settings.broker, set_as_current=False)
    app.conf.broker_transport_options = broker_options(settings)
    seen: list[dict[str, Any]] = []
    ready = threading.Event()
    with app.connection_for_read() as connection:
        receiver: Any = app.events.Receiver(connection, handlers={"*": seen.append})
        receiver.on_consume_ready = partial(signal, ready)
        thread = threading.Thread(target=receiver.capture, kwargs={"wakeup": False}, daemon=True)
        thread.start()
        assert ready.wait(10)
        try:
            yield seen
        finally:
            receiver.should_stop = True
            thread.join(10)
    app.close()


@pytest.mark.parametrize(("manner", "ended"), [(echoing, Code.APPLIED), (failing, Code.SUMMARIZER_FAILED)])
def test_no_planted_word_leaves_the_sessions_keys(
    own_server: EmbeddedServer, tmp_path: Path, manner: Any, ended: Code
) -> None:
    settings = short_settings(own_server.url, "private")
    steps = 9 if ended is Code.APPLIED else 7
    with ModelServer(manner) as model, Compactor(settings=settings) as memory, events_of(settings) as events:
        session = memory.session("private/chat", SMALL)
        session.push(talk(steps))
        assert session.prepare().verdict.compaction == "queued"
        assert all(word in dump(own_server, session_keys=True) for word in PLANTED[:4])
        waiting = dump(own_server, session_keys=False)
        assert '[["private/chat"], {}, ' in waiting, "the task's body is read too"
        with running_worker(settings, tmp_path / "worker.log", model=model, options=("-l", "DEBUG")) as worker:
            outcome = wait_until(lambda: session.status().last, seconds=30, what="the outcome")
            assert outcome.outcome is ended
            wait_until(lambda: [e for e in events if e["type"] == "task-succeeded"], what="the last event")
            assert worker.stop(grace=20) == 0
        places = {
            "broker before": waiting,
            "broker after": dump(own_server, session_keys=False),
            "events": repr(events),
            "log": worker.tail(10_000_000),
            "audit": repr(session.compactions()),
        }
    assert "private/chat" in places["events"]
    assert ": DEBUG/" in places["log"]
    assert {e["type"] for e in events} >= {"task-sent", "task-received", "task-snapshot", "task-summarizing"}
    found = {(place, word) for place, text in places.items() for word in PLANTED if word in text}
    assert found == set()
