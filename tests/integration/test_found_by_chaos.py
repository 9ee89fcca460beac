"""Faults that `compactor chaos` found, each reduced to what shows it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from compactor import Compactor, Fit, StoreUnavailableError
from compactor.cli.chaos.checks import refused
from compactor.settings import Settings
from tests.integration.conversations import SMALL, assistant, call, conversation, result, step, user
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


def test_a_call_that_waits_is_closed_when_an_answer_puts_another_step_behind_it(bots: Compactor) -> None:
    """Two bots in one session: the later call waits, the earlier one is answered."""
    session = bots.session("two", SMALL)
    session.push([user("Look both."), call(1), call(2), result(1, "rows")])
    assert refused(session.prepare().messages) == {}


def test_a_view_of_a_list_that_lacks_a_turn_is_known_again(bots: Compactor) -> None:
    """A caller dropped a turn, the view hid the step before it, and the caller goes on with what it got."""
    session = bots.session("gap", SMALL)
    turns = [[user(f"Question {t}?"), *step(2 * t), *step(2 * t + 1), assistant(f"Answer {t}.")] for t in range(7)]
    said = [message for turn in turns for message in turn]
    session.sync(said)
    back = session.prepare([message for turn in (*turns[:1], *turns[2:]) for message in turn])
    assert back.verdict.fit is Fit.SHORTENED
    session.sync([*back.messages, user("And now?")])
    assert session.originals() == [*said, user("And now?")]


def test_a_caller_that_goes_on_with_a_list_from_an_outage_loses_nothing(bots: Compactor, proxy: LossyProxy) -> None:
    session = bots.session("away", SMALL)
    said = [user("Question?"), *(message for order in range(12) for message in step(order))]
    session.sync(said[:3])
    proxy.refuse()
    back = session.prepare(said)
    assert back.verdict.fit is Fit.DEGRADED
    proxy.heal()
    session.sync([*back.messages, assistant("Done.")])
    assert session.originals() == [*said, assistant("Done.")]


def _words(tokens: int) -> str:
    return "a " * tokens


def test_a_list_that_begins_with_the_reworded_question_changes_nothing_before_it(bots: Compactor) -> None:
    """A bot that keeps one round, and adds what it found to the newest question."""
    session = bots.session("round", SMALL)
    before = [user("What is a list?"), assistant("A row of things.")]
    session.sync([*before, user("And a set?")])
    session.sync([user("And a set?\n(found: sets hold each thing once)"), assistant("Each thing once.")])
    assert [message["role"] for message in session.originals()] == ["user", "assistant", "user", "assistant"]
