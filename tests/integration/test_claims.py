"""The claim: one compaction of a session at a time, across processes, crashes and retries."""

from __future__ import annotations

import asyncio
import base64
import json
import threading
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from compactor import AsyncCompactor, Code, Compactor
from compactor.claims import Begun
from compactor.commands import claim
from compactor.exceptions import SummarizerRateLimited
from compactor.models import CompactionId
from compactor.settings import Settings
from tests.integration.clients import Client, Connect, StoreClient
from tests.integration.conversations import SMALL, WIDE, conversation, step, user
from tests.integration.inline_worker import InlineWorker
from tests.integration.stored import keys_of, published


def held_by(raw: Any, settings: Settings, session: str) -> dict[str, str]:
    """The claim's fields as they are stored."""
    state: dict[bytes, bytes] = raw.hgetall(keys_of(settings, session).state)
    return {name.decode(): value.decode() for name, value in state.items() if name != b"judged"}


def test_exactly_one_of_twenty_threads_claims(settings: Settings, raw: Any) -> None:
    clients = [Compactor(settings=settings) for _ in range(20)]
    clients[0].session("claim/threads", SMALL).push(conversation(9))
    gate = threading.Barrier(20)
    words: list[str] = []

    def sending(memory: Compactor) -> None:
        gate.wait()
        words.append(memory.session("claim/threads", SMALL).prepare().verdict.compaction)

    threads = [threading.Thread(target=sending, args=(memory,)) for memory in clients]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for memory in clients:
        memory.close()
    assert words == ["queued"] * 20
    assert published(raw, settings) == 1


async def test_exactly_one_of_twenty_coroutines_claims(settings: Settings, raw: Any) -> None:
    async with AsyncCompactor(settings=settings) as memory:
        session = memory.session("claim/coroutines", SMALL)
        await session.push(conversation(9))
        contexts = await asyncio.gather(*(session.prepare() for _ in range(20)))
        assert {context.verdict.compaction for context in contexts} == {"queued"}
    assert published(raw, settings) == 1


def test_the_task_carries_the_session_id_alone_and_the_owner_as_its_id(
    memory: Client, settings: Settings, worker: InlineWorker, raw: Any
) -> None:
    session = memory.session("claim/task", SMALL)
    session.push(conversation(9))
    session.prepare()
    task = json.loads(raw.lindex(f"{settings.namespace}:compaction.{settings.namespace}", 0))
    args, kwargs, _ = json.loads(base64.b64decode(task["body"]))
    assert (args, kwargs) == (["claim/task"], {})
    assert task["headers"]["id"] == worker.owner("claim/task")
    assert task["headers"]["task"] == "compactor.compact_session"


def test_a_worker_takes_a_queued_claim_and_only_its_owner(memory: Client, worker: InlineWorker) -> None:
    session = memory.session("claim/owner", SMALL)
    session.push(conversation(9))
    session.prepare()
    assert worker.begin("claim/owner", CompactionId("somebody-else")).begun is Begun.LOST
    assert worker.begin("claim/owner", worker.owner("claim/owner")).begun is Begun.RUNNING
    assert session.status().claim == "running"
    assert session.prepare().verdict.compaction == "running"


def test_a_task_delivered_twice_runs_once_and_looks_again_when_the_lease_is_over(
    memory: Client, worker: InlineWorker
) -> None:
    session = memory.session("claim/twice", SMALL)
    session.push(conversation(9))
    session.prepare()
    owner = worker.owner("claim/twice")
    worker.begin("claim/twice", owner, lease=30)
    second = worker.work("claim/twice", owner=owner)
    assert second.outcome.outcome is Code.BUSY
    assert second.retry_in is not None
    assert 29 < second.retry_in < 32


def test_a_lease_that_ran_out_lets_the_same_task_start_again(memory: Client, worker: InlineWorker) -> None:
    session = memory.session("claim/again", SMALL)
    session.push(conversation(9))
    session.prepare()
    owner = worker.owner("claim/again")
    worker.begin("claim/again", owner, lease=0)
    assert worker.work("claim/again", owner=owner).outcome.outcome is Code.APPLIED
    assert session.originals() == conversation(9)


