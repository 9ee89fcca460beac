"""Provisional extracts through a real worker: told anew by the model that works again, once, from the originals."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from compactor import Code, Compactor, ModelConfig, Outcome, Session
from compactor.embedded import EmbeddedServer
from compactor.models import Kind
from compactor.records import PROVISIONAL, Record, unpack
from compactor.settings import Settings
from compactor.testing import Answer, ModelServer, summary
from compactor.validity import faults
from tests.acceptance.scripted_model import asked, failing
from tests.acceptance.waiting import wait_until
from tests.acceptance.worker_process import running_worker, short_settings
from tests.integration.conversations import SYSTEM, assistant, recount, step, user
from tests.integration.stored import bare, records

WINDOW = ModelConfig("gpt-4o", 16)  # threshold 12,000, ceiling 14,000 tokens


@dataclass
class Outage:
    """A model that fails for as long as it is down."""

    down: bool = True

    def answer(self, _body: dict[str, Any]) -> Answer:
        return failing(500) if self.down else summary()


@dataclass(frozen=True)
class Stage:
    memory: Compactor
    settings: Settings
    model: ModelServer
    outage: Outage
    raw: Any

    def read(self, name: str) -> list[Record]:
        return [unpack(row) for row in records(self.raw, self.settings, name)]

    def compaction(self, session: Session) -> Outcome:
        """The outcome of the compaction that the next send queues."""
        before = len(session.compactions())
        assert session.prepare(keep_rows=True).verdict.compaction == "queued"  # no folds: they replace extracts, too
        wait_until(lambda: len(session.compactions()) > before, seconds=30, what="the outcome")
        return session.compactions()[-1]


@pytest.fixture(scope="module")
def stage(server: EmbeddedServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    settings = short_settings(server.url, f"renewal-{uuid.uuid4().hex[:8]}")
    outage = Outage()
    log = tmp_path_factory.mktemp("renewal") / "worker.log"
    with (
        ModelServer(outage.answer) as model,
        running_worker(settings, log, model=model),
        Compactor(settings=settings) as memory,
        bare(server) as raw,
    ):
        yield Stage(memory, settings, model, outage, raw)


def talk(first: int, last: int) -> list[dict[str, Any]]:
    return [*(message for order in range(first, last) for message in step(order)), assistant(f"Found {last}.")]


def provisional(found: list[Record]) -> list[int]:
    return [at for at, record in enumerate(found) if record.flags & PROVISIONAL]


def holds(session: Session, outcome: Outcome) -> None:
    """Totals, validity and originals after a compaction."""
    context = session.prepare()
    assert context.verdict.total == outcome.after == recount(context.messages) + 3
    assert not faults(context.messages)


def test_a_model_that_is_back_tells_the_extracts_anew_once(stage: Stage) -> None:
    stage.outage.down = True
    session = stage.memory.session("renewal/once", WINDOW)
    pushed = [SYSTEM, user("Where are the values?"), *talk(0, 20)]
    session.push(pushed)
    first = stage.compaction(session)
    assert (first.outcome, first.by_extract) == (Code.APPLIED, first.items)
    assert provisional(stage.read("renewal/once")) == list(first.positions)
    held = session.prepare().messages  # a bot's own list with the extracts in it

    stage.outage.down = False
    stage.model.requests.clear()
    session.push(talk(20, 30))
    pushed += talk(20, 30)
    second = stage.compaction(session)
    found = stage.read("renewal/once")
    assert set(first.positions) < set(second.positions)
    assert (second.outcome, second.by_model, second.by_extract) == (Code.APPLIED, second.items, 0)
    assert provisional(found) == []
    assert {found[at].kind for at in first.positions} == {Kind.SUMMARY}
    holds(session, second)
    texts = [asked(body) for body in stage.model.requests]
    assert len(texts) == len(set(texts)) == second.items
    for at in first.positions:
        assert sum(pushed[at]["content"] in text for text in texts) == 1  # the original, not the extract

    revision = session.status().revision
    assert session.prepare([*held, *talk(20, 30)]).messages == [held[0], *session.prepare().messages[1:]]
    assert session.status().revision == revision

    session.push(talk(30, 40))
    pushed += talk(30, 40)
    before = stage.read("renewal/once")
    third = stage.compaction(session)
    assert third.outcome is Code.APPLIED
    assert set(third.positions).isdisjoint(second.positions)
    after = stage.read("renewal/once")
    assert [after[at] for at in second.positions] == [before[at] for at in second.positions]
    holds(session, third)

    session.undo(second.id)
    whole = stage.read("renewal/once")
    assert all(whole[at].kind is Kind.ORIGINAL for at in second.positions)
    assert session.originals() == pushed
    shown = stage.memory.session("renewal/once", ModelConfig("gpt-4o", 2_000)).prepare()
    assert shown.verdict.total == recount(shown.messages) + 3


def test_as_long_as_the_model_is_away_the_extracts_stay_and_stay_provisional(stage: Stage) -> None:
    stage.outage.down = True
    session = stage.memory.session("renewal/away", WINDOW)
    session.push([SYSTEM, user("Where are the values?"), *talk(0, 20)])
    first = stage.compaction(session)
    session.push(talk(20, 32))  # above the ceiling again
    before = stage.read("renewal/away")
    second = stage.compaction(session)
    after = stage.read("renewal/away")
    assert set(second.positions).isdisjoint(first.positions)
    assert [after[at] for at in first.positions] == [before[at] for at in first.positions]
    assert provisional(after) == [*first.positions, *second.positions]
    holds(session, second)

    stage.outage.down = False
    session.push(talk(32, 42))
    third = stage.compaction(session)
    assert {*first.positions, *second.positions} < set(third.positions)
    assert provisional(stage.read("renewal/away")) == []
    holds(session, third)
