"""The swap: replaces what was planned and nothing else, whatever happened meanwhile."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from compactor import Code
from compactor.commands import claim, read
from compactor.models import Kind
from compactor.settings import Settings
from compactor.store import Store
from tests.integration.clients import Client, SessionClient, StoreClient
from tests.integration.conversations import SMALL, SYSTEM, WIDE, conversation, recount, step, user
from tests.integration.inline_worker import InlineWorker
from tests.integration.stored import expiries, keys_of, records, set_life


def stored_keys(raw: Any, settings: Settings, session: str) -> list[str]:
    return sorted(key for key in keys_of(settings, session).all if raw.exists(key))


def expire(raw: Any, settings: Settings, session: str) -> None:
    """All keys of a session reach the end of their life."""
    for key in keys_of(settings, session).all:
        raw.pexpire(key, 1)
    while stored_keys(raw, settings, session):
        pass


def swap_again(store: StoreClient, settings: Settings, session: str, owner: Any, last: int) -> str:
    """A swap of nothing by `owner`, as its worker would send it."""
    return store.run(
        claim.swap(
            keys_of(settings, session),
            owner=owner,
            last_position=last,
            replacements=(),
            saved={"o200k_base": 0, "cl100k_base": 0},
            bytes_saved=0,
            rearm=0,
            held="",
            outcome={"outcome": "applied"},
        )
    )


@pytest.mark.parametrize("at", ["snapshot", "swapping"])
def test_pushes_during_a_compaction_survive_in_order_and_do_not_fail_it(
    memory: Client, worker: InlineWorker, at: str
) -> None:
    session = memory.session("swap/pushes", SMALL)
    session.push(conversation(8))
    session.prepare()
    meanwhile = [user("stop"), *step(50), user("go on")]
    outcome = worker.work("swap/pushes", at=at, then=lambda: [session.push(m) for m in meanwhile]).outcome
    assert outcome.outcome is Code.APPLIED
    assert session.originals() == [*conversation(8), *meanwhile]
    assert session.prepare().messages[-4:] == meanwhile
    assert session.estimate().total == recount(memory.session("swap/pushes", WIDE).prepare().messages) + 3


@pytest.mark.parametrize("at", ["snapshot", "swapping"])
def test_a_plan_of_a_conversation_that_was_cleared_and_refilled_to_the_same_length_is_refused(
    memory: Client, worker: InlineWorker, at: str
) -> None:
    session = memory.session("swap/refilled", SMALL)
    session.push(conversation(8))
    session.prepare()
    new = [SYSTEM, *(user(f"new {order}") for order in range(len(conversation(8)) - 1))]

    def refill() -> None:
        session.clear()
        session.push(new)

    outcome = worker.work("swap/refilled", at=at, then=refill).outcome
    assert outcome.outcome in (Code.STALE, Code.GONE)
    assert session.prepare().messages == new
    assert session.originals() == new
    assert session.compactions() == []


def test_a_plan_of_a_cleared_conversation_is_refused_though_the_new_one_is_being_compacted(
    memory: Client, worker: InlineWorker
) -> None:
    session = memory.session("swap/refilled-claimed", SMALL)
    session.push(conversation(8))
    session.prepare()
    other = [SYSTEM, user("Another question"), *(m for order in range(8) for m in step(order + 100)), user("?")]

    def refill() -> None:
        session.clear()
        session.push(other)
        assert session.prepare().verdict.compaction == "queued"
        worker.begin("swap/refilled-claimed", worker.owner("swap/refilled-claimed"))

    outcome = worker.work("swap/refilled-claimed", at="swapping", then=refill).outcome
    assert outcome.outcome in (Code.STALE, Code.GONE)
    assert session.originals() == other
    assert session.prepare().replaced == 0
    assert session.status().claim == "running"


def test_a_repeated_swap_answers_applied_and_changes_nothing(
    memory: Client, settings: Settings, store: StoreClient, worker: InlineWorker, raw: Any
) -> None:
    session = memory.session("swap/repeat", SMALL)
    session.push(conversation(8))
    session.prepare()
    owner = worker.owner("swap/repeat")
    assert worker.work("swap/repeat").outcome.outcome is Code.APPLIED
    before, status = records(raw, settings, "swap/repeat"), session.status()
    assert swap_again(store, settings, "swap/repeat", owner, 99) == "applied"
    assert records(raw, settings, "swap/repeat") == before
    assert session.status().revision == status.revision
    assert len(session.compactions()) == 1


def test_a_swap_by_another_owner_is_stale(
    memory: Client, settings: Settings, store: StoreClient, worker: InlineWorker, raw: Any
) -> None:
    session = memory.session("swap/other", SMALL)
    session.push(conversation(8))
    session.prepare()
    worker.begin("swap/other", worker.owner("swap/other"))
    before = records(raw, settings, "swap/other")
    assert swap_again(store, settings, "swap/other", "other", 99) == "stale"
    assert records(raw, settings, "swap/other") == before
    assert session.status().claim == "running"


def test_a_change_at_or_before_the_plans_last_position_makes_it_stale_one_behind_it_does_not(
    memory: Client, settings: Settings, store: StoreClient, worker: InlineWorker, raw: Any
) -> None:
    session = memory.session("swap/changed", SMALL)
    session.push(conversation(8))
    session.prepare()
    owner = worker.owner("swap/changed")
    worker.begin("swap/changed", owner)
    raw.hset(keys_of(settings, "swap/changed").state, "changed_min", 7)
    assert swap_again(store, settings, "swap/changed", owner, 7) == "stale"
    assert swap_again(store, settings, "swap/changed", owner, 6) == "applied"


@pytest.mark.parametrize("at", ["snapshot", "swapping"])
def test_a_session_that_expired_during_its_compaction_stays_gone(
    memory: Client, settings: Settings, worker: InlineWorker, raw: Any, at: str
) -> None:
    session = memory.session("swap/expired", SMALL)
    session.push(conversation(8))
    session.prepare()
    ended = worker.work("swap/expired", at=at, then=lambda: expire(raw, settings, "swap/expired"))
    assert ended.outcome.outcome in (Code.GONE, Code.STALE)
    assert ended.retry_in is None
    assert stored_keys(raw, settings, "swap/expired") == []
    assert not session.status().exists


def test_an_expired_session_is_told_as_gone(memory: Client, settings: Settings, worker: InlineWorker, raw: Any) -> None:
    session = memory.session("swap/gone", SMALL)
    session.push(conversation(8))
    session.prepare()
    ended = worker.work("swap/gone", at="swapping", then=lambda: expire(raw, settings, "swap/gone"))
    assert ended.outcome.outcome is Code.GONE


def test_every_writing_step_of_a_worker_leaves_an_expired_session_gone(
    memory: Client, settings: Settings, store: StoreClient, worker: InlineWorker, raw: Any
) -> None:
    session = memory.session("swap/steps", SMALL)
    session.push(conversation(8))
    session.prepare()
    owner = worker.owner("swap/steps")
    worker.begin("swap/steps", owner)
    keys = keys_of(settings, "swap/steps")
    expire(raw, settings, "swap/steps")
    assert swap_again(store, settings, "swap/steps", owner, 99) == "gone"
    assert store.run(claim.archive(keys, owner=owner, originals={3: b"x"})) == "gone"
    assert not store.run(claim.retry(keys, owner=owner, wait_ms=1_000, patience_ms=1_000))
    assert not store.run(claim.unqueue(keys, owner=owner))
    assert not store.run(claim.release(keys, owner=owner, outcome={}, pause_ms=0, rearm=0, held="", audit=True))
    assert worker.begin("swap/steps", owner).begun.value == "gone"
    assert stored_keys(raw, settings, "swap/steps") == []


def test_a_swap_keeps_the_life_of_the_session(
    memory: Client, settings: Settings, worker: InlineWorker, raw: Any
) -> None:
    session = memory.session("swap/ttl", SMALL)
    session.push(conversation(8))
    session.prepare()
    set_life(raw, settings, "swap/ttl", 5_000)
    worker.work("swap/ttl")
    left = expiries(raw, settings, "swap/ttl")
    assert session.status().archived
    assert len(set(left.values())) == 1
    assert 4_900 < session.status().expires_in <= 5_000


def test_readers_during_swaps_see_the_list_before_or_after_never_between(
    memory: Client, settings: Settings, worker: InlineWorker
) -> None:
    """A whole read is one transaction: its total fits its list at every moment."""
    session = memory.session("swap/readers", SMALL)
    session.push(conversation(8))
    stop = threading.Event()
    wrong: list[str] = []
    seen: set[int] = set()

    def reading() -> None:
        with Store(settings) as other:
            while not stop.is_set():
                stored = other.run(read.read_history(keys_of(settings, "swap/readers")))
                seen.add(stored.state.revision)
                total, _ = stored.state.totals["o200k_base"]
                if total != recount(record.value() for record in stored.records if record.kind is not Kind.FOLDED):
                    wrong.append(f"total at revision {stored.state.revision}")

    threads = [threading.Thread(target=reading) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        applied = [queue_and_work(session, worker, "swap/readers", order) for order in range(8)]
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert sum(applied) >= 3
    assert len(seen) >= 2
    assert wrong == []


def queue_and_work(session: SessionClient, worker: InlineWorker, name: str, order: int) -> bool:
    session.push([m for part in range(3) for m in step(100 + 3 * order + part, 100)])
    if session.prepare().verdict.compaction != "queued":
        return False
    return worker.work(name).outcome.outcome is Code.APPLIED