def test_a_lease_that_ran_out_lets_the_next_send_queue_anew_and_shuts_out_the_old_owner(
    memory: Client, settings: Settings, worker: InlineWorker, raw: Any
) -> None:
    session = memory.session("claim/expired", SMALL)
    session.push(conversation(9))
    session.prepare()
    old = worker.owner("claim/expired")
    worker.begin("claim/expired", old, lease=0)
    assert session.prepare().verdict.compaction == "queued"
    assert worker.owner("claim/expired") != old
    assert published(raw, settings) == 2
    assert worker.work("claim/expired", owner=old).outcome.outcome is Code.STALE
    assert worker.work("claim/expired").outcome.outcome is Code.APPLIED


def test_a_queued_claim_that_no_worker_took_in_time_is_queued_anew(
    connect: Connect, settings: Settings, raw: Any
) -> None:
    impatient = settings.model_copy(update={"queue_patience": 0.001})
    session = connect(impatient).session("claim/patience", SMALL)
    session.push(conversation(9))
    for expected in (1, 2, 3):
        assert session.prepare().verdict.compaction == "queued"
        assert published(raw, settings) == expected


def test_after_three_crashes_the_session_is_dead_until_somebody_asks(
    memory: Client, settings: Settings, worker: InlineWorker, raw: Any
) -> None:
    session = memory.session("claim/dead", SMALL)
    session.push(conversation(9))
    for _ in range(settings.max_attempts):
        assert session.prepare().verdict.compaction == "queued"
        worker.begin("claim/dead", worker.owner("claim/dead"), lease=0)
    context = session.prepare()
    assert context.verdict.compaction == "held(dead)"
    assert context.verdict.sent <= context.verdict.ceiling
    assert published(raw, settings) == settings.max_attempts
    assert session.compact().outcome is Code.QUEUED
    assert worker.work("claim/dead").outcome.outcome is Code.APPLIED
    assert session.status().attempts == 0


def test_a_task_that_kills_its_worker_is_not_run_for_ever(
    memory: Client, settings: Settings, worker: InlineWorker
) -> None:
    session = memory.session("claim/poison", SMALL)
    session.push(conversation(9))
    session.prepare()
    owner = worker.owner("claim/poison")
    begun = [worker.begin("claim/poison", owner, lease=0).begun for _ in range(settings.max_attempts + 2)]
    assert begun.count(Begun.RUNNING) == settings.max_attempts


def test_a_retry_keeps_the_owner_and_nobody_else_may_queue_meanwhile(
    memory: Client, settings: Settings, worker: InlineWorker, raw: Any
) -> None:
    session = memory.session("claim/retry", SMALL)
    session.push(conversation(8))
    session.prepare()
    owner = worker.owner("claim/retry")
    worker.tools = replace(worker.tools, summarize=rate_limited)
    ended = worker.work("claim/retry")
    assert (ended.outcome.outcome, ended.outcome.reason) == (Code.SUMMARIZER_FAILED, "rate_limited")
    assert ended.retry_in == 7.5
    assert worker.owner("claim/retry") == owner
    assert session.status().claim == "queued"
    assert session.prepare().verdict.compaction == "queued"
    assert published(raw, settings) == 1
    until = int(held_by(raw, settings, "claim/retry")["until"])
    seconds, micros = raw.time()
    assert 7 + settings.queue_patience < until / 1000 - (seconds + micros / 1e6) < 8 + settings.queue_patience
    worker.tools = replace(worker.tools, summarize=None)
    assert worker.work("claim/retry", owner=owner).outcome.outcome is Code.APPLIED


def rate_limited(requests: Any, *, encode: Any, deadline: float, done: Any, pause: float = 7.5, **_: Any) -> list[Any]:
    """A summarizer whose server asks for a pause in seconds."""
    answers = [SummarizerRateLimited(retry_after=pause) for _ in requests]
    for order, answer in enumerate(answers):
        done(order, answer)
    return list(answers)


def test_the_last_attempt_gives_up_leaves_the_history_and_backs_off(
    memory: Client, settings: Settings, worker: InlineWorker, raw: Any
) -> None:
    session = memory.session("claim/gives-up", SMALL)
    session.push(conversation(7))
    assert session.prepare().verdict.total < 7_000
    before = raw.lrange(keys_of(settings, "claim/gives-up").messages, 0, -1)
    worker.tools = replace(worker.tools, summarize=rate_limited)
    ended = [worker.work("claim/gives-up", owner=worker.owner("claim/gives-up")) for _ in range(settings.max_attempts)]
    assert [end.retry_in for end in ended] == [7.5, 7.5, None]
    assert raw.lrange(keys_of(settings, "claim/gives-up").messages, 0, -1) == before
    assert session.prepare().verdict.compaction == "held(summarizer_failed)"
    assert session.status().last == ended[-1].outcome
    assert session.compact().outcome is Code.QUEUED


