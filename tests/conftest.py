"""Shared fixtures: a real server for each test that asks for one, and the recorded conversations."""

from __future__ import annotations

import gzip
import json
import os
import signal
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck
from hypothesis import settings as hypothesis_settings
from kombu import pools

from compactor.embedded import EmbeddedServer
from compactor.settings import Settings, read_settings
from tests.clusters import LocalCluster

SHARED = Path(__file__).resolve().parents[2] / "shared" / "trajectories"

hypothesis_settings.register_profile("suite", deadline=None, suppress_health_check=[HealthCheck.too_slow])
hypothesis_settings.load_profile("suite")
# In the background a shell starts its children deaf to Ctrl-C, and they hand that on to the commands under test.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session", autouse=True)
def _clean_environment() -> Iterator[None]:
    """No setting of the machine reaches a test."""
    patch = pytest.MonkeyPatch()
    for name in list(os.environ):
        if name.startswith(("COMPACTOR_", "OPENAI_", "FLOWER_")) or name in ("REDIS_URL", "CELERY_BROKER_URL"):
            patch.delenv(name)
    yield
    patch.undo()


@pytest.fixture(autouse=True)
def _no_open_files_are_left() -> Iterator[None]:
    """kombu keeps a file open for each broker it ever spoke to; a suite speaks to hundreds."""
    yield
    pools.reset()


@pytest.fixture(scope="session")
def server() -> Iterator[EmbeddedServer]:
    """One real server for the whole run; tests keep apart by namespace."""
    with EmbeddedServer() as running:
        yield running


@pytest.fixture(scope="session")
def cluster() -> Iterator[LocalCluster]:
    """One real cluster for the whole run; tests that break it make their own."""
    with LocalCluster() as running:
        yield running


@pytest.fixture
def settings(server: EmbeddedServer) -> Settings:
    """Settings on the server, in a namespace that no other test uses."""
    return read_settings(redis_url=server.url, namespace=f"t{uuid.uuid4().hex[:12]}")


def recorded(name: str, *, most: int | None = None) -> list[dict[str, Any]]:
    """Recorded sessions of one shared file; skips the test when the data is absent."""
    path = SHARED / f"{name}.jsonl.gz"
    if not path.exists():
        pytest.skip(f"shared recorded conversations are absent: {path.name}")
    sessions: list[dict[str, Any]] = []
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            if most is not None and len(sessions) >= most:
                break
            sessions.append(json.loads(line))
    return sessions
