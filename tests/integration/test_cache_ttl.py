"""A send after a longer pause than the provider's cache lives: from half the threshold on it takes the claim."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from compactor import Code, ModelConfig
from compactor.commands.command import session_keys
from compactor.models import session_id
from compactor.settings import Settings
from tests.integration.clients import Client
from tests.integration.conversations import conversation
from tests.integration.inline_worker import InlineWorker

NAME = "cold/chat"
LARGE = ModelConfig("gpt-4o", 13, cache_ttl=300)  # the conversation fills more than half of its threshold


@pytest.fixture
def state(settings: Settings) -> str:
    return session_keys(settings.namespace, session_id(NAME)).state


def paused(raw: Any, state: str, seconds: float) -> None:
    """The last send was so long ago."""
    raw.hset(state, "sent_at", int(float(raw.time()[0] - seconds) * 1000))


def test_a_pause_longer_than_the_cache_lives_makes_a_compaction_due(
    memory: Client, worker: InlineWorker, raw: Any, state: str
) -> None:
    session = memory.session(NAME, LARGE)
    session.push(conversation(9))
    first = session.prepare().verdict
    assert (first.compaction, first.over_threshold) == ("not_needed", False)
    assert first.total > first.threshold / 2
    paused(raw, state, 200)
    assert session.prepare().verdict.compaction == "not_needed", "still in the cache"
    paused(raw, state, 400)
    assert session.prepare().verdict.compaction == "queued"
    outcome = worker.work(NAME).outcome
    assert (outcome.outcome, outcome.reached) == (Code.APPLIED, True)
    assert outcome.after < 0.7 * outcome.before
    assert session.prepare().verdict.compaction == "not_needed"


@pytest.mark.parametrize(
    "config",
    [replace(LARGE, cache_ttl=None), replace(LARGE, context_limit=40)],
    ids=["nobody said how long the cache lives", "below half the threshold"],
)
def test_a_pause_alone_is_no_reason(memory: Client, raw: Any, state: str, config: ModelConfig) -> None:
    session = memory.session(NAME, config)
    session.push(conversation(9))
    session.prepare()
    paused(raw, state, 10_000)
    assert session.prepare().verdict.compaction == "not_needed"


def test_looking_is_no_send(memory: Client, raw: Any, state: str) -> None:
    session = memory.session(NAME, LARGE)
    session.push(conversation(9))
    session.estimate()
    session.push(conversation(1)[-1])
    assert raw.hget(state, "sent_at") is None
    session.prepare()
    paused(raw, state, 400)
    session.estimate()
    assert session.status().claim == "idle"


def test_where_nothing_can_be_had_a_cold_cache_asks_once(
    memory: Client, worker: InlineWorker, raw: Any, state: str
) -> None:
    session = memory.session(NAME, LARGE)
    session.push([{"role": "user", "content": "word " * 6_000}])
    session.prepare()
    paused(raw, state, 400)
    assert session.prepare().verdict.compaction == "queued"
    assert worker.work(NAME).outcome.outcome is Code.EXHAUSTED
    paused(raw, state, 400)
    assert session.prepare().verdict.compaction == "not_needed"
    assert session.status().claim == "idle"


def test_a_clock_that_was_set_back_is_no_pause(memory: Client, raw: Any, state: str) -> None:
    session = memory.session(NAME, LARGE)
    session.push(conversation(9))
    session.prepare()
    paused(raw, state, -(10**6))
    assert session.prepare().verdict.compaction == "not_needed"
    raw.hset(state, "sent_at", "garbled")
    assert session.prepare().verdict.compaction == "not_needed"
