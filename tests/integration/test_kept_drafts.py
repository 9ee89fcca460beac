"""prefer_idle: drafts are made at the threshold, kept, and swapped in by the send before which it costs least."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from compactor import Code, ModelConfig
from compactor.commands import spending
from compactor.commands.command import session_keys
from compactor.commands.spending import NO_CAPS
from compactor.models import Outcome, session_id
from compactor.pricing import Price, price
from compactor.prompts import Summary
from compactor.settings import Settings
from compactor.validity import faults
from tests.integration.clients import Client, Connect, StoreClient
from tests.integration.conversations import assistant, conversation, recount, step, user
from tests.integration.inline_worker import InlineWorker
from tests.unit.summarizers import Scripted

NAME = "acme/idle"
# Threshold 6,000 and ceiling 9,000 tokens: drafts wait until 7,500.
WAITING = ModelConfig("gpt-4o", 12, compact_at=6, max_output_tokens=3_000, cache_ttl=300, prefer_idle=True)
DEAR = price(Decimal(3), Decimal(15), Decimal("0.3"), Decimal("3.75"))
PUSHED = conversation(8, lines=43)


def prices(_model: str, _tokens: int) -> Price | None:
    return DEAR


@pytest.fixture
def model(worker: InlineWorker) -> Scripted:
    asked = Scripted(lambda request: Summary(f"{request.tool} returned rows.", "cheap", spent_in=100, spent_out=20))
    worker.tools = replace(worker.tools, summarize=asked, model="cheap", price=prices)
    return asked


@pytest.fixture
def state(settings: Settings) -> str:
    return session_keys(settings.namespace, session_id(NAME)).state


@pytest.fixture
def drafted(memory: Client, worker: InlineWorker, model: Scripted) -> Any:
    """A session whose draft is kept."""
    session = memory.session(NAME, WAITING)
    session.push(PUSHED)
    first = session.prepare().verdict
    assert (first.compaction, first.ceiling) == ("queued", 9_000)
    assert 6_000 <= first.total < 7_500
    outcome = worker.work(NAME).outcome
    assert (outcome.outcome, outcome.saved, outcome.items) == (Code.DRAFTED, 0, 0)
    assert outcome.spent_in == 100 * len(model.requests) > 0
    return session


def paused(raw: Any, state: str, seconds: int = 400) -> None:
    raw.hset(state, "sent_at", (raw.time()[0] - seconds) * 1000)


def applied(session: Any) -> list[Outcome]:
    return [outcome for outcome in session.compactions() if outcome.outcome is Code.APPLIED]


def test_a_kept_draft_changes_no_send_and_asks_nobody_again(
    drafted: Any, worker: InlineWorker, model: Scripted
) -> None:
    asked = len(model.requests)
    for _ in range(3):
        context = drafted.prepare()
        assert context.messages == PUSHED
        assert context.verdict.compaction == "held(drafted)"
    assert drafted.status().claim == "idle"
    assert len(model.requests) == asked
    assert applied(drafted) == []


def test_a_cold_cache_swaps_it_in_before_the_send_and_re_writes_nothing(
    drafted: Any, raw: Any, state: str, store: StoreClient, settings: Settings
) -> None:
    paused(raw, state)
    context = drafted.prepare()
    (outcome,) = applied(drafted)
    assert outcome.bill is not None
    assert (outcome.bill.cold, outcome.bill.rewrite) == (True, 0)
    assert outcome.bill.spent == outcome.spent_in * 3 + outcome.spent_out * 15 > 0
    assert context.replaced == outcome.items == len(outcome.positions) > 0
    assert context.verdict.total == recount(context.messages) + 3 == outcome.after
    assert context.verdict.compaction == "not_needed"
    assert not faults(context.messages)
    assert drafted.originals() == PUSHED
    assert [drafted.recall(f"m{position}") for position in outcome.positions] == [
        PUSHED[position] for position in outcome.positions
    ]
    today = store.run(spending.read_spending(settings.namespace, "acme", NO_CAPS))[0]
    assert (today.compactions, today.freed, today.net) == (1, outcome.saved, outcome.bill.net)
    assert drafted.undo().outcome is Code.UNDONE
    assert drafted.prepare().messages[: len(PUSHED)] == PUSHED


def test_half_way_to_the_ceiling_it_is_put_off_no_longer(drafted: Any, model: Scripted) -> None:
    asked = len(model.requests)
    drafted.push([user("and more"), *step(20, lines=43), assistant("so"), user("and"), *step(21, lines=43)])
    context = drafted.prepare()
    (outcome,) = applied(drafted)
    assert outcome.bill is not None
    assert not outcome.bill.cold
    assert (outcome.bill.rewrite or 0) > 0
    assert context.replaced == outcome.items
    assert context.verdict.fit == "fits"
    assert len(model.requests) == asked
    assert applied(drafted) == [outcome], "once"


def test_an_own_list_gets_it_too(drafted: Any, raw: Any, state: str) -> None:
    paused(raw, state)
    context = drafted.prepare(messages=[*PUSHED, user("and now?")])
    assert context.replaced == applied(drafted)[0].items
    assert context.messages[-1] == user("and now?")


def test_another_process_sees_what_was_swapped_in(
    drafted: Any, raw: Any, state: str, connect: Connect, settings: Settings
) -> None:
    other = connect(settings).session(NAME, WAITING)
    assert other.prepare().replaced == 0
    paused(raw, state)
    drafted.prepare()
    assert other.prepare().messages == drafted.prepare().messages


def test_asked_for_a_compaction_swaps_at_once(drafted: Any, worker: InlineWorker, model: Scripted) -> None:
    asked = len(model.requests)
    assert drafted.compact().outcome is Code.QUEUED
    outcome = worker.work(NAME).outcome
    assert outcome.outcome is Code.APPLIED
    assert len(model.requests) == asked, "what was drafted serves"
    assert outcome.spent_in == 100 * asked, "and is paid for once"
    assert drafted.prepare().replaced == outcome.items


@pytest.mark.parametrize("how", ["undone", "branch", "pins", "archive", "garbled", "cut"])
def test_a_draft_of_another_history_is_never_swapped_in(
    drafted: Any, worker: InlineWorker, raw: Any, settings: Settings, state: str, model: Scripted, how: str
) -> None:
    keys = session_keys(settings.namespace, session_id(NAME))
    sent: dict[str, Any] = {}
    if how == "undone":
        raw.hincrby(state, "revision", 1)
    elif how == "branch":
        sent["messages"] = [*PUSHED[:3], {**PUSHED[3], "content": "other words " * 60}, *PUSHED[4:]]
    elif how == "pins":
        raw.hset(state, "pins", "x")
        raw.hset(state, "draft_pins", "y")
    elif how == "archive":
        raw.delete(keys.archive)
    elif how == "garbled":
        raw.hset(state, "draft", b"\x00\x00\x00\x01x")
    else:
        raw.hset(state, "draft", raw.hget(state, "draft")[:-7])
    paused(raw, state)
    context = drafted.prepare(**sent)
    assert context.replaced == 0
    assert applied(drafted) == []
    if how in ("branch", "pins"):
        return
    assert drafted.prepare().verdict.compaction == "queued", "it is drafted anew"


def test_a_pin_set_since_keeps_its_message_from_a_kept_draft(
    drafted: Any, worker: InlineWorker, raw: Any, state: str
) -> None:
    drafted.pin(3)
    drafted.pin("src/file1_7.py")
    paused(raw, state)
    assert drafted.prepare().replaced == 0
    assert drafted.prepare().verdict.compaction == "queued"
    worker.work(NAME)
    raw.hset(state, "rearm", 0)
    paused(raw, state)
    context = drafted.prepare()
    assert context.replaced > 0
    assert context.messages[3] == PUSHED[3]
    assert any("src/file1_7.py" in str(message["content"]) for message in context.messages)


def test_an_undo_since_voids_a_kept_draft(
    memory: Client, worker: InlineWorker, model: Scripted, raw: Any, settings: Settings
) -> None:
    name = "acme/undone"
    session = memory.session(name, WAITING)
    session.push(PUSHED)
    session.compact()
    assert worker.work(name).outcome.outcome is Code.APPLIED
    session.push([message for order in range(30, 36) for message in step(order, lines=43)] + [assistant("so")])
    assert session.prepare().verdict.compaction == "queued"
    kept = worker.work(name).outcome
    assert kept.outcome is Code.DRAFTED
    assert session.undo().outcome is Code.UNDONE
    pushed = session.originals()
    state = session_keys(settings.namespace, session_id(name)).state
    paused(raw, state)
    assert session.prepare().replaced == 0
    assert session.originals() == pushed


def test_rules_that_the_bot_was_given_since_void_a_draft(
    drafted: Any, memory: Client, worker: InlineWorker, raw: Any, state: str
) -> None:
    forbidding = memory.session(NAME, replace(WAITING, rules=({"tool": "grep", "never": True},)))
    paused(raw, state)
    context = forbidding.prepare()
    assert (context.replaced, context.messages) == (0, PUSHED)
    assert applied(drafted) == []
    assert raw.hget(state, "draft") == b"", "no other send finds it either"


def test_a_clear_takes_the_draft_along(drafted: Any, raw: Any, state: str) -> None:
    drafted.clear()
    drafted.push(PUSHED)
    paused(raw, state)
    assert drafted.prepare().replaced == 0
    assert drafted.status().claim == "queued"


def test_the_ceiling_leaves_no_time_to_wait(memory: Client, worker: InlineWorker, model: Scripted) -> None:
    session = memory.session(NAME, WAITING)
    session.push(conversation(14, lines=43))
    assert session.prepare().verdict.compaction == "queued"
    assert worker.work(NAME).outcome.outcome is Code.APPLIED


def test_a_plan_that_the_history_outran_is_not_kept(memory: Client, worker: InlineWorker, model: Scripted) -> None:
    session = memory.session(NAME, WAITING)
    session.push(PUSHED)
    session.prepare()
    changed = [*PUSHED[:3], {**PUSHED[3], "content": "other words " * 60}, *PUSHED[4:]]
    ended = worker.work(NAME, at="swapping", then=lambda: session.sync(changed))
    assert ended.outcome.outcome is Code.STALE
    assert session.prepare(messages=changed).replaced == 0
