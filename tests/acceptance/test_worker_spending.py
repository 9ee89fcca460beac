"""The spend cap of a tenant's day, held by two worker processes together, and told in log, outcome and status."""

from __future__ import annotations

import json
import uuid
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from compactor import Compactor, Outcome, Session
from compactor.embedded import EmbeddedServer, start_worker
from compactor.exceptions import EmbeddedServerError
from compactor.settings import read_settings
from compactor.testing import Answer, ModelServer, completion
from tests.acceptance.cli_process import run
from tests.acceptance.waiting import wait_until
from tests.integration.conversations import SMALL, conversation

CAP = 30_000  # micro-dollars: room for two of the sessions
SESSIONS = 6


def answer(_body: dict[str, Any]) -> Answer:
    """A summary by a model that reads and writes much."""
    return completion(json.dumps({"facts": [], "note": "It returned rows."}), tokens=(1_200, 380))


def test_two_workers_hold_one_cap_and_say_what_they_did(server: EmbeddedServer, tmp_path: Path) -> None:
    namespace = f"capped{uuid.uuid4().hex[:8]}"
    prices = tmp_path / "prices.json"
    prices.write_text(json.dumps({"cheap": {"input": 1, "output": 2}}))
    env = {
        "REDIS_URL": server.url, "COMPACTOR_NAMESPACE": namespace, "COMPACTOR_PRICES_FILE": str(prices),
        "COMPACTOR_TENANT_DAILY_DOLLARS": "0.03",
    }  # fmt: skip
    with ModelServer(answer) as model:
        asking = {"OPENAI_BASE_URL": model.url, "OPENAI_API_KEY": "test", "COMPACTOR_SUMMARIZER_MODEL": "cheap"}
        workers = [
            start_worker(env=env | asking, log=tmp_path / f"{name}.log", concurrency=4) for name in ("one", "two")
        ]
        try:
            settings = read_settings(redis_url=server.url, namespace=namespace, tenant_daily_dollars="0.03")
            ended = compacted(Compactor(settings=settings))
        finally:
            for worker in workers:
                worker.stop(grace=20)
    capped = [outcome for outcome in ended if outcome.reason == "spend_cap"]
    assert 0 < len(capped) < SESSIONS
    assert all(outcome.by_extract == outcome.items > 0 for outcome in capped)
    assert all(outcome.by_model for outcome in ended if outcome not in capped)
    today = run("status", "--tenant", "acme", "--json", env=env).rows[0]
    assert today["micro"] == sum(outcome.bill.spent or 0 for outcome in ended if outcome.bill) <= CAP
    assert (today["capped"], today["compactions"]) == (len(capped), SESSIONS)
    assert "of $0.0300; 6 compactions, " in run("status", "acme/0", env=env | {"COLUMNS": "200"}).out
    assert f"{len(capped)} with extracts since a cap was reached" in run("sessions", "--tenant", "acme", env=env).err
    log = "".join((tmp_path / f"{name}.log").read_text(encoding="utf-8") for name in ("one", "two"))
    assert log.count("its tenant's model calls are at their cap of the day") == len(capped)
    assert log.count(" replaced; spent $0") == SESSIONS


def last_of(session: Session) -> Outcome | None:
    return session.status().last


def compacted(memory: Compactor) -> list[Outcome]:
    """The outcomes of as many sessions as there are, compacted at once."""
    with memory:
        sessions = [memory.session(f"acme/{number}", SMALL) for number in range(SESSIONS)]
        for session in sessions:
            session.push(conversation(9))
        for session in sessions:
            assert session.prepare().verdict.compaction == "queued"
        return [wait_until(partial(last_of, each)) for each in sessions]


def test_a_cap_in_money_without_a_price_is_refused_at_the_start(server: EmbeddedServer, tmp_path: Path) -> None:
    env = {
        "REDIS_URL": server.url, "COMPACTOR_TENANT_DAILY_DOLLARS": "5", "OPENAI_BASE_URL": "http://127.0.0.1:1/v1",
        "COMPACTOR_SUMMARIZER_MODEL": "cheap",
    }  # fmt: skip
    with pytest.raises(
        EmbeddedServerError, match="COMPACTOR_SUMMARIZER_MODEL is not known, so nothing could be counted"
    ):
        start_worker(env=env, log=tmp_path / "worker.log")
