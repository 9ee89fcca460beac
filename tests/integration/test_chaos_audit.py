"""The audit of `compactor chaos` counts each kind of damage, and nothing where there is none."""

from __future__ import annotations

import time
from collections.abc import Iterator
from hashlib import blake2b
from typing import Any

import pytest

from compactor import Code, Compactor, Outcome, Session
from compactor.archive import compress, decompress
from compactor.cli.chaos.audit import BEYOND, PROMISES, Audited, audit
from compactor.cli.chaos.bill import Bill, bill
from compactor.cli.chaos.faults import KINDS
from compactor.cli.chaos.injector import Hit
from compactor.cli.chaos.journal import Entry, Fate, Record
from compactor.cli.chaos.model import Call
from compactor.embedded import EmbeddedServer
from compactor.records import unpack
from compactor.settings import Settings
from compactor.store import Store
from tests.integration.conversations import SMALL, SYSTEM, conversation, user
from tests.integration.inline_worker import InlineWorker
from tests.integration.stored import bare, keys_of

NAME = "chaos/1"


@pytest.fixture
def blocking(settings: Settings) -> Iterator[Compactor]:
    with Compactor(settings=settings) as memory:
        yield memory


@pytest.fixture
def session(blocking: Compactor) -> Session:
    return blocking.session(NAME, SMALL)


def journal(*batches: list[Any], fate: Fate = Fate.STORED, bot: int = 0) -> Record:
    """What one bot wrote down of these pushes."""
    return Record([Entry(bot, NAME, number, batch, fate=fate) for number, batch in enumerate(batches)])


def audited(memory: Compactor, *records: Record) -> Audited:
    return audit(memory, {NAME: SMALL}, records)


def found(audited: Audited) -> dict[str, int]:
    return dict(+audited.findings.counts)


ONE, TWO, THREE = user("one"), user("two"), user("three")


def test_a_session_that_is_as_its_bots_wrote_it_down_has_no_findings(blocking: Compactor, session: Session) -> None:
    session.push([SYSTEM, ONE])
    session.push(TWO)
    assert found(audited(blocking, journal([SYSTEM, ONE], [TWO]))) == {}


def test_a_push_that_is_not_there_is_lost(blocking: Compactor, session: Session) -> None:
    session.push(ONE)
    assert found(audited(blocking, journal([ONE], [TWO]))) == {"lost": 1}


def test_a_session_that_is_gone_has_lost_everything(blocking: Compactor) -> None:
    assert found(audited(blocking, journal([ONE, TWO], [THREE]))) == {"lost": 3}


def test_a_session_that_cannot_be_read_is_damaged(
    blocking: Compactor, session: Session, settings: Settings, server: EmbeddedServer
) -> None:
    session.push(ONE)
    with bare(server) as raw:
        raw.delete(keys_of(settings, NAME).messages)
    assert found(audited(blocking, journal([ONE]))) == {"damaged": 1}


def test_a_push_that_is_there_twice_is_duplicated(blocking: Compactor, session: Session) -> None:
    for message in (ONE, TWO, ONE):
        session.push(message)
    assert found(audited(blocking, journal([ONE], [TWO]))) == {"duplicated": 1}


def test_pushes_of_one_bot_that_changed_places_are_reordered(blocking: Compactor, session: Session) -> None:
    for message in (ONE, THREE, TWO):
        session.push(message)
    assert found(audited(blocking, journal([ONE], [TWO], [THREE]))) == {"reordered": 1}


def test_the_order_of_two_bots_is_free(blocking: Compactor, session: Session) -> None:
    for message in (ONE, THREE, TWO):
        session.push(message)
    assert found(audited(blocking, journal([ONE], [TWO]), journal([THREE], bot=1))) == {}


def test_a_batch_that_another_push_tore_apart_is_reordered(blocking: Compactor, session: Session) -> None:
    for message in (ONE, THREE, TWO):
        session.push(message)
    assert found(audited(blocking, journal([ONE, TWO]), journal([THREE], bot=1))) == {"reordered": 1}


def test_a_message_that_nobody_pushed_is_changed(blocking: Compactor, session: Session) -> None:
    session.push([ONE, TWO])
    assert found(audited(blocking, journal([ONE]))) == {"changed": 1}


@pytest.mark.parametrize("fate", [Fate.TRIED, Fate.ABSENT])
@pytest.mark.parametrize(("times", "expected"), [(0, {}), (1, {}), (2, {"duplicated": 1})])
def test_a_push_in_doubt_may_be_there_once_or_not_at_all(
    fate: Fate, times: int, expected: dict[str, int], blocking: Compactor, session: Session
) -> None:
    session.push(ONE)
    for _ in range(times):
        session.push(TWO)
    assert found(audited(blocking, journal([ONE]), journal([TWO], fate=fate, bot=1))) == expected


