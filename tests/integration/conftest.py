"""Clients and stores of both kinds on the shared server, and servers that a test may break."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from compactor.embedded import EmbeddedServer
from compactor.secret_box import new_key
from compactor.settings import Settings, read_settings
from tests.integration.clients import KINDS, Client, Connect, StoreClient, open_client, open_store
from tests.integration.config_stores import open_configs, with_keys
from tests.integration.inline_worker import InlineWorker
from tests.integration.lossy_proxy import LossyProxy
from tests.integration.stored import bare


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    """Blocking, then asyncio."""
    return str(request.param)


@pytest.fixture
def connect(kind: str) -> Iterator[Connect]:
    """Opens clients of the kind under test; each is one process's view of Redis."""
    opened: list[Client] = []

    def opening(settings: Settings) -> Client:
        opened.append(open_client(kind, settings))
        return opened[-1]

    yield opening
    for client in opened:
        client.close()


@pytest.fixture
def memory(connect: Connect, settings: Settings) -> Client:
    return connect(settings)


@pytest.fixture
def store(kind: str, settings: Settings) -> Iterator[StoreClient]:
    opened = open_store(kind, settings)
    yield opened
    opened.close()


@pytest.fixture
def worker(settings: Settings, store: StoreClient) -> InlineWorker:
    return InlineWorker(settings, store)


@pytest.fixture
def ring() -> str:
    """A keyring of one key."""
    return new_key()


@pytest.fixture
def configs(settings: Settings, ring: str, kind: str) -> Iterator[Any]:
    """The store of model configs of the kind under test, with a keyring."""
    opened = open_configs(kind, with_keys(settings, ring))
    yield opened
    opened.close()


@pytest.fixture
def raw(server: EmbeddedServer) -> Iterator[Any]:
    """A bare client, to look at what is stored."""
    with bare(server) as client:
        yield client


@pytest.fixture
def own_server() -> Iterator[EmbeddedServer]:
    """A server of one test, which may stop it, kill it or count its commands."""
    with EmbeddedServer() as running:
        yield running


@pytest.fixture
def own_settings(own_server: EmbeddedServer) -> Settings:
    return read_settings(redis_url=own_server.url, namespace="own")


@pytest.fixture
def proxy(server: EmbeddedServer) -> Iterator[LossyProxy]:
    with LossyProxy(server.port) as standing:
        yield standing


@pytest.fixture
def through_proxy(settings: Settings, proxy: LossyProxy) -> Settings:
    """The same namespace, reached through the proxy; the broker is reached without it."""
    return read_settings(
        redis_url=proxy.url, broker_url=settings.redis_url.get_secret_value(), namespace=settings.namespace
    )
