"""A checkpoint of a session whose audit was lost, garbled or copied."""

from __future__ import annotations

from typing import Any

import pytest

from compactor.settings import Settings
from tests.integration.clients import Client, SessionClient
from tests.integration.conversations import SMALL, call, result, rows, user
from tests.integration.inline_worker import InlineWorker
from tests.integration.stored import keys_of


def compacted(memory: Client, worker: InlineWorker, name: str) -> SessionClient:
    """A session of which a compaction replaced something."""
    session = memory.session(name, SMALL)
    session.push([user("Look."), *(m for n in range(8) for m in (call(n), result(n, rows(n, 60))))])
    session.prepare()
    assert worker.work(name).outcome.items
    return session


def test_a_fork_has_the_checkpoint_of_its_source(memory: Client, worker: InlineWorker) -> None:
    session = compacted(memory, worker, "checkpoint/source")
    whole = session.checkpoint()
    assert whole is not None
    assert session.fork("checkpoint/fork").checkpoint() == {**whole, "conversation_id": "checkpoint/fork"}


@pytest.mark.parametrize("at", ["1e300", "-1e300", "1e17", "NaN", None])
def test_without_a_time_in_the_audit_the_epoch_stands_for_it(
    memory: Client, worker: InlineWorker, raw: Any, settings: Settings, at: str | None
) -> None:
    session = compacted(memory, worker, "checkpoint/garbled")
    whole = session.checkpoint()
    assert whole is not None
    audit = keys_of(settings, "checkpoint/garbled").audit
    raw.delete(audit)
    if at is not None:
        places = list(range(100))
        raw.rpush(audit, f'{{"outcome":"applied","positions":{places},"at":{at}}}')
    assert session.checkpoint() == {**whole, "tokens_before": 0, "created_at": "1970-01-01T00:00:00+00:00"}
