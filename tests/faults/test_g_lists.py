"""Section G, 1, 2, 4, 5 and 11, for callers that keep their own list, and for sessions that go back and fork."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import pytest

from compactor import Code, Compactor, ModelConfig, Session
from compactor.models import Fit
from compactor.settings import Settings
from tests.integration.conversations import SMALL, conversation, user
from tests.integration.inline_worker import InlineWorker
from tests.integration.stored import expiries, published

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


def test_g02_a_list_sent_by_many_at_once_is_stored_once(memory: Compactor, settings: Settings, raw: Any) -> None:
    clients = [Compactor(settings=settings) for _ in range(4)]

    def talking(client: Compactor) -> None:
        session = client.session("g02", SMALL)
        for end in range(1, len(TALK) + 1):
            assert session.prepare(TALK[:end]).verdict.sent <= 7_000

    with ThreadPoolExecutor(len(clients)) as bots:
        for talk in [bots.submit(talking, client) for client in clients]:
            talk.result()
    for client in clients:
        client.close()
    session = memory.session("g02", SMALL)
    assert session.originals() == TALK
    assert (session.status().archived, published(raw, settings)) == (0, 1)


def begin_by_push(session: Session) -> None:
    session.push(TALK)


def begin_by_list(session: Session) -> None:
    session.prepare(TALK)


def begin_by_sync(session: Session) -> None:
    session.sync(TALK)


CHANGES: Final[dict[str, Callable[[Session], object]]] = {
    "nothing": Session.status,
    "push": lambda session: session.push(user("on")),
    "clear": Session.clear,
    "clear and push": lambda session: (session.clear(), session.push(user("on"))),
    "erase": Session.erase,
    "rewind": lambda session: session.rewind(4),
    "branch": lambda session: session.prepare([*TALK[:5], user("another way")]),
    "close": Session.close_open_calls,
}
BEGINNINGS: Final = (begin_by_push, begin_by_list, begin_by_sync)


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
@pytest.mark.parametrize("begin", BEGINNINGS)
def test_g04_no_key_lives_for_ever_whatever_is_done(
    begin: Callable[[Session], None],
    change: Callable[[Session], object],
    memory: Compactor,
    settings: Settings,
    raw: Any,
) -> None:
    session = memory.session("g04", SMALL)
    begin(session)
    change(session)
    assert min(expiries(raw, settings, "g04").values()) > 0


def test_g04_no_key_of_a_fork_lives_for_ever(memory: Compactor, settings: Settings, raw: Any) -> None:
    session = memory.session("g04/old", SMALL)
    session.push(TALK)
    session.fork("g04/new").push(user("on"))
    assert min(expiries(raw, settings, "g04/new").values()) > 0


@pytest.mark.parametrize("begin", BEGINNINGS)
def test_g11_a_message_pushed_again_after_the_session_ended_is_stored(
    begin: Callable[[Session], None], memory: Compactor, settings: Settings, raw: Any
) -> None:
    session = memory.session("g11/again", SMALL)
    begin(session)
    session.push(user("the message"), idempotency_key="platform-1")
    for key, end in expiries(raw, settings, "g11/again").items():
        if end > 0:  # the month is over
            raw.unlink(key)
    assert not session.status().exists
    session.push(user("the message"), idempotency_key="platform-1")
    assert session.originals() == [user("the message")]
