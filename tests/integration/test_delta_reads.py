"""What a process already holds is brought up to date by what changed, and equals a fresh read every time."""

from __future__ import annotations

import random
from typing import Any

import pytest

from compactor import Code, ModelConfig
from compactor.embedded import EmbeddedServer
from compactor.settings import Settings
from tests.integration.clients import Client, Connect, SessionClient, open_store
from tests.integration.conversations import SMALL, SYSTEM, WIDE, conversation, recount, step, user
from tests.integration.inline_worker import InlineWorker
from tests.integration.stored import bare


@pytest.fixture
def fresh(connect: Connect, settings: Settings) -> Any:
    """Reads a session as a process that never saw it."""

    def reading(name: str) -> list[Any]:
        return connect(settings).session(name, SMALL).prepare().messages

    return reading


def queued(session: SessionClient) -> bool:
    return session.prepare().verdict.compaction == "queued"


def test_pushes_of_another_process_arrive(connect: Connect, settings: Settings) -> None:
    here, there = (connect(settings).session("delta/push", SMALL) for _ in range(2))
    here.push(user("a"))
    assert there.prepare().messages == [user("a")]
    here.push([user("b"), user("c")])
    assert there.prepare().messages == [user("a"), user("b"), user("c")]


@pytest.mark.parametrize("count", [999, 1_000, 1_001])
def test_however_many_came_they_arrive(connect: Connect, settings: Settings, count: int) -> None:
    here, there = (connect(settings).session(f"delta/many-{count}", WIDE) for _ in range(2))
    here.push(user("a"))
    there.prepare()
    here.push(new := [user(f"b{number}") for number in range(count)])
    assert there.prepare().messages == [user("a"), *new]


def test_a_swap_arrives_in_a_process_that_held_the_history(
    connect: Connect, settings: Settings, worker: InlineWorker, fresh: Any
) -> None:
    here, there = (connect(settings).session("delta/swap", SMALL) for _ in range(2))
    here.push(conversation(8))
    assert queued(here)
    assert there.prepare().replaced == 0
    there.push(user("meanwhile"))
    outcome = worker.work("delta/swap").outcome
    for session in (here, there):
        context = session.prepare()
        assert context.replaced == outcome.items
        assert context.messages == fresh("delta/swap")
        assert context.messages[-1] == user("meanwhile")


def test_a_clear_arrives(connect: Connect, settings: Settings) -> None:
    here, there = (connect(settings).session("delta/clear", SMALL) for _ in range(2))
    here.push(conversation(2))
    there.prepare()
    here.clear()
    assert there.prepare().messages == []
    here.push(user("new"))
    assert there.prepare().messages == [user("new")]


def test_a_clear_refilled_to_the_same_length_arrives(connect: Connect, settings: Settings) -> None:
    here, there = (connect(settings).session("delta/refill", SMALL) for _ in range(2))
    here.push([user("old 1"), user("old 2")])
    there.prepare()
    here.clear()
    here.push([user("new 1"), user("new 2")])
    assert there.prepare().messages == [user("new 1"), user("new 2")]


def test_a_session_that_expired_and_began_again_arrives(connect: Connect, settings: Settings, raw: Any) -> None:
    here, there = (connect(settings).session("delta/reborn", SMALL) for _ in range(2))
    here.push([user("old 1"), user("old 2")])
    there.prepare()
    for key in raw.scan_iter(f"{{{settings.namespace}:delta/reborn}}*"):
        raw.delete(key)
    assert there.prepare().messages == []
    here.push([user("new 1"), user("new 2"), user("new 3")])
    assert there.prepare().messages == [user("new 1"), user("new 2"), user("new 3")]


def test_a_reader_more_than_32_revisions_behind_reads_all(
    connect: Connect, settings: Settings, worker: InlineWorker, fresh: Any
) -> None:
    here, there = (connect(settings).session("delta/behind", SMALL) for _ in range(2))
    here.push([SYSTEM, user("go on")])
    there.prepare()
    swaps = 0
    for order in range(150):
        here.push(step(order, 300))
        if queued(here):
            swaps += worker.work("delta/behind").outcome.outcome is Code.APPLIED
        if swaps == 34:
            break
    assert swaps == 34
    assert there.prepare().messages == fresh("delta/behind")


def test_a_swap_costs_a_held_history_the_replaced_records_only(
    kind: str, connect: Connect, own_server: EmbeddedServer, own_settings: Settings
) -> None:
    """The bytes that leave the server for a reader who holds the history, against a reader who does not."""
    config = ModelConfig("gpt-4o", 300)
    here, there = (connect(own_settings).session("delta/bytes", config) for _ in range(2))
    results = [message for order in range(6) for message in step(order, 2_000)]
    here.push([SYSTEM, user("word " * 60_000), *results, user("And now?")])
    assert queued(there)

    def sent(session: SessionClient) -> int:
        with bare(own_server) as client:
            before: Any = client.info("stats")
            session.prepare()
            after: Any = client.info("stats")
        return int(after["total_net_output_bytes"] - before["total_net_output_bytes"]) - 8_000

    assert sent(there) < 10_000
    here.push(user("more"))
    assert sent(there) < 10_000
    store = open_store(kind, own_settings)
    outcome = InlineWorker(own_settings, store).work("delta/bytes").outcome
    store.close()
    assert outcome.outcome is Code.APPLIED
    assert sent(there) < 20_000
    assert there.prepare().replaced == outcome.items
    assert sent(connect(own_settings).session("delta/bytes", config)) > 300_000


def test_any_order_of_pushes_swaps_clears_and_reads_equals_a_fresh_read(
    connect: Connect, settings: Settings, worker: InlineWorker
) -> None:
    choice = random.Random(7)
    clients = [connect(settings) for _ in range(3)]
    sessions = [client.session("delta/random", SMALL) for client in clients]
    applied = 0
    for order in range(160):
        session = choice.choice(sessions)
        action = choice.choices(("push", "steps", "prepare", "work", "clear"), (3, 6, 6, 4, 0.3))[0]
        if action == "push":
            session.push(user(f"turn {order}"))
        elif action == "steps":
            session.push(step(order, 80))
        elif action == "work" and queued(session):
            applied += worker.work("delta/random").outcome.outcome is Code.APPLIED
        elif action == "clear":
            session.clear()
        elif action == "prepare":
            session.prepare()
        if order % 5 == 4:
            held = choice.choice(clients).session("delta/random", WIDE).prepare()
            assert held.messages == connect(settings).session("delta/random", WIDE).prepare().messages
            assert held.verdict.total == recount(held.messages) + 3 == session.estimate().total
    assert applied >= 3


def test_histories_over_the_cache_limit_are_read_whole_and_right(connect: Connect, settings: Settings) -> None:
    memory: Client = connect(settings.model_copy(update={"cache_bytes": 20_000}))
    for name in ("delta/x", "delta/y", "delta/z"):
        memory.session(name, SMALL).push(conversation(2))
    for _ in range(2):
        for name in ("delta/x", "delta/y", "delta/z"):
            assert memory.session(name, SMALL).prepare().messages == conversation(2)
