"""Faults that `compactor chaos` found, each reduced to what shows it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from compactor import Compactor, StoreUnavailableError
from compactor.settings import Settings
from tests.integration.conversations import SMALL, assistant, call, conversation, user
from tests.integration.lossy_proxy import LossyProxy

TWO_TRIES = 2  # redis-py repeats a call once by itself


@pytest.fixture
def bots(through_proxy: Settings) -> Iterator[Compactor]:
    """One process in which several threads talk."""
    with Compactor(settings=through_proxy) as memory:
        yield memory


def test_a_push_repeated_while_another_thread_sends_is_stored_once(bots: Compactor, proxy: LossyProxy) -> None:
    one, other = (bots.session("shared", SMALL) for _ in range(2))
    other.push(user("Hello, both."))
    proxy.lose("push", replies=TWO_TRIES)
    with pytest.raises(StoreUnavailableError):
        one.push(assistant("Here."))
    other.prepare()
    one.push(assistant("Here."))
    assert one.originals().count(assistant("Here.")) == 1


def test_what_is_due_is_queued(bots: Compactor) -> None:
    """A list that crosses the threshold only by the results that close its calls is not due for ever."""
    session = bots.session("edge", SMALL)
    session.push([*conversation(6), call(99)])
    session.push(user("Never mind."))
    threshold = session.estimate().threshold
    session.push(assistant(_words(threshold - session.estimate().total - 6)))
    assert session.estimate().total < threshold
    seen = session.prepare().verdict
    assert seen.compaction != "due", (seen.total, threshold)


def _words(tokens: int) -> str:
    return "a " * tokens
