"""The breaker between worker processes: what one found out, the others need not find out again."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from compactor import Code, Compactor
from compactor.commands.breaker import breaker_key
from compactor.embedded import Child, EmbeddedServer
from compactor.models import Kind
from compactor.records import PROVISIONAL, unpack
from compactor.settings import Settings
from compactor.testing import ModelServer, summary
from tests.acceptance.scripted_model import failing, long_talk, requests_with
from tests.acceptance.waiting import wait_until
from tests.acceptance.worker_process import running_worker, short_settings
from tests.integration.conversations import SMALL
from tests.integration.stored import bare, records

FAILURES, PAUSE = 3, 25.0
BELOW, ABOVE = 7, 10  # steps: between threshold and ceiling, above the ceiling


@pytest.fixture
def settings(server: EmbeddedServer) -> Settings:
    short = short_settings(server.url, f"t{uuid.uuid4().hex[:12]}")
    return short.model_copy(update={"breaker_failures": FAILURES, "breaker_pause": PAUSE})


@pytest.fixture
def broken() -> Iterator[ModelServer]:
    """A model server that fails until told otherwise."""
    with ModelServer(lambda _body: failing(503)) as running:
        yield running


def test_two_worker_processes_share_one_breaker_that_opens_and_closes(
    server: EmbeddedServer, settings: Settings, broken: ModelServer, tmp_path: Path
) -> None:
    key = breaker_key(settings.namespace, broken.url, "cheap")
    with bare(server) as raw, Compactor(settings=settings) as memory, ExitStack() as both:
        with running_worker(settings, tmp_path / "first.log", model=broken):
            opens_it(memory, raw, key)
            second = both.enter_context(running_worker(settings, tmp_path / "second.log", model=broken))
        refused(memory, raw, settings, second, broken)
        broken.answer = lambda _body: summary()
        raw.hset(key, "open_until", 1)  # the pause is over
        closes_it(memory, raw, key)


def opens_it(memory: Compactor, raw: Any, key: str) -> None:
    """The first process meets a server that fails."""
    session = memory.session("breaker/first", SMALL)
    session.push(long_talk(BELOW, "any", "mark-first"))
    session.prepare()
    wait_until(lambda: raw.hexists(key, "open_until"), what="the breaker to open")


def refused(memory: Compactor, raw: Any, settings: Settings, second: Child, model: ModelServer) -> None:
    """The second process, which has never called that server, leaves it alone."""
    below, above = memory.session("breaker/below", SMALL), memory.session("breaker/above", SMALL)
    below.push(long_talk(BELOW, "any", "mark-below"))
    above.push(long_talk(ABOVE, "any", "mark-above"))
    before = records(raw, settings, "breaker/below")
    for session in (below, above):
        session.prepare()
    outcome = wait_until(lambda: above.status().last)
    assert (outcome.outcome, outcome.reason, outcome.by_model) == (Code.APPLIED, "breaker_open", 0)
    kept = [unpack(record) for record in records(raw, settings, "breaker/above")]
    assert all((kept[at].kind, kept[at].flags & PROVISIONAL) == (Kind.EXTRACT, PROVISIONAL) for at in outcome.positions)
    wait_until(lambda: "SummarizerBreakerOpen('breaker_open')" in second.tail(100_000), what="the refusal to be shown")
    assert records(raw, settings, "breaker/below") == before
    assert not requests_with(model, "mark-below") + requests_with(model, "mark-above")


def closes_it(memory: Compactor, raw: Any, key: str) -> None:
    """One call tries, the others wait for its answer, and all of them give summaries."""
    session = memory.session("breaker/after", SMALL)
    session.push(long_talk(BELOW, "any", "mark-after"))
    outcome = session.compact(wait=20)
    assert (outcome.outcome, outcome.reason, outcome.by_model) == (Code.APPLIED, "", outcome.items)
    assert not raw.exists(key)
