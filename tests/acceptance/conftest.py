"""Worker processes that serve a whole run, each in a namespace of its own on the shared server."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from compactor import Compactor, ModelConfig, Session
from compactor.embedded import Child, EmbeddedServer
from compactor.settings import Settings
from compactor.testing import ModelServer
from tests.acceptance.scripted_model import scripted_model
from tests.acceptance.worker_process import running_worker, short_settings


@dataclass(frozen=True, slots=True)
class Service:
    """A running worker, the settings under which bots reach it, and a client."""

    settings: Settings
    worker: Child
    memory: Compactor

    def session(self, name: str, config: ModelConfig) -> Session:
        """A session that no other test uses."""
        return self.memory.session(f"{name}-{uuid.uuid4().hex[:8]}", config)


def serving(
    server: EmbeddedServer, factory: pytest.TempPathFactory, namespace: str, model: ModelServer | None
) -> Iterator[Service]:
    settings = short_settings(server.url, namespace)
    log = factory.mktemp(namespace) / "worker.log"
    with running_worker(settings, log, model=model) as worker, Compactor(settings=settings) as memory:
        yield Service(settings, worker, memory)


@pytest.fixture(scope="session")
def model() -> Iterator[ModelServer]:
    """The cheap model; its manners follow a word in the tool results."""
    with scripted_model() as running:
        yield running


@pytest.fixture(scope="session")
def modelled(server: EmbeddedServer, model: ModelServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A worker that has a model."""
    yield from serving(server, tmp_path_factory, "modelled", model)


@pytest.fixture(scope="session")
def modelless(server: EmbeddedServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A worker without a model: extracts only."""
    yield from serving(server, tmp_path_factory, "modelless", None)


@pytest.fixture
def own_server() -> Iterator[EmbeddedServer]:
    """A server of one test, which may kill it."""
    with EmbeddedServer() as running:
        yield running
