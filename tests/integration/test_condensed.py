"""A condensed session: the same totals, the same originals, and back again, through both clients."""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from typing import Any

from compactor import Code, ModelConfig
from compactor.embedded import EmbeddedServer
from compactor.models import Kind
from compactor.records import unpack
from compactor.settings import Settings
from compactor.validity import faults
from tests.acceptance.scripted_model import scripted_model
from tests.acceptance.worker_process import running_worker, short_settings
from tests.integration.clients import Client, Connect
from tests.integration.conversations import recount, user
from tests.integration.inline_worker import InlineWorker
from tests.integration.stored import records, texts
from tests.unit.condensed_reader import read_tables, source_value


def orders(step: int) -> str:
    same = {"status of the order": "delivered", "carrier of the parcel": "north", "method of payment": "invoice"}
    rows = [{"order number": 1_000 * step + n, **same} for n in range(14)]
    return json.dumps({"page": step, "orders": rows})


def talk(count: int) -> list[Any]:
    """Steps whose results are tables of orders, about 500 tokens each."""
    chat: list[Any] = [{"role": "system", "content": "You look after orders."}, user("Which orders were delivered?")]
    for step in range(count):
        function = {"name": "list_orders", "arguments": json.dumps({"page": step})}
        call = {"id": f"call_{step}", "type": "function", "function": function}
        chat.append({"role": "assistant", "content": None, "tool_calls": [call]})
        chat.append({"role": "tool", "tool_call_id": f"call_{step}", "content": orders(step)})
    return [*chat, {"role": "assistant", "content": "All of them."}]


def body_of(message: Any) -> str:
    """What stands under the header and the word on the form."""
    header, form, body = message["content"].split("\n", 2)
    assert "earlier tool output, condensed from" in header
    assert form.startswith("[@1 is table 1 below")
    return str(body)


TALK = talk(26)
WINDOW = ModelConfig("gpt-4o", 16)


def test_a_session_of_tables_is_condensed_and_nothing_of_it_is_lost(
    memory: Client, worker: InlineWorker, settings: Settings, raw: Any
) -> None:
    session = memory.session("condensed/whole", WINDOW)
    session.push(TALK)
    assert session.prepare().verdict.compaction == "queued"
    outcome = worker.work("condensed/whole").outcome
    assert (outcome.outcome, outcome.by_condensed, outcome.reached) == (Code.APPLIED, outcome.items, True)
    assert outcome.items == len(outcome.positions) > 4
    kinds = {unpack(records(raw, settings, "condensed/whole")[at]).kind for at in outcome.positions}
    assert kinds == {Kind.CONDENSED}
    context = session.prepare()
    assert context.verdict.total == outcome.after == recount(context.messages) + 3
    assert context.replaced == outcome.items
    assert not faults(context.messages)
    for at in outcome.positions:
        assert read_tables(body_of(context.messages[at])) == source_value(TALK[at]["content"])
        assert {**context.messages[at], "content": ""} == {**TALK[at], "content": ""}
        assert session.recall(f"m{at}") == TALK[at]
    assert session.originals() == TALK
    assert session.status().last == outcome


def test_what_was_condensed_stays_and_the_next_compaction_goes_on_behind_it(
    memory: Client, worker: InlineWorker, settings: Settings, raw: Any
) -> None:
    session = memory.session("condensed/again", WINDOW)
    session.push(TALK)
    session.prepare()
    first = worker.work("condensed/again").outcome
    before = texts(raw, settings, "condensed/again")
    session.push(talk(44)[54:])
    assert session.prepare().verdict.compaction == "queued"
    second = worker.work("condensed/again").outcome
    assert second.outcome is Code.APPLIED
    assert min(second.positions) > max(first.positions)
    after = texts(raw, settings, "condensed/again")
    assert all(after[at] == before[at] for at in first.positions)


def test_an_undo_brings_the_pushed_bytes_back(
    memory: Client, worker: InlineWorker, settings: Settings, raw: Any
) -> None:
    session = memory.session("condensed/undo", WINDOW)
    session.push(TALK)
    pushed, total = texts(raw, settings, "condensed/undo"), session.estimate().total
    session.prepare()
    assert worker.work("condensed/undo").outcome.by_condensed > 0
    assert session.estimate().total < total
    assert session.undo().outcome is Code.UNDONE
    assert texts(raw, settings, "condensed/undo") == pushed
    assert session.estimate().total == total == recount(TALK) + 3


def test_a_bot_that_sends_its_own_list_gets_the_condensed_one(memory: Client, worker: InlineWorker) -> None:
    session = memory.session("condensed/list", WINDOW)
    session.prepare(TALK)
    assert worker.work("condensed/list").outcome.by_condensed > 0
    shown = session.prepare(TALK).messages
    assert shown != TALK
    more = [*shown, user("Thanks.")]
    assert session.prepare(more).messages == more
    assert session.originals() == [*TALK[1:], user("Thanks.")]


def test_a_worker_process_condenses_without_asking_its_model(
    connect: Connect, server: EmbeddedServer, tmp_path: Path
) -> None:
    settings = short_settings(server.url, f"condensed-{uuid.uuid4().hex[:8]}")
    with scripted_model() as model, running_worker(settings, tmp_path / "worker.log", model=model):
        session = connect(settings).session("condensed/worker", WINDOW)
        session.push(TALK)
        outcome = session.compact(wait=20)
        assert (outcome.outcome, outcome.by_condensed, outcome.by_model) == (Code.APPLIED, outcome.items, 0)
        assert (outcome.model, outcome.spent_in, model.requests) == ("", 0, [])
        assert session.originals() == TALK
        assert session.estimate().total == outcome.after
        assert session.undo().outcome is Code.UNDONE
        assert session.estimate().total == recount(TALK) + 3
