"""Every task ends in Flower as it ended in the worker; and watching a compaction never costs one."""

from __future__ import annotations

import signal
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from compactor.client import Compactor
from compactor.dispatch import Dispatcher
from compactor.embedded import Child, EmbeddedServer, start_worker
from compactor.models import Code, CompactionId, SessionId
from compactor.settings import read_settings
from compactor.testing import Answer, ModelServer, summary
from tests.acceptance.watched import PATIENCE, converse, eventually, watch

pytest.importorskip("flower", reason="Flower is not installed: pip install 'compactor[worker]'")


def test_every_task_ends_in_flower(tmp_path: Path) -> None:
    tasks = 200
    with EmbeddedServer() as server:
        env = {"REDIS_URL": server.url}
        worker, flower = start_worker(env=env, log=tmp_path / "worker.log"), watch(env, tmp_path)
        eventually(lambda: any(flower.json("/api/workers?status=1").values()), "the worker in Flower")
        dispatcher = Dispatcher(read_settings(redis_url=server.url))
        for number in range(tasks):
            dispatcher.publish(SessionId(f"acme/{number}"), CompactionId(f"owner-{number}"))
        dispatcher.close()
        eventually(lambda: worker.tail(1 << 30).count("succeeded in") == tasks, "every task's end in the log")

        def ended() -> int:
            seen = flower.json(f"/api/tasks?limit={tasks}").values()
            return Counter(task["state"] for task in seen)["SUCCESS"]

        try:
            eventually(lambda: ended() == tasks, "every task's end in Flower", timeout=10)
        finally:
            flower.child.stop()
            worker.stop()


def killed(broker: Child) -> None:
    broker.kill()


def frozen(broker: Child) -> None:
    broker.process.send_signal(signal.SIGSTOP)


@pytest.mark.parametrize("lost", [killed, frozen])
def test_a_compaction_goes_on_without_the_broker_that_carries_its_events(
    lost: Callable[[Child], None], tmp_path: Path
) -> None:
    gate = threading.Event()

    def answer(_: dict[str, Any]) -> Answer:
        gate.wait(PATIENCE)
        return summary()

    with EmbeddedServer() as store, EmbeddedServer() as broker, ModelServer(answer) as model:
        env = {
            "REDIS_URL": store.url,
            "CELERY_BROKER_URL": broker.url,
            "OPENAI_BASE_URL": model.url,
            "COMPACTOR_SUMMARIZER_MODEL": "cheap-model",
        }
        worker = start_worker(env=env, log=tmp_path / "worker.log")
        with Compactor(settings=read_settings(redis_url=store.url, broker_url=broker.url)) as memory:
            session = converse(memory, "acme/alone", 12)
            assert session.prepare().verdict.compaction == "queued"
            eventually(lambda: model.in_flight > 3, "calls to the model")
            lost(broker.child)
            gate.set()
            try:
                outcome = eventually(lambda: session.status().last, "an outcome", timeout=20)
            finally:
                worker.kill()
                broker.child.kill()
        assert outcome.outcome is Code.APPLIED
