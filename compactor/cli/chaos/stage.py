"""Everything that runs in a chaos run: server, proxies, models, workers, bot processes."""

from __future__ import annotations

import sys
from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import redis

from compactor.cli.chaos.board import Board
from compactor.cli.chaos.host import Spec
from compactor.cli.chaos.model import ChaosModel
from compactor.cli.chaos.outages import Outage
from compactor.cli.chaos.workers import Workers
from compactor.dispatch import Dispatcher
from compactor.embedded import Child, EmbeddedServer
from compactor.settings import Settings, read_settings
from compactor.testing import LossyProxy, ModelServer

WORKERS: Final = 2
# Everything that a crash delays runs out within seconds, so that one run sees it hundreds of times.
TIMES: Final = {
    "call_connect_timeout": 0.5,
    "call_timeout": 1.2,
    "compaction_deadline": 2.5,
    "claim_lease": 3.0,
    "queue_patience": 6.0,
    "breaker_pause": 1.0,
    "visibility_timeout": 8.0,
    "stop_grace": 6.0,
    "session_ttl": 3_600.0,
}
SERVER_OPTIONS: Final = (
    # With `everysec` a write may wait up to 2 s for a sync that is under way, acknowledged or not.
    "--appendfsync", "no",
    "--enable-debug-command", "local",
    "--loading-process-events-interval-bytes", "1024",
)  # fmt: skip


@dataclass(slots=True)
class Stage:
    """The run's actors, for the faults to hit."""

    folder: Path
    server: EmbeddedServer
    to_bots: LossyProxy
    to_workers: Sequence[LossyProxy]
    broker: LossyProxy
    model: ChaosModel
    models: Sequence[ModelServer]
    workers: Workers
    board: Board
    settings: Settings
    publisher: Dispatcher
    sessions: Sequence[str] = ()
    bots: list[Child] = field(default_factory=list[Child])
    specs: list[Spec] = field(default_factory=list[Spec])
    in_flight: int = 0  # calls to the model whose answer a worker had not read when it was killed
    frozen: int = 0  # the same, of workers that were frozen until their lease was over
    stranded: int = 0  # of either, calls whose answer came while Redis could not take it
    unsaved: int = 0  # all whose answer had not reached Redis by then
    outages: list[Outage] = field(default_factory=list[Outage])

    def control(self) -> Any:
        """A connection of the run's own, past the proxies."""
        client: Any = redis.Redis(port=self.server.port, socket_timeout=10)
        return client

    def errors(self, code: str) -> int:
        """How often the server answered with this error since it started."""
        with self.control() as control:
            return int(control.info("errorstats").get(f"errorstat_{code}", {}).get("count", 0))

    def start_bots(self, row: int) -> None:
        """Starts one process of bots; again after it was killed."""
        spec = self.specs[row]
        path = self.folder / f"bots-{row}.json"
        spec.write(path)
        arguments = [sys.executable, "-m", "compactor.cli.chaos.host", str(path)]
        child = Child(arguments, log=self.folder / f"bots-{row}-{spec.life}.log")
        if row < len(self.bots):
            self.bots[row] = child
        else:
            self.bots.append(child)
        self.specs[row] = replace(spec, life=spec.life + 1)

    def heal(self) -> None:
        """Takes every lasting fault back."""
        for proxy in (self.to_bots, *self.to_workers, self.broker):
            proxy.heal()
        self.model.disarm()
        with self.control() as control:
            control.config_set("maxmemory", "0")
            control.execute_command("REPLICAOF", "NO", "ONE")


def bot_settings(stage: Stage) -> dict[str, Any]:
    """The settings of the bots, as `read_settings` takes them."""
    return {
        "redis_url": stage.to_bots.url, "broker_url": stage.broker.url, "namespace": stage.settings.namespace, **TIMES,
    }  # fmt: skip


def _worker_env(store: LossyProxy, broker: LossyProxy, model: ModelServer, namespace: str) -> dict[str, str]:
    times = {f"COMPACTOR_{name.upper()}": str(value) for name, value in TIMES.items()}
    return {
        "REDIS_URL": store.url,
        "CELERY_BROKER_URL": broker.url,
        "COMPACTOR_NAMESPACE": namespace,
        "COMPACTOR_SUMMARIZER_MODEL": "small",
        "OPENAI_BASE_URL": model.url,
        "OPENAI_API_KEY": "chaos",
        **times,
    }


@contextmanager
def stage(folder: Path, *, rows: int, model: ChaosModel) -> Generator[Stage]:
    """Server, proxies, models and workers, ready; bots are started later. All end with the block."""
    with ExitStack() as stack:
        server = stack.enter_context(EmbeddedServer(folder=folder / "server", extra=SERVER_OPTIONS))
        to_bots, broker, *to_workers = (stack.enter_context(LossyProxy(server.port)) for _ in range(2 + WORKERS))
        models = [stack.enter_context(ModelServer(partial(model.answer, slot))) for slot in range(WORKERS)]
        settings = read_settings(redis_url=server.url, broker_url=server.url, namespace="chaos", **TIMES)
        envs = [
            _worker_env(store, broker, one, settings.namespace) for store, one in zip(to_workers, models, strict=True)
        ]
        workers = stack.enter_context(Workers(envs, folder))
        workers.wait(workers.all_running, 60)
        board = stack.enter_context(Board(folder / "board", rows))
        publisher = Dispatcher(settings)
        stack.callback(publisher.close)
        made = Stage(
            folder, server, to_bots, to_workers, broker, model, models, workers, board, settings, publisher
        )  # fmt: skip
        stack.callback(_end_bots, made)
        yield made


def _end_bots(made: Stage) -> None:
    for child in made.bots:
        if child.process.poll() is None:
            child.kill()
