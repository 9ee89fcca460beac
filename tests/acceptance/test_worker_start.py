"""A worker that could not keep its promises does not start, and says why."""

from __future__ import annotations

from pathlib import Path

import pytest

from compactor.embedded import EmbeddedServer, start_worker
from compactor.exceptions import ConfigurationError, EmbeddedServerError
from compactor.settings import read_settings
from compactor.summarizer import ModelSummarizer

EVICTING = ("--maxmemory-policy", "volatile-lru")


def test_a_server_that_evicts_is_refused_with_what_to_do(tmp_path: Path) -> None:
    with EmbeddedServer(extra=EVICTING) as server, pytest.raises(EmbeddedServerError) as refused:
        start_worker(env={"REDIS_URL": server.url}, log=tmp_path / "worker.log")
    assert "maxmemory-policy is volatile-lru" in str(refused.value)
    assert "COMPACTOR_ALLOW_EVICTION_POLICY=volatile-lru" in str(refused.value)


def test_a_server_behind_a_socket_file_is_looked_at_as_well(server: EmbeddedServer, tmp_path: Path) -> None:
    socket = tmp_path / "redis.sock"
    env = {"REDIS_URL": f"unix://{socket}", "CELERY_BROKER_URL": server.url}
    extra = (*EVICTING, "--unixsocket", str(socket))
    with EmbeddedServer(extra=extra), pytest.raises(EmbeddedServerError, match="volatile-lru"):
        start_worker(env=env, log=tmp_path / "worker.log")


def test_a_broker_that_evicts_is_refused_too(server: EmbeddedServer, tmp_path: Path) -> None:
    with EmbeddedServer(extra=EVICTING) as broker, pytest.raises(EmbeddedServerError, match="volatile-lru"):
        start_worker(env={"REDIS_URL": server.url, "CELERY_BROKER_URL": broker.url}, log=tmp_path / "worker.log")


def test_a_policy_accepted_by_name_is_a_warning(tmp_path: Path) -> None:
    with EmbeddedServer(extra=EVICTING) as server:
        env = {"REDIS_URL": server.url, "COMPACTOR_ALLOW_EVICTION_POLICY": "volatile-lru"}
        worker = start_worker(env=env, log=tmp_path / "worker.log")
        assert "allowed by COMPACTOR_ALLOW_EVICTION_POLICY" in worker.tail(20_000)
        assert worker.stop() == 0


def test_a_model_without_its_sdk_is_refused_at_the_start(server: EmbeddedServer, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.modules['openai'] = None\n", encoding="utf-8")
    env = {
        "REDIS_URL": server.url,
        "OPENAI_BASE_URL": "http://127.0.0.1:1/v1",
        "COMPACTOR_SUMMARIZER_MODEL": "cheap",
        "PYTHONPATH": str(tmp_path),
    }
    with pytest.raises(EmbeddedServerError, match=r"pip install 'compactor\[worker\]'"):
        start_worker(env=env, log=tmp_path / "worker.log")


def test_a_summarizer_needs_a_models_name() -> None:
    with pytest.raises(ConfigurationError, match="COMPACTOR_SUMMARIZER_MODEL"):
        ModelSummarizer(read_settings())
