"""One server, one worker with a model and one without for all faults; a bot, an inline worker and a bare client."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from compactor import Compactor
from compactor.embedded import EmbeddedServer
from compactor.settings import Settings, read_settings
from compactor.store import Store
from compactor.testing import ModelServer
from tests.acceptance.conftest import Service, serving
from tests.acceptance.scripted_model import scripted_model
from tests.integration.inline_worker import InlineWorker
from tests.integration.stored import bare


@pytest.fixture(scope="session")
def model() -> Iterator[ModelServer]:
    """The cheap model; its manners follow a word in the tool results."""
    with scripted_model() as running:
        yield running


@pytest.fixture(scope="session")
def modelled(server: EmbeddedServer, model: ModelServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A worker that has a model."""
    yield from serving(server, tmp_path_factory, "faults-modelled", model)


@pytest.fixture(scope="session")
def modelless(server: EmbeddedServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A worker without a model: extracts only."""
    yield from serving(server, tmp_path_factory, "faults-modelless", None)


@pytest.fixture
def memory(settings: Settings) -> Iterator[Compactor]:
    """A bot's client, in a namespace without a worker process."""
    with Compactor(settings=settings) as opened:
        yield opened


@pytest.fixture
def worker(settings: Settings) -> Iterator[InlineWorker]:
    """The worker's part in this process, step by step where a test asks."""
    with Store(settings) as store:
        yield InlineWorker(settings, store)


@pytest.fixture
def raw(server: EmbeddedServer) -> Iterator[Any]:
    """A bare client, to look at what is stored and to damage it."""
    with bare(server) as client:
        yield client


@pytest.fixture
def own_server() -> Iterator[EmbeddedServer]:
    """A server of one test, which may stop it, fill it or count its commands."""
    with EmbeddedServer() as running:
        yield running


@pytest.fixture
def own_settings(own_server: EmbeddedServer) -> Settings:
    return read_settings(redis_url=own_server.url, namespace="own")
