"""What compactions cost a tenant per day: counted once, by Redis's day, and never over a cap."""

from __future__ import annotations

import math
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from compactor import Code, Outcome
from compactor.bills import Bill, Spending
from compactor.commands import spending
from compactor.commands.command import session_keys
from compactor.commands.spending import NO_CAPS, Caps, spending_key
from compactor.drafts import unheard
from compactor.metering import MeteredSummarizer, Purse, most_tokens
from compactor.models import CompactionId, session_id
from compactor.pricing import Price, price
from compactor.prompts import Summary, SummaryRequest
from compactor.settings import Settings
from compactor.store import Store
from tests.integration.clients import Client, StoreClient
from tests.integration.conversations import SMALL, conversation
from tests.integration.inline_worker import InlineWorker
from tests.unit.chat import by_length
from tests.unit.summarizers import Scripted

CHEAP = price(Decimal("0.15"), Decimal("0.6"))
REQUEST = SummaryRequest("read", "{}", "rows", "", 1_000, 150)


def summary(request: SummaryRequest) -> Summary:
    return Summary(f"{request.tool} returned rows.", "cheap", spent_in=100, spent_out=20)


def cheap(_model: str, _tokens: int) -> Price | None:
    return CHEAP


def unknown(_model: str, _tokens: int) -> Price | None:
    return None


@pytest.fixture
def model(worker: InlineWorker) -> Scripted:
    """A model with a price behind the worker."""
    asked = Scripted(summary)
    worker.tools = replace(worker.tools, summarize=asked, model="cheap", price=cheap)
    return asked


def compact(memory: Client, worker: InlineWorker, name: str) -> Outcome:
    session = memory.session(name, SMALL)
    session.push(conversation(9))
    assert session.prepare().verdict.compaction == "queued"
    return worker.work(name).outcome


def today(store: StoreClient, settings: Settings, tenant: str, caps: Caps = NO_CAPS) -> Spending:
    return store.run(spending.read_spending(settings.namespace, tenant, caps))[0]


def purse(
    store: Any, settings: Settings, owner: str = "o", *, caps: Caps = NO_CAPS, cost: Price | None = CHEAP
) -> Purse:
    keys = session_keys(settings.namespace, session_id("acme/chat"))
    return Purse(store, keys, CompactionId(owner), 1, caps, cost)


def test_what_a_compaction_spends_and_frees_is_entered_with_its_tenants_day(
    memory: Client, worker: InlineWorker, model: Scripted, store: StoreClient, settings: Settings
) -> None:
    first, second = compact(memory, worker, "acme/a"), compact(memory, worker, "acme/b")
    compact(memory, worker, "other/a")
    found = today(store, settings, "acme")
    assert first.bill is not None
    assert second.bill is not None
    assert found == Spending(
        "acme", time.strftime("%Y-%m-%d", time.gmtime()), compactions=2, freed=first.saved + second.saved,
        micro=(first.bill.spent or 0) + (second.bill.spent or 0), net=(first.bill.net or 0) + (second.bill.net or 0),
        tokens=first.spent_in + first.spent_out + second.spent_in + second.spent_out,
    )  # fmt: skip
    assert memory.session("acme/a", SMALL).status().spending == found
    assert today(store, settings, "nobody") == Spending("nobody", found.day)


def test_at_the_cap_extracts_are_written_and_the_outcome_says_so(
    memory: Client, worker: InlineWorker, model: Scripted, store: StoreClient, settings: Settings
) -> None:
    first = compact(memory, worker, "acme/a")
    sent, written = most_tokens(model.requests)
    caps = Caps(micro=math.ceil(sent * CHEAP.input + written * CHEAP.output))  # room for one compaction, untouched
    worker.tools = replace(worker.tools, caps=caps)
    asked = len(model.requests)
    second = compact(memory, worker, "acme/b")
    assert (second.outcome, second.reason, second.by_model, second.model) == (Code.APPLIED, "spend_cap", 0, "")
    assert second.by_extract == first.by_model == second.items
    assert second.bill is not None
    assert second.bill.spent == 0
    assert len(model.requests) == asked, "no model was asked"
    found = today(store, settings, "acme", caps)
    assert (found.capped, found.compactions, found.cap_micro) == (1, 2, caps.micro)
    assert found.micro <= (caps.micro or 0)
    assert compact(memory, worker, "other/a").by_model, "another tenant has a day of its own"


def test_a_model_without_a_price_is_capped_in_tokens(
    memory: Client, worker: InlineWorker, model: Scripted, store: StoreClient, settings: Settings
) -> None:
    worker.tools = replace(worker.tools, price=unknown)
    first = compact(memory, worker, "acme/a")
    found = today(store, settings, "acme")
    assert (found.micro, found.tokens) == (0, found.unpriced)
    assert found.tokens == first.spent_in + first.spent_out > 0
    worker.tools = replace(worker.tools, caps=Caps(tokens=found.tokens))
    assert compact(memory, worker, "acme/b").reason == "spend_cap"
    worker.tools = replace(worker.tools, caps=Caps(micro=10**9))
    assert compact(memory, worker, "acme/c").reason == "spend_cap", "money that nobody can count is not spent"


