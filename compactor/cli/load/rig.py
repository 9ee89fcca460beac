"""What measurements run on: an embedded server, a model over HTTP in this process, and worker processes."""

from __future__ import annotations

import secrets
import tempfile
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from compactor.embedded import Child, EmbeddedServer, start_worker
from compactor.exceptions import ConfigurationError, EmbeddedServerError
from compactor.settings import Settings, read_settings
from compactor.testing import ModelServer


@dataclass(frozen=True, slots=True)
class Used:
    """What processes used: CPU seconds in all, and resident bytes now."""

    cpu: float
    memory: int


@dataclass(frozen=True, slots=True)
class Rig:
    """The servers, and where workers are started."""

    server: EmbeddedServer
    model: ModelServer
    folder: Path

    def settings(self, **values: Any) -> Settings:
        """Settings on the server, in a namespace of their own."""
        return read_settings(
            redis_url=self.server.url, broker_url=self.server.url, namespace=f"b{secrets.token_hex(6)}", **values
        )

    @contextmanager
    def workers(self, settings: Settings, *, processes: int, concurrency: int) -> Generator[list[Child]]:
        """Worker processes that are ready; they stop with the block. Raises EmbeddedServerError."""
        env = {
            "REDIS_URL": self.server.url,
            "CELERY_BROKER_URL": self.server.url,
            "COMPACTOR_NAMESPACE": settings.namespace,
            "COMPACTOR_TENANT_PUBLISHED": str(settings.tenant_published),
            "OPENAI_BASE_URL": self.model.url,
            "OPENAI_API_KEY": "none",
            "COMPACTOR_SUMMARIZER_MODEL": "fake",
        }
        started: list[Child] = []
        try:
            for number in range(processes):
                name = f"{settings.namespace}-{number}"
                log, options = self.folder / f"{name}.log", ["-n", f"{name}@%h"]
                started.append(start_worker(env=env, log=log, concurrency=concurrency, options=options))
            yield started
        finally:
            for child in started:
                child.stop(grace=20)


@contextmanager
def rig(*, latency: float) -> Generator[Rig]:
    """A rig whose model takes `latency` seconds for each answer. Raises EmbeddedServerError."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="compactor-")))
        server = stack.enter_context(EmbeddedServer(folder=folder / "server"))
        yield Rig(server, stack.enter_context(ModelServer(delay=latency)), folder)


def used(children: Sequence[Child]) -> Used:
    """What these processes have used so far. Raises ConfigurationError without psutil."""
    if find_spec("psutil") is None:
        raise ConfigurationError("bench: needs psutil. pip install 'compactor[bench]'.")
    import psutil

    cpu, memory = 0.0, 0
    for child in children:
        process = psutil.Process(child.process.pid)
        times = process.cpu_times()
        cpu += times.user + times.system
        memory += process.memory_info().rss
    return Used(cpu, memory)


def wait_for(done: Callable[[], bool], *, seconds: float, what: str) -> None:
    """Raises EmbeddedServerError when it does not come about in time."""
    until = time.monotonic() + seconds
    while not done():
        if time.monotonic() > until:
            raise EmbeddedServerError(f"bench: {what} did not end within {seconds:.0f} s.")
        time.sleep(0.1)
