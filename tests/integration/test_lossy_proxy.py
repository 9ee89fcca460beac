"""The public proxy does to a connection what its methods say, and counts it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from compactor.embedded import EmbeddedServer
from compactor.testing import LossyProxy


@pytest.fixture
def standing(server: EmbeddedServer) -> Iterator[LossyProxy]:
    with LossyProxy(server.port) as proxy:
        yield proxy


@pytest.fixture
def client(standing: LossyProxy) -> Iterator[Any]:
    """A client that tries each command once."""
    clients: Any = redis.Redis
    made = clients.from_url(standing.url, retry=Retry(NoBackoff(), 0), socket_timeout=5)
    with made:
        yield made


@pytest.fixture
def counter(server: EmbeddedServer, request: pytest.FixtureRequest) -> Iterator[str]:
    name = f"proxy:{request.node.name}"
    yield name
    direct: Any = redis.Redis(port=server.port)
    with direct:
        direct.delete(name)


def test_a_request_that_is_cut_is_not_executed(standing: LossyProxy, client: Any, counter: str) -> None:
    client.ping()
    standing.cut(requests=1)
    with pytest.raises(redis.ConnectionError):
        client.incr(counter)
    assert client.incr(counter) == 1
    assert standing.cut_off == 1


def test_a_reply_that_is_lost_was_executed(standing: LossyProxy, client: Any, counter: str) -> None:
    client.ping()
    standing.lose(replies=1)
    with pytest.raises(redis.ConnectionError):
        client.incr(counter)
    assert client.incr(counter) == 2
    assert standing.lost == 1


def test_who_is_refused_comes_back_after_healing(standing: LossyProxy, client: Any, counter: str) -> None:
    client.ping()
    standing.refuse()
    for _ in range(2):
        with pytest.raises(redis.ConnectionError):
            client.incr(counter)
    assert standing.refused >= 1
    standing.heal()
    assert client.incr(counter) == 1


def test_healing_forgets_what_was_still_to_come(standing: LossyProxy, client: Any, counter: str) -> None:
    standing.cut(requests=5)
    standing.lose(replies=5)
    standing.heal()
    assert [client.incr(counter) for _ in range(3)] == [1, 2, 3]
    assert (standing.cut_off, standing.lost) == (0, 0)