def test_all_workers_together_stay_under_the_cap(settings: Settings, store: StoreClient) -> None:
    sent, written = most_tokens([REQUEST])
    most = round(sent * 0.15 + written * 0.6)
    caps = Caps(micro=5 * most + most // 2)
    start = threading.Barrier(16)

    def reserve(number: int) -> bool:
        with Store(settings) as own:
            start.wait(10)
            return purse(own, settings, f"o{number}", caps=caps).reserve([REQUEST])

    with ThreadPoolExecutor(16) as pool:
        assert sum(pool.map(reserve, range(16))) == 5
    assert most * 5 - 5 <= today(store, settings, "acme").micro <= (caps.micro or 0)


def test_a_repeat_changes_nothing_and_what_was_set_aside_gives_way_to_what_was_spent(
    settings: Settings, store: StoreClient
) -> None:
    one = purse(store, settings)
    assert one.reserve([REQUEST])
    aside = today(store, settings, "acme")
    assert aside.tokens == sum(most_tokens([REQUEST]))
    assert one.reserve([REQUEST]), "a repeat after a lost reply"
    assert today(store, settings, "acme") == aside
    for _ in range(2):
        one.spent(1_000, 100)
        assert (today(store, settings, "acme").micro, today(store, settings, "acme").tokens) == (210, 1_100)
    one.spent(10, 0, late=1)
    assert today(store, settings, "acme").tokens == 1_110


def test_a_worker_that_dies_in_its_calls_leaves_entered_what_they_may_have_cost(
    settings: Settings, store: StoreClient
) -> None:
    assert purse(store, settings).reserve([REQUEST])
    again = replace(purse(store, settings), run=2)
    assert again.reserve([REQUEST])
    again.spent(100, 20)
    assert today(store, settings, "acme").tokens == sum(most_tokens([REQUEST])) + 120


def test_answers_after_the_deadline_are_entered_too(settings: Settings, store: StoreClient) -> None:
    told: list[Any] = []

    def summarize(requests: Any, *, encode: Any, deadline: float, done: Any, arrived: Any = unheard) -> list[Any]:
        arrived(0, summary(requests[0]))
        told.append(arrived)
        return [summary(requests[0])] * 2

    metered = MeteredSummarizer(summarize, purse(store, settings))
    metered([REQUEST, REQUEST], encode=by_length, deadline=0.0, done=lambda _index, _answer: None)
    assert today(store, settings, "acme").tokens == 120
    for _ in range(2):
        told[0](1, summary(REQUEST))
    assert today(store, settings, "acme").tokens == 360


def test_a_server_that_reports_no_usage_is_counted_by_what_it_was_sent(settings: Settings, store: StoreClient) -> None:
    silent = Scripted(lambda _request: Summary("Rows.", "cheap"))
    metered = MeteredSummarizer(silent, purse(store, settings))
    metered([REQUEST], encode=by_length, deadline=0.0, done=lambda _index, _answer: None)
    assert today(store, settings, "acme").tokens > REQUEST.tokens


def test_old_days_go_and_what_was_garbled_from_outside_counts_as_nothing(
    settings: Settings, store: StoreClient, raw: Any
) -> None:
    key, day = spending_key(settings.namespace, "acme"), int(time.time()) // 86_400
    raw.hset(
        key,
        mapping={f"{day - 90}.micro": 5, f"{day - 89}.micro": 7, f"{day}.micro": "x", f"{day}.net": "1e400", "odd": 1},
    )
    assert today(store, settings, "acme").micro == 0
    one = purse(store, settings, caps=Caps(micro=10**6))
    assert one.reserve([REQUEST])
    one.spent(1_000, 0)
    days = store.run(spending.read_spending(settings.namespace, "acme", NO_CAPS))
    assert [each.micro for each in days] == [150, 7]
    assert not {f"{day - 90}.micro".encode(), b"odd"} & set(raw.hgetall(key))


@pytest.mark.parametrize("garbled", ["x", "1.5", "1e3", "0x10", " 7", "1e400", "007", "9" * 30, "nan", ""])
def test_a_figure_that_is_no_whole_number_neither_stops_nor_uncounts_what_is_spent(
    settings: Settings, store: StoreClient, raw: Any, garbled: str
) -> None:
    key, day = spending_key(settings.namespace, "acme"), int(time.time()) // 86_400
    figures = ("micro", "tokens", "net", "freed")
    raw.hset(key, mapping={f"{day}.{name}": garbled for name in figures})
    today(store, settings, "acme")
    one = purse(store, settings, caps=Caps(micro=10**6, tokens=10**6))
    assert one.reserve([REQUEST])
    one.spent(1_000, 100)
    one.ended(Outcome(Code.APPLIED, before=9, after=4, bill=Bill(0, 0, 10, 5, 3)))
    found = today(store, settings, "acme")
    assert (found.micro, found.tokens, found.freed, found.net) == (210, 1_100, 5, 15)


def test_every_key_has_a_life_and_the_tenants_own_slot(settings: Settings, store: StoreClient, raw: Any) -> None:
    one = purse(store, settings)
    one.reserve([REQUEST])
    one.spent(5, 5)
    keys = list(raw.scan_iter(match=f"{{{settings.namespace}:*"))
    assert len(keys) == 2
    for key in keys:
        assert key.startswith(f"{{{settings.namespace}:tenant:acme}}:spending".encode())
        assert raw.pttl(key) > 0


def test_without_redis_a_compaction_that_ended_is_none_the_worse(settings: Settings, own_server: Any) -> None:
    with Store(settings.model_copy(update={"redis_url": settings.redis_url.__class__(own_server.url)})) as store:
        one = purse(store, settings)
        own_server.stop()
        one.spent(5, 5)
        one.ended(Outcome(Code.APPLIED))
