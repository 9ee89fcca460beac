"""Worker processes with time limits that a test can wait for."""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Mapping, Sequence
from pathlib import Path

from compactor.embedded import Child, start_worker
from compactor.settings import Settings, read_settings
from compactor.testing import ModelServer

SHORT = {
    "call_connect_timeout": 0.5,
    "call_timeout": 2.0,
    "compaction_deadline": 3.0,
    "claim_lease": 4.0,
    "visibility_timeout": 6.0,
    "stop_grace": 5.0,
    "max_attempts": 2,
    "breaker_failures": 1_000,  # the failures of one test are no reason to refuse the calls of another
    "breaker_pause": 3.0,
}


def short_settings(redis_url: str, namespace: str, *, broker_url: str | None = None) -> Settings:
    """Settings under which every limit of a compaction runs out within seconds."""
    return read_settings(redis_url=redis_url, broker_url=broker_url, namespace=namespace, **SHORT)


def environment(settings: Settings) -> dict[str, str]:
    """The variables under which a process has the same servers, namespace and limits."""
    return {
        "REDIS_URL": settings.redis_url.get_secret_value(),
        "CELERY_BROKER_URL": settings.broker,
        "COMPACTOR_NAMESPACE": settings.namespace,
        **{f"COMPACTOR_{name.upper()}": str(getattr(settings, name)) for name in SHORT},
    }


@contextlib.contextmanager
def running_worker(
    settings: Settings,
    log: Path,
    *,
    model: ModelServer | None = None,
    options: Sequence[str] = (),
    more: Mapping[str, str] | None = None,
) -> Generator[Child]:
    """A ready worker process on these settings; with a model, or without one for extracts; `more`: environment."""
    env = {**environment(settings), "COMPACTOR_TENANT_PUBLISHED": str(settings.tenant_published), **(more or {})}
    if model is not None:
        env |= {"OPENAI_BASE_URL": model.url, "OPENAI_API_KEY": "test", "COMPACTOR_SUMMARIZER_MODEL": "cheap"}
    child = start_worker(env=env, log=log, concurrency=32, options=options)
    try:
        yield child
    finally:
        child.stop(grace=20)
