"""8 threads and 4 processes push to one session while a slow model summarises it."""

from __future__ import annotations

import multiprocessing
import uuid
from concurrent.futures import ThreadPoolExecutor

from compactor import Code
from compactor.validity import faults
from tests.acceptance.conftest import Service
from tests.acceptance.pusher import CONFIG, of_pusher, parts, push_all, pushing_process
from tests.acceptance.waiting import wait_until
from tests.integration.conversations import SYSTEM, WIDE, recount

THREADS = [f"thread{order}" for order in range(8)]
PROCESSES = [f"process{order}" for order in range(4)]
STEPS = 24


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
    replaced = [position for outcome in outcomes for position in outcome.positions]
    assert len(replaced) == len(set(replaced)), "nothing is replaced twice"
    context = session.prepare()
    assert not faults(context.messages)
    whole = modelled.memory.session(name, WIDE).prepare()
    assert whole.verdict.total == recount(whole.messages) + 3 == session.estimate().total
    assert whole.replaced == len(replaced)
    assert [session.recall(f"m{position}") for position in range(len(originals))] == originals
