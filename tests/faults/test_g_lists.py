"""Section G, 1 and 5, for callers that keep their own list: what they send late, short or twice undoes nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pytest

from compactor import Code, Compactor, ModelConfig, Session
from compactor.models import Fit
from tests.integration.conversations import SMALL, conversation, user
from tests.integration.inline_worker import InlineWorker

Lists = Callable[[list[Any], list[Any]], list[Any]]  # the list as pushed, the list that came back -> what is sent
TALK: Final = [user("Where are the values defined?"), *conversation(9)[2:]]
LATE: Final[dict[str, Lists]] = {
    "the same again": lambda pushed, _: pushed,
    "an older one": lambda pushed, _: pushed[:9],
    "the oldest": lambda pushed, _: pushed[:1],
    "without its head": lambda pushed, _: pushed[6:],
    "the list we returned": lambda _, returned: returned,
    "the list we returned, an older one": lambda _, returned: returned[:7],
    "the list we returned, without its head": lambda _, returned: returned[6:],
}


def stand(session: Session) -> tuple[int, int, int]:
    """What changes when something is replaced, archived or stored."""
    status = session.status()
    return status.revision, status.archived, status.stored_bytes


@pytest.mark.parametrize("late", LATE.values(), ids=LATE.keys())
def test_g01_a_stale_list_undoes_no_compaction(late: Lists, memory: Compactor, worker: InlineWorker) -> None:
    session = memory.session("g01", SMALL)
    assert session.prepare(TALK).verdict.compaction == "queued"
    outcome = worker.work("g01").outcome
    assert outcome.outcome is Code.APPLIED
    returned = session.prepare(TALK)
    assert (returned.verdict.fit, returned.replaced) == (Fit.FITS, outcome.items)
    before = stand(session)
    for _ in range(3):
        sent = late(TALK, returned.messages)
        answer = session.prepare(sent).messages
        assert len(answer) == len(sent)
        assert all(message in returned.messages for message in answer), "each as it stands now"
    assert stand(session) == before
    assert session.originals() == TALK
    assert session.prepare(TALK).messages == returned.messages


def test_g01_a_list_that_grew_while_the_worker_was_busy_is_kept(memory: Compactor, worker: InlineWorker) -> None:
    session = memory.session("g01/grown", SMALL)
    session.prepare(TALK)
    longer = [*TALK, user("1"), user("2"), user("3")]
    assert worker.work("g01/grown", at="swapping", then=lambda: session.prepare(longer)).outcome.outcome is Code.APPLIED
    context = session.prepare(longer)
    assert context.messages[-3:] == longer[-3:]
    assert context.replaced > 0
    assert session.originals() == longer


def test_g05_a_list_sent_by_two_processes_is_stored_once(memory: Compactor) -> None:
    first = memory.session("g05", ModelConfig("gpt-4o", 128))
    with Compactor(settings=memory.settings) as other:
        second = other.session("g05", ModelConfig("gpt-4o", 128))
        for end in range(1, len(TALK) + 1):
            for session in (first, second) if end % 2 else (second, first):
                assert session.prepare(TALK[:end]).messages == TALK[:end]
    assert first.originals() == TALK
