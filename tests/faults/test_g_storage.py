"""Section G, 1-5, 11 and 13-15: pushes, swaps, claims and lives of a session under concurrency and loss."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Final

import pytest

from compactor import Code, Compactor, ModelConfig, StoreUnavailableError
from compactor.claims import Begun
from compactor.commands import claim
from compactor.dispatch import Dispatcher
from compactor.embedded import EmbeddedServer
from compactor.models import CompactionId, SessionId
from compactor.server_check import Level, check_server
from compactor.settings import Settings, read_settings
from compactor.store import Store
from compactor.testing import Answer, ModelServer
from tests.acceptance.conftest import Service
from tests.acceptance.scripted_model import asked, long_talk, requests_with
from tests.acceptance.waiting import wait_until
from tests.integration.conversations import SMALL, assistant, conversation, recount, step, user
from tests.integration.inline_worker import InlineWorker
from tests.integration.stored import bare, expiries, keys_of, published, set_life

DEAD: Final = CompactionId("dead")


def test_g01_what_is_pushed_while_a_model_works_is_kept_in_order(modelled: Service, model: ModelServer) -> None:
    gate, ordinary = threading.Event(), model.answer

    def held(body: dict[str, Any]) -> Answer:
        assert "mark-g01" not in asked(body) or gate.wait(20)
        return ordinary(body)

    model.answer = held
    session = modelled.session("g01", SMALL)
    pushed = long_talk(9, "well", "mark-g01")
    session.push(pushed)
    session.prepare()
    wait_until(lambda: requests_with(model, "mark-g01"), what="the model call")
    later = [user(str(number)) for number in range(7)]
    for message in later:
        session.push(message)
    assert session.status().claim == "running"
    gate.set()
    outcome = wait_until(lambda: session.status().last, what="the outcome")
    model.answer = ordinary
    assert outcome.outcome is Code.APPLIED
    assert session.originals() == [*pushed, *later]
    context = session.prepare()
    assert context.messages[-7:] == later
    assert context.verdict.total == recount(context.messages) + 3


def test_g02_of_many_senders_one_queues(memory: Compactor, settings: Settings, raw: Any) -> None:
    memory.session("g02", SMALL).push(conversation(9))
    with ThreadPoolExecutor(8) as bots:
        sends = [bots.submit(memory.session("g02", SMALL).prepare) for _ in range(40)]
        contexts = [send.result() for send in sends]
    assert {context.verdict.compaction for context in contexts} == {"queued"}
    assert published(raw, settings) == 1


def test_g02_a_second_delivery_of_a_task_asks_no_model(modelled: Service, model: ModelServer) -> None:
    name = "g02/twice"
    session = modelled.memory.session(name, SMALL)
    session.push(long_talk(9, "unhurried", "mark-g02"))
    queued = session.compact()
    dispatcher = Dispatcher(modelled.settings)
    for owner in (queued.id, queued.id, "somebody-else"):
        dispatcher.publish(SessionId(name), CompactionId(owner))
    outcome = wait_until(lambda: session.status().last, what="the outcome")
    dispatcher.publish(SessionId(name), CompactionId(queued.id))
    dispatcher.close()
    done = f"compact_session[{queued.id}] succeeded"
    wait_until(lambda: modelled.worker.tail(1_000_000).count(done) >= 2, what="the end of a repeat")
    assert len(requests_with(model, "mark-g02")) == outcome.items
    assert session.compactions() == [outcome]


def test_g03_at_every_moment_all_messages_are_there(
    memory: Compactor, worker: InlineWorker, settings: Settings, raw: Any
) -> None:
    session = memory.session("g03", SMALL)
    session.push(conversation(9))
    lengths: set[int] = set()
    looks, stop = [0], threading.Event()

    def look() -> None:
        while not stop.is_set():
            lengths.add(raw.llen(keys_of(settings, "g03").messages))
            looks[0] += 1

    watcher = threading.Thread(target=look)
    watcher.start()
    wait_until(lambda: looks[0] > 5)
    for part in range(6):
        session.prepare()
        worker.work("g03")
        session.push([message for order in range(9) for message in step(9 * part + order)])
    stop.set()
    watcher.join()
    assert looks[0] > 20
    assert min(lengths) == 21
    assert lengths <= {21 + 18 * part for part in range(7)}


@pytest.mark.parametrize("station", ["snapshot", "swapping"])
def test_g03_a_server_that_crashes_during_a_compaction_has_the_history_before_it(
    own_server: EmbeddedServer, own_settings: Settings, station: str
) -> None:
    with Compactor(settings=own_settings) as memory, Store(own_settings) as store:
        session = memory.session("g03/crash", SMALL)
        session.push(conversation(9))
        session.prepare()
        worker = InlineWorker(own_settings, store).with_lease(0.1)
        with pytest.raises(StoreUnavailableError):
            worker.work("g03/crash", at=station, then=own_server.child.kill)
        own_server.restart()
        assert session.originals() == conversation(9) == memory.session("g03/crash", WIDE).prepare().messages
        wait_until(lambda: session.prepare().verdict.compaction == "queued", what="the claim's lease to run out")
        assert worker.work("g03/crash").outcome.outcome is Code.APPLIED
        assert session.originals() == conversation(9)


WIDE: Final = ModelConfig("gpt-4o", 2_000)


def test_g04_a_claim_whose_worker_died_runs_out(memory: Compactor, worker: InlineWorker) -> None:
    session = memory.session("g04", SMALL)
    session.push(conversation(9))
    session.prepare()
    assert worker.begin("g04", worker.owner("g04"), lease=0.2).begun is Begun.RUNNING
    assert session.prepare().verdict.compaction == "running"
    wait_until(lambda: session.prepare().verdict.compaction == "queued", what="the lease to run out")
    assert worker.work("g04").outcome.outcome is Code.APPLIED


def test_g04_a_claim_that_no_worker_takes_runs_out(settings: Settings, raw: Any) -> None:
    patient = settings.model_copy(update={"queue_patience": 0.2})
    with Compactor(settings=patient) as memory:
        session = memory.session("g04/queued", SMALL)
        session.push(conversation(9))
        session.prepare()

        def queued_again() -> bool:
            session.prepare()
            return published(raw, settings) == 2

        wait_until(queued_again, what="the patience to run out")


def test_g04_no_key_of_ours_lives_for_ever(
    memory: Compactor, worker: InlineWorker, settings: Settings, raw: Any
) -> None:
    session = memory.session("g04/keys", SMALL)
    for _ in range(2):
        session.push(conversation(9))
        session.prepare()
        worker.work("g04/keys")
        session.clear()
    session.push(user("on"))
    lives = expiries(raw, settings, "g04/keys")
    assert len(lives) >= 5
    assert min(lives.values()) > 0
    assert len(set(lives.values())) == 1


def test_g05_messages_stay_in_the_order_in_which_they_were_pushed(memory: Compactor, worker: InlineWorker) -> None:
    session = memory.session("g05", SMALL)
    same = [user("again"), assistant("yes")] * 20
    for message in same:
        session.push(message)
    session.push([*same, *conversation(8)])
    session.push(same[::-1])
    session.prepare()
    worker.work("g05")
    expected = [*same, *same, *conversation(8), *same[::-1]]
    assert session.originals() == expected
    assert [m["role"] for m in memory.session("g05", WIDE).prepare().messages] == [m["role"] for m in expected]


def test_g11_a_session_that_expires_during_its_compaction_stays_gone(
    memory: Compactor, worker: InlineWorker, settings: Settings, raw: Any
) -> None:
    for station in ("snapshot", "swapping"):
        session = memory.session(f"g11/{station}", SMALL)
        session.push(conversation(9))
        session.prepare()
        keys = keys_of(settings, f"g11/{station}").all
        ended = worker.work(f"g11/{station}", at=station, then=partial(raw.unlink, *keys))
        assert ended.outcome.outcome is Code.GONE
        assert not [key for key in keys if raw.exists(key)]
        assert session.prepare().messages == []


def test_g11_a_swap_keeps_the_life_of_the_session(
    memory: Compactor, worker: InlineWorker, settings: Settings, raw: Any
) -> None:
    session = memory.session("g11/kept", SMALL)
    session.push(conversation(9))
    session.prepare()
    set_life(raw, settings, "g11/kept", 3_600)
    assert worker.work("g11/kept").outcome.outcome is Code.APPLIED
    lives = expiries(raw, settings, "g11/kept")
    assert len(set(lives.values())) == 1
    assert len(lives) >= 5, "archive, audit and changes live as long as the messages"
    assert 3_500 < session.status().expires_in < 3_601


def test_g13_what_was_acknowledged_survives_a_crash_of_the_server(
    own_server: EmbeddedServer, own_settings: Settings
) -> None:
    with Compactor(settings=own_settings) as memory, Store(own_settings) as store:
        session = memory.session("g13", SMALL)
        session.push(conversation(9))
        session.prepare()
        outcome = InlineWorker(own_settings, store).work("g13").outcome
        session.push(user("the last word"))
        own_server.child.kill()
        own_server.restart()
        assert session.originals() == [*conversation(9), user("the last word")]
        assert session.compactions() == [outcome]


@pytest.mark.parametrize(
    ("options", "said"),
    [(("--appendonly", "no"), "memory only"), (("--appendonly", "no", "--save", "3600 1"), "snapshots only")],
)
def test_g13_a_server_that_forgets_is_told_at_the_start(options: tuple[str, ...], said: str) -> None:
    with EmbeddedServer(extra=options) as server:
        settings = read_settings(redis_url=server.url)
        with Store(settings) as store:
            (finding,) = [each for each in check_server(store, settings) if each.check == "persistence"]
    assert (finding.level, said in finding.text) == (Level.WARNING, True)
    assert "appendonly yes" in finding.advice


def test_g14_on_a_replica_nothing_is_half_written_and_after_the_promotion_all_goes_on(
    own_server: EmbeddedServer, own_settings: Settings
) -> None:
    with Compactor(settings=own_settings) as memory, bare(own_server) as server:
        session = memory.session("g14", SMALL)
        session.push(conversation(7))
        session.prepare()
        server.execute_command("REPLICAOF", "127.0.0.1", "1")
        with pytest.raises(StoreUnavailableError, match="nothing was changed"):
            session.push(user("once"))
        assert session.prepare().messages == conversation(7), "what has nothing to write needs no more than to read"
        degraded = session.prepare(max_output_tokens=900)
        assert (degraded.verdict.fit, degraded.verdict.compaction) == ("degraded", "held(store_unavailable)")
        assert degraded.messages == conversation(7)
        server.execute_command("REPLICAOF", "NO", "ONE")
        session.push(user("once"))
        assert session.originals() == [*conversation(7), user("once")]


def test_g15_what_a_failed_compaction_wrote_ahead_goes_with_the_next_one(
    memory: Compactor, worker: InlineWorker, settings: Settings, raw: Any
) -> None:
    session = memory.session("g15", SMALL)
    session.push(conversation(9))
    session.prepare()
    archive = keys_of(settings, "g15").archive
    owner = worker.owner("g15")
    worker.begin("g15", owner, lease=90)
    litter = dict.fromkeys(range(3, 14, 2), b"x" * 5000)
    assert worker.store.run(claim.archive(keys_of(settings, "g15"), owner=owner, originals=litter)) == "ok"
    before = session.status()
    assert (before.archived, before.stored_bytes) == (6, before.stored_bytes)
    assert raw.pttl(archive) > 0
    raw.hset(keys_of(settings, "g15").state, "until", int(time.time() * 1000))
    assert session.prepare().verdict.compaction == "queued"
    assert (session.status().archived, before.stored_bytes - session.status().stored_bytes) == (0, 30_000)
    outcome = worker.work("g15").outcome
    assert session.status().archived == outcome.items
    assert session.originals() == conversation(9)
