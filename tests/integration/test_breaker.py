"""The circuit breaker: a model server that is down is left alone, then tried by one call, then used again."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest

from compactor.breaker import Breaker
from compactor.commands.breaker import breaker_key
from compactor.embedded import EmbeddedServer
from compactor.exceptions import (
    SummarizerBreakerOpen,
    SummarizerError,
    SummarizerRateLimited,
    SummarizerRefused,
    SummarizerReplyRejected,
    SummarizerServerError,
    SummarizerTimeout,
    SummarizerTooLong,
    SummarizerTransient,
    SummarizerUnauthorized,
    SummarizerUnreachable,
)
from compactor.settings import Settings, read_settings
from compactor.store import Store
from tests.acceptance.waiting import wait_until

FAILURES, PAUSE = 3, 0.4
SERVERS = [
    SummarizerServerError("500"),
    SummarizerTimeout(),
    SummarizerUnreachable(),
    SummarizerServerError("not_json"),
]
ANSWERS = [
    SummarizerRateLimited(retry_after=1.0), SummarizerUnauthorized("401"), SummarizerRefused(),
    SummarizerTooLong("400"), SummarizerReplyRejected("empty"), SummarizerTimeout("deadline"),
]  # fmt: skip


@pytest.fixture
def short(settings: Settings) -> Settings:
    return settings.model_copy(
        update={"breaker_failures": FAILURES, "breaker_pause": PAUSE, "summarizer_model": "cheap", "call_timeout": 1.0}
    )


@pytest.fixture
def store(short: Settings) -> Iterator[Store]:
    with Store(short) as opened:
        yield opened


@pytest.fixture
def breaker(short: Settings, store: Store) -> Breaker:
    return Breaker(short, store)


def soon() -> float:
    return time.monotonic() + 5


def well() -> str:
    return "well"


def failing(error: SummarizerError) -> Callable[[], str]:
    def function() -> str:
        raise error

    return function


def fail(breaker: Breaker, times: int = FAILURES, error: SummarizerError | None = None) -> None:
    for _ in range(times):
        with pytest.raises(SummarizerError) as caught:
            breaker.call(failing(error or SummarizerServerError("500")), until=soon())
        assert not isinstance(caught.value, SummarizerBreakerOpen)


def is_open(breaker: Breaker) -> bool:
    called: list[int] = []
    try:
        breaker.call(lambda: called.append(1), until=soon())
    except SummarizerBreakerOpen:
        assert not called
        return True
    return False


def opened(breaker: Breaker) -> None:
    """Opens it, and waits until its pause is over."""
    fail(breaker)
    started = time.monotonic()
    wait_until(lambda: time.monotonic() - started > PAUSE)


@pytest.mark.parametrize("error", SERVERS, ids=str)
def test_failures_in_a_row_open_it_and_the_next_call_is_not_made(breaker: Breaker, error: SummarizerError) -> None:
    fail(breaker, error=error)
    with pytest.raises(SummarizerBreakerOpen) as caught:
        breaker.call(pytest.fail, until=soon())
    assert isinstance(caught.value, SummarizerTransient)
    assert str(caught.value) == "breaker_open"
    assert caught.value.retry_after is not None
    assert 0 < caught.value.retry_after <= PAUSE


@pytest.mark.parametrize("error", ANSWERS, ids=str)
def test_an_answer_that_is_no_summary_does_not_count(breaker: Breaker, error: SummarizerError) -> None:
    fail(breaker, times=3 * FAILURES, error=error)
    assert not is_open(breaker)


@pytest.mark.parametrize("answer", [well, failing(SummarizerRateLimited())])
def test_an_answer_between_failures_begins_the_count_anew(breaker: Breaker, answer: Callable[[], str]) -> None:
    for _ in range(3):
        fail(breaker, times=FAILURES - 1)
        with suppress(SummarizerRateLimited):
            breaker.call(answer, until=soon())
    assert not is_open(breaker)


def test_after_the_pause_a_good_call_closes_it(breaker: Breaker) -> None:
    opened(breaker)
    assert breaker.call(well, until=soon()) == "well"
    fail(breaker, times=FAILURES - 1)
    assert not is_open(breaker)


def test_after_the_pause_a_failing_call_opens_it_for_another_one(breaker: Breaker) -> None:
    opened(breaker)
    fail(breaker, times=1)
    assert is_open(breaker)


def test_the_next_trial_need_not_wait_for_one_that_failed(breaker: Breaker) -> None:
    opened(breaker)
    opened_again = time.monotonic()
    fail(breaker, times=1)
    wait_until(lambda: time.monotonic() - opened_again > 2 * PAUSE)
    assert breaker.call(well, until=time.monotonic()) == "well"


@pytest.mark.parametrize("recovers", [True, False])
def test_of_many_calls_after_the_pause_one_tries_and_the_others_wait_for_its_answer(
    breaker: Breaker, short: Settings, recovers: bool
) -> None:
    opened(breaker)
    lock, tried = threading.Lock(), threading.Event()
    running, most, ended = 0, 0, list[str]()

    def ask() -> str:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running) if not tried.is_set() else most
        time.sleep(0.15)  # the length of a call
        tried.set()
        with lock:
            running -= 1
        if not recovers:
            raise SummarizerServerError("500")
        return "well"

    def caller() -> None:
        with Store(short) as own:
            try:
                ended.append(Breaker(short, own).call(ask, until=soon()))
            except SummarizerError as error:
                ended.append(error.code)

    threads = [threading.Thread(target=caller) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == 1
    assert sorted(ended) == (["well"] * 16 if recovers else ["breaker_open"] * 15 + ["server_error"])


def test_a_waiting_call_gives_up_when_its_time_is_over(breaker: Breaker) -> None:
    opened(breaker)
    tries, release = threading.Event(), threading.Event()

    def answer() -> bool:
        tries.set()
        return release.wait(20)

    trial = threading.Thread(target=lambda: breaker.call(answer, until=soon()))
    trial.start()
    try:
        assert tries.wait(20)
        wait_until(lambda: is_waiting(breaker))
    finally:
        release.set()
        trial.join()


def is_waiting(breaker: Breaker) -> bool:
    try:
        breaker.call(well, until=time.monotonic())
    except SummarizerBreakerOpen:
        return True
    pytest.fail("a second call was let through beside the trial")


def test_a_trial_whose_worker_died_lapses(breaker: Breaker) -> None:
    opened(breaker)
    with pytest.raises(KeyboardInterrupt):
        breaker.call(interrupted, until=soon())
    assert is_waiting(breaker)
    assert breaker.call(well, until=soon()) == "well"


def interrupted() -> None:
    raise KeyboardInterrupt


def test_calls_run_side_by_side(breaker: Breaker) -> None:
    together = threading.Barrier(32, timeout=5)
    threads = [threading.Thread(target=lambda: breaker.call(together.wait, until=soon())) for _ in range(32)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not together.broken


def test_without_redis_every_call_is_made(own_server: EmbeddedServer) -> None:
    settings = read_settings(redis_url=own_server.url, namespace="away", breaker_failures=1, connect_timeout=0.2)
    with Store(settings) as store:
        breaker = Breaker(settings, store)
        fail(breaker, times=1)
        assert is_open(breaker)
        own_server.child.stop()
        assert breaker.call(well, until=soon()) == "well"
        fail(breaker, times=3)


def test_its_one_key_is_small_named_by_namespace_and_hash_and_does_not_stay(
    breaker: Breaker, short: Settings, raw: Any
) -> None:
    fail(breaker)
    keys = list(raw.scan_iter(f"{short.namespace}:*"))
    assert keys == [breaker_key(short.namespace, "", "cheap").encode()]
    assert keys[0].startswith(f"{short.namespace}:breaker:".encode())
    assert 0 < raw.pttl(keys[0]) <= 3_600_000 + PAUSE * 1000
    assert raw.hlen(keys[0]) <= 3


def test_models_servers_and_namespaces_do_not_share_it(breaker: Breaker, short: Settings, store: Store) -> None:
    fail(breaker)
    for change in ({"summarizer_model": "other"}, {"openai_base_url": "http://b/v1"}, {"namespace": "elsewhere"}):
        assert not is_open(Breaker(short.model_copy(update=change), store))


def test_a_call_that_began_before_it_opened_changes_nothing(breaker: Breaker) -> None:
    def slow() -> str:
        fail(breaker, times=FAILURES - 1)
        return "well"

    fail(breaker, times=1)
    assert breaker.call(slow, until=soon()) == "well"
    assert is_open(breaker)