def test_half_a_batch_in_doubt_is_lost(blocking: Compactor, session: Session) -> None:
    session.push(ONE)
    assert found(audited(blocking, journal([ONE, TWO], fate=Fate.TRIED))) == {"lost": 1}


def test_what_the_bots_saw_in_their_lists_is_counted(blocking: Compactor, session: Session) -> None:
    session.push(ONE)
    record = journal([ONE])
    record.findings.append({"b": 0, "s": NAME, "fault": "invalid", "added": {"open_call": 1}})
    assert found(audited(blocking, record)) == {"invalid": 1}


def test_a_running_total_that_is_not_a_recount_is_miscounted(
    blocking: Compactor, session: Session, settings: Settings, server: EmbeddedServer
) -> None:
    session.push(ONE)
    with bare(server) as raw:
        raw.hincrby(keys_of(settings, NAME).state, "o200k_base.total", 1)
    assert found(audited(blocking, journal([ONE]))) == {"miscounted": 1}


@pytest.fixture
def compacted(session: Session, settings: Settings) -> list[Any]:
    """A conversation with replaced results."""
    messages = conversation(9)
    session.push(messages)
    session.prepare()
    with Store(settings) as store:
        InlineWorker(settings, store).work(NAME)
    return messages


def test_replaced_results_are_recalled(blocking: Compactor, compacted: list[Any]) -> None:
    seen = audited(blocking, journal(compacted))
    assert found(seen) == {}
    assert seen.replaced == seen.recalled > 0


def test_an_archive_that_holds_other_words_is_changed(
    blocking: Compactor, compacted: list[Any], settings: Settings, server: EmbeddedServer
) -> None:
    archive = keys_of(settings, NAME).archive
    with bare(server) as raw:
        position, blob = next(iter(raw.hgetall(archive).items()))
        text = unpack(decompress(blob))
        raw.hset(archive, position, compress(text.pack().replace(b"value_", b"valve_")))
    seen = found(audited(blocking, journal(compacted)))
    assert seen == {"lost": 1, "changed": 1}


def test_every_promise_can_be_broken_in_this_file() -> None:
    tested = {"lost", "duplicated", "reordered", "invalid", "changed", "miscounted", "damaged"}
    assert tested == {*PROMISES, *BEYOND}


KILLED = next(kind for kind in KINDS if kind.name == "worker_killed")


def billed(calls: list[Call], hits: list[Hit]) -> Bill:
    return bill(calls, hits, [], {}, lease=3.0)


@pytest.mark.parametrize(
    ("second", "hits", "expected"),
    [
        ("other", [], (0, 0, 0)),
        ("same", [], (1, 0, 1)),
        ("same", [Hit(KILLED, 100.5, 100.6, (0,))], (1, 1, 0)),
        ("same", [Hit(KILLED, 100.5, 100.6, (1,))], (1, 0, 1)),  # another worker
        ("same", [Hit(KILLED, 104.5, 104.6, (0,))], (1, 0, 1)),  # the lease was over before
        ("same", [Hit(KILLED, 98.0, 99.0, (0,))], (1, 0, 1)),  # before the call began
    ],
)
def test_a_repeated_call_is_explained_by_a_fault_between_it_and_its_swap(
    second: str, hits: list[Hit], expected: tuple[int, int, int]
) -> None:
    calls = [Call(0, "same", 100.0, answered=True), Call(1, second, 110.0, answered=True)]
    seen = billed(calls, hits)
    assert (seen.twice, seen.at_risk, seen.unexplained) == expected


def test_a_call_that_an_undo_made_stale_is_explained() -> None:
    answer = {"role": "tool", "tool_call_id": "call_1", "content": "rows"}
    content = blake2b(b"rows", digest_size=8).hexdigest()
    calls = [Call(0, content, 100.0, answered=True), Call(1, content, 110.0, answered=True)]
    undone = {NAME: [Outcome(Code.UNDONE, at=101.0)]}
    seen = bill(calls, [], [journal([answer])], undone, lease=3.0)
    assert (seen.twice, seen.at_risk, seen.unexplained) == (1, 1, 0)


def test_a_call_that_gave_nothing_is_not_billed() -> None:
    now = time.time()
    seen = billed([Call(0, "same", now, answered=False), Call(0, "same", now + 9, answered=True)], [])
    assert (seen.calls, seen.failed, seen.twice) == (1, 1, 0)