def test_a_failed_publish_gives_the_claim_back_with_a_growing_pause(
    memory: Client, settings: Settings, store: StoreClient, worker: InlineWorker, raw: Any
) -> None:
    session = memory.session("claim/unqueue", SMALL)
    session.push(conversation(9))
    pauses: list[int] = []
    for _ in range(8):
        assert session.prepare().verdict.compaction == "queued"
        keys = keys_of(settings, "claim/unqueue")
        assert store.run(claim.unqueue(keys, owner=worker.owner("claim/unqueue")))
        seconds, micros = raw.time()
        pauses.append(round(int(raw.hget(keys.state, "not_before")) / 1000 - seconds - micros / 1e6))
        assert session.prepare().verdict.compaction == "held(broker_down)"
        raw.hset(keys.state, "not_before", 0)  # the pause is over
    assert pauses == [1, 2, 4, 8, 16, 32, 60, 60]


def test_only_a_queued_owner_can_be_unqueued(
    memory: Client, settings: Settings, store: StoreClient, worker: InlineWorker
) -> None:
    session = memory.session("claim/unqueue-running", SMALL)
    session.push(conversation(9))
    session.prepare()
    owner = worker.owner("claim/unqueue-running")
    keys = keys_of(settings, "claim/unqueue-running")
    assert not store.run(claim.unqueue(keys, owner=CompactionId("other")))
    worker.begin("claim/unqueue-running", owner)
    assert not store.run(claim.unqueue(keys, owner=owner))
    assert session.status().claim == "running"


def test_a_compaction_that_could_do_nothing_re_arms_only_behind_new_tokens(
    memory: Client, settings: Settings, worker: InlineWorker, raw: Any
) -> None:
    session = memory.session("claim/re-arm", SMALL)
    session.push([user("word " * 1_000) for _ in range(6)])
    assert session.prepare().verdict.compaction == "queued"
    outcome = worker.work("claim/re-arm").outcome
    assert (outcome.outcome, outcome.reason) == (Code.EXHAUSTED, "user_and_assistant_text")
    for _ in range(3):
        assert session.prepare().verdict.compaction == "held(exhausted)"
    assert published(raw, settings) == 1
    session.push([message for order in range(5) for message in step(order)])
    assert session.prepare().verdict.compaction == "queued"


def test_the_worker_plans_by_the_send_that_took_the_claim(memory: Client, worker: InlineWorker) -> None:
    small, wide = (memory.session("claim/router", config) for config in (SMALL, WIDE))
    small.push(conversation(9))
    assert small.prepare().verdict.compaction == "queued"
    assert wide.prepare().verdict.fit == "fits"
    assert worker.work("claim/router").outcome.outcome is Code.APPLIED


def test_a_session_queued_for_over_a_minute_is_warned_about_once(
    memory: Client, settings: Settings, raw: Any, caplog: pytest.LogCaptureFixture
) -> None:
    session = memory.session("claim/warned", SMALL)
    session.push(conversation(9))
    session.prepare()
    session.prepare()
    assert caplog.records == []
    seconds, _ = raw.time()
    raw.hset(keys_of(settings, "claim/warned").state, "queued_at", (seconds - 61) * 1000)
    session.prepare()
    session.prepare()
    (record,) = caplog.records
    assert record.levelname == "WARNING"
    assert "celery -A workers worker" in record.getMessage()


def test_a_pause_longer_than_a_minute_is_left_to_later_sends(
    memory: Client, settings: Settings, worker: InlineWorker, raw: Any
) -> None:
    session = memory.session("claim/long-pause", SMALL)
    session.push(conversation(7))
    session.prepare()
    worker.tools = replace(worker.tools, summarize=partial(rate_limited, pause=300.0))
    ended = worker.work("claim/long-pause")
    assert (ended.outcome.outcome, ended.retry_in) == (Code.SUMMARIZER_FAILED, None)
    seconds, _ = raw.time()
    assert 295 < int(held_by(raw, settings, "claim/long-pause")["not_before"]) / 1000 - seconds < 305
