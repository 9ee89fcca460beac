"""Requests and tokens per minute: one bucket for all workers, short waits, and 429's pause kept by everybody."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compactor.breaker import Breaker
from compactor.drafts import unheard
from compactor.embedded import free_port
from compactor.exceptions import SummarizerRateLimited, SummarizerThrottled
from compactor.quota import PATIENCE, Quota, refill
from compactor.settings import Settings
from compactor.store import Store
from compactor.summarizer import ModelSummarizer
from compactor.testing import ModelServer
from tests.faults.asking import ENCODE, request


@pytest.fixture
def modelled(settings: Settings) -> Settings:
    return settings.model_copy(update={"summarizer_model": "cheap", "summarizer_context_limit": 1})


@pytest.fixture
def store(modelled: Settings) -> Iterator[Store]:
    with Store(modelled) as opened:
        yield opened


def far() -> float:
    return time.monotonic() + 60


@given(st.integers(1, 10**9), st.integers(1, 10**6))
def test_no_minute_exceeds_the_limit_unless_a_single_call_takes_half_of_it(limit: int, least: int) -> None:
    per_minute, burst = refill(limit, least=least)
    assert min(least, limit) <= burst <= limit
    assert per_minute >= max(1, limit // 2)
    if limit >= 2 * least and limit > 1:
        assert per_minute + burst <= limit


def test_workers_share_one_bucket(modelled: Settings, store: Store) -> None:
    limited = modelled.model_copy(update={"summarizer_rpm": 600})  # 60 at once, then 9 a second
    with Store(limited) as another:
        quotas = [Quota(limited, each) for each in (store, another)]
        began = time.monotonic()
        with ThreadPoolExecutor(8) as threads:
            calls = [threads.submit(quotas[number % 2].take, 1, until=far()) for number in range(69)]
            assert [call.result() for call in calls] == [None] * 69
    assert time.monotonic() - began >= 0.9


def test_an_empty_bucket_is_not_waited_for_and_says_when_to_come_again(modelled: Settings, store: Store) -> None:
    quota = Quota(modelled.model_copy(update={"summarizer_rpm": 6}), store)  # one at once, the next after 12 s
    quota.take(1, until=far())
    began = time.monotonic()
    with pytest.raises(SummarizerThrottled) as told:
        quota.take(1, until=far())
    assert time.monotonic() - began < PATIENCE
    assert 5 < (told.value.retry_after or 0) <= 12


def test_the_deadline_of_a_compaction_ends_a_wait(modelled: Settings, store: Store) -> None:
    quota = Quota(modelled.model_copy(update={"summarizer_rpm": 60}), store)
    for _ in range(6):
        quota.take(1, until=far())
    with pytest.raises(SummarizerThrottled):  # the next comes in 1.1 s
        quota.take(1, until=time.monotonic() + 0.3)


def test_a_wait_leaves_a_call_its_whole_time(modelled: Settings, store: Store) -> None:
    with ModelServer() as server:
        told = {"summarizer_rpm": 60, "openai_base_url": server.url, "call_timeout": 2.0}
        limited = modelled.model_copy(update=told)
        quota = Quota(limited, store)
        for _ in range(6):
            quota.take(1, until=far())
        model, deadline = ModelSummarizer(limited, quota=quota), time.monotonic() + 2.6  # the next comes in 1.1 s
        (answer,) = model([request()], encode=ENCODE, deadline=deadline, done=unheard)
        model.close()
    assert isinstance(answer, SummarizerThrottled)
    assert not server.requests


def test_tokens_are_counted_and_a_call_larger_than_the_bucket_takes_it_whole(modelled: Settings, store: Store) -> None:
    quota = Quota(modelled.model_copy(update={"summarizer_tpm": 2_000}), store)  # 1,000 at once, 1,000 a minute
    quota.take(5_000, until=far())
    with pytest.raises(SummarizerThrottled) as told:
        quota.take(500, until=far())
    assert 20 < (told.value.retry_after or 0) <= 30


def test_without_limits_or_without_redis_nothing_is_held_back(modelled: Settings, store: Store) -> None:
    for _ in range(100):
        Quota(modelled, store).take(10**9, until=far())
    update: dict[str, Any] = {"redis_url": type(modelled.redis_url)(f"redis://127.0.0.1:{free_port()}/0")}
    nowhere = modelled.model_copy(update={**update, "summarizer_rpm": 1})
    with Store(nowhere) as away:
        for _ in range(3):
            Quota(nowhere, away).take(1, until=far())


class Server:
    """A model that answers 429 once, and when it was called."""

    def __init__(self, retry_after: float | None) -> None:
        self.retry_after = retry_after
        self.called: list[float] = []

    def __call__(self) -> str:
        self.called.append(time.monotonic())
        if len(self.called) == 1:
            raise SummarizerRateLimited(retry_after=self.retry_after)
        return "fine"


def test_all_workers_keep_the_pause_that_one_was_told(modelled: Settings, store: Store) -> None:
    server = Server(retry_after=0.5)
    with Store(modelled) as another:
        first, second = (Breaker(modelled, each) for each in (store, another))
        with pytest.raises(SummarizerRateLimited):
            first.call(server, until=far())
        with ThreadPoolExecutor(4) as threads:
            calls = [threads.submit(breaker.call, server, until=far()) for breaker in (first, second, second, first)]
            assert [call.result() for call in calls] == ["fine"] * 4
    assert min(later - server.called[0] for later in server.called[1:]) >= 0.5
    assert all(earlier <= later for earlier, later in pairwise(server.called))


def test_a_long_pause_is_not_waited_for_in_a_thread(modelled: Settings, store: Store) -> None:
    server, breaker = Server(retry_after=120.0), Breaker(modelled, store)
    with pytest.raises(SummarizerRateLimited):
        breaker.call(server, until=far())
    with pytest.raises(SummarizerThrottled) as told:
        breaker.call(server, until=far())
    assert 110 < (told.value.retry_after or 0) <= 120
    assert len(server.called) == 1


def test_a_pause_outlives_good_answers_of_calls_that_were_on_their_way(modelled: Settings, store: Store) -> None:
    breaker = Breaker(modelled.model_copy(update={"breaker_failures": 3}), store)

    def meanwhile() -> str:
        with pytest.raises(SummarizerRateLimited):
            breaker.call(Server(retry_after=120.0), until=far())
        return "fine"

    assert breaker.call(meanwhile, until=far()) == "fine"
    with pytest.raises(SummarizerThrottled):
        breaker.call(lambda: "not called", until=far())


def test_without_a_wish_of_the_server_nobody_pauses(modelled: Settings, store: Store) -> None:
    server, breaker = Server(retry_after=None), Breaker(modelled, store)
    with pytest.raises(SummarizerRateLimited):
        breaker.call(server, until=far())
    assert breaker.call(server, until=far()) == "fine"
