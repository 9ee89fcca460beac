"""The broker away while the store works: one short attempt per pause, and sends go on."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Iterator

import pytest

from compactor import DispatchError
from compactor.embedded import EmbeddedServer, free_port
from compactor.settings import Settings
from tests.integration.clients import Connect, SessionClient
from tests.integration.conversations import SMALL, conversation, step, user
from tests.integration.stored import bare


class BlackHole:
    """A listener that counts connections and closes each at once, or never answers."""

    def __init__(self, *, answers_never: bool) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._never = answers_never
        self._held: list[socket.socket] = []
        self.connections = 0
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self._listener.getsockname()[1]}/0"

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                self.connections += 1
                if self._never:
                    self._held.append(connection)
                else:
                    connection.close()

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(5)
        for connection in self._held:
            connection.close()


@pytest.fixture(params=[False, True], ids=["closes", "never-answers"])
def black_hole(request: pytest.FixtureRequest) -> Iterator[BlackHole]:
    standing = BlackHole(answers_never=request.param)
    yield standing
    standing.close()


def over(session: SessionClient) -> SessionClient:
    session.push([*conversation(9), user("And now?")])
    return session


def test_a_broker_that_is_down_costs_one_short_attempt_and_prepare_goes_on(
    connect: Connect, settings: Settings, black_hole: BlackHole
) -> None:
    broken = settings.model_copy(update={"broker_url": type(settings.redis_url)(black_hole.url), "read_timeout": 0.3})
    session = over(connect(broken).session("outage/broker", SMALL))
    started = time.monotonic()
    context = session.prepare()
    assert time.monotonic() - started < 2
    assert context.verdict.compaction == "held(broker_down)"
    assert context.verdict.sent <= context.verdict.ceiling
    attempts = black_hole.connections
    assert attempts >= 1
    for _ in range(5):
        assert session.prepare().verdict.compaction == "held(broker_down)"
    assert black_hole.connections == attempts
    assert session.status().claim == "idle"


def test_when_the_broker_is_back_the_next_send_after_the_pause_queues(connect: Connect, settings: Settings) -> None:
    port = free_port()
    broken = settings.model_copy(update={"broker_url": type(settings.redis_url)(f"redis://127.0.0.1:{port}/0")})
    session = over(connect(broken).session("outage/back", SMALL))
    assert session.prepare().verdict.compaction == "held(broker_down)"
    with EmbeddedServer(port=port) as broker:
        until = time.monotonic() + 5
        while session.prepare().verdict.compaction != "queued":
            assert time.monotonic() < until
            time.sleep(0.05)
        with bare(broker) as client:
            assert client.llen(f"{settings.namespace}:compaction.{settings.namespace}") == 1


def test_compact_says_that_the_broker_is_down(connect: Connect, settings: Settings) -> None:
    broken = settings.model_copy(
        update={"broker_url": type(settings.redis_url)(f"redis://:sesame@127.0.0.1:{free_port()}/0")}
    )
    session = over(connect(broken).session("outage/compact", SMALL))
    with pytest.raises(DispatchError, match="CELERY_BROKER_URL") as caught:
        session.compact(wait=5)
    assert "sesame" not in str(caught.value)
    assert session.status().claim == "idle"
    assert session.push(step(50)).length == 24
