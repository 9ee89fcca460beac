"""Where a command runs: on REDIS_URL and its worker when it is set, else on embedded ones."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from compactor.embedded import Child, EmbeddedServer, start_worker
from compactor.settings import Settings, read_settings


@contextmanager
def backend(*, workers: int = 1) -> Generator[Settings]:
    """Settings of a server with a worker. Embedded ones end with the block. Raises EmbeddedServerError."""
    if os.environ.get("REDIS_URL"):
        yield read_settings()
        return
    folder = Path(tempfile.mkdtemp(prefix="compactor-"))
    children: list[Child] = []
    try:
        with EmbeddedServer(folder=folder / "server") as server:
            env = {"REDIS_URL": server.url, "CELERY_BROKER_URL": server.url}
            for number in range(workers):
                log = folder / f"worker-{number}.log"
                children.append(start_worker(env=env, log=log, options=["-n", f"worker-{number}@%h"]))
            yield read_settings(redis_url=server.url, broker_url=server.url)
            for child in children:
                child.stop()
    finally:
        for child in children:
            child.stop(grace=5)
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def server_only() -> Generator[Settings]:
    """Settings of a server without a worker: REDIS_URL, else an embedded one that ends with the block."""
    if os.environ.get("REDIS_URL"):
        yield read_settings()
        return
    with EmbeddedServer() as server:
        yield read_settings(redis_url=server.url, broker_url=server.url)
