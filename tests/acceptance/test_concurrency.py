"""8 threads and 4 processes push to one session while a slow model summarises it."""

from __future__ import annotations

import multiprocessing
import uuid
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import redis

from compactor import Code, Outcome
from compactor.models import Kind
from compactor.records import unpack
from compactor.validity import faults
from tests.acceptance.conftest import Service
from tests.acceptance.pusher import CONFIG, of_pusher, parts, push_all, pushing_process
from tests.acceptance.waiting import wait_until
from tests.integration.conversations import SYSTEM, WIDE, recount
from tests.integration.stored import keys_of

THREADS = [f"thread{order}" for order in range(8)]
PROCESSES = [f"process{order}" for order in range(4)]
STEPS = 24
_REDIS: Any = redis.Redis  # its own types are partially unknown


def test_nothing_is_lost_nothing_comes_twice_and_each_pusher_keeps_its_order(modelled: Service) -> None:
    spawn = multiprocessing.get_context("spawn")
    name = f"concurrency/{uuid.uuid4().hex[:8]}"
    session = modelled.memory.session(name, CONFIG)
    session.push(SYSTEM)
    gate = spawn.Barrier(len(THREADS) + len(PROCESSES))

    def in_thread(bot: str) -> None:
        gate.wait(30)
        push_all(session, bot, STEPS)

    processes = [
        spawn.Process(target=pushing_process, args=(modelled.settings, name, bot, STEPS, gate)) for bot in PROCESSES
    ]
    for process in processes:
        process.start()
    with ThreadPoolExecutor(len(THREADS)) as threads:
        for _ in threads.map(in_thread, THREADS):
            pass
    for process in processes:
        process.join(60)
    assert [process.exitcode for process in processes] == [0] * len(PROCESSES)

    def settled() -> bool:
        return session.prepare().verdict.compaction not in ("queued", "running")

    wait_until(settled, seconds=20, what="the last compaction")
    originals = session.originals()
    for bot in (*THREADS, *PROCESSES):
        assert of_pusher(originals, bot) == [message for part in parts(bot, STEPS) for message in part]
    assert len(originals) == 1 + sum(len(part) for _ in (*THREADS, *PROCESSES) for part in parts("any", STEPS))
    assert not faults(originals)
    outcomes = session.compactions()
    assert sum(outcome.outcome is Code.APPLIED for outcome in outcomes) >= 3
    replaced = replaced_once(outcomes, kinds_of(modelled, name))
    context = session.prepare()
    assert not faults(context.messages)
    whole = modelled.memory.session(name, WIDE).prepare()
    assert whole.verdict.total == recount(whole.messages) + 3 == session.estimate().total
    assert whole.replaced == len(replaced)
    assert [session.recall(f"m{position}") for position in range(len(originals))] == originals


def kinds_of(service: Service, session: str) -> list[Kind]:
    """What stands at each position, read past the product."""
    with _REDIS.from_url(service.settings.redis_url.get_secret_value()) as raw:
        rows = raw.lrange(keys_of(service.settings, session).messages, 0, -1)
    return [unpack(row).kind for row in rows]


def replaced_once(outcomes: Sequence[Outcome], kinds: Sequence[Kind]) -> set[int]:
    """The replaced positions. None is replaced twice, but by a fold, which may take up replacements and older folds.

    What a fold tells of stays with folds; the one that stands at a position is of the last compaction that names it.
    """
    last = {position: order for order, outcome in enumerate(outcomes) for position in outcome.positions}
    assert set(last) == {position for position, kind in enumerate(kinds) if kind is not Kind.ORIGINAL}
    seen: set[int] = set()
    for order, outcome in enumerate(outcomes):
        here = set(outcome.positions)
        folded = {p for p in here if kinds[p] in (Kind.FOLD, Kind.FOLDED)}
        assert len(here) == len(outcome.positions) == outcome.items, "nothing is replaced twice at once"
        assert sum(last[p] == order for p in folded) <= outcome.by_fold <= len(folded)
        assert here & seen <= folded, "nothing but a fold takes up what was replaced"
        seen |= here
    return seen
