"""erase: the content of a session goes for good; ids and numbers stay."""

from __future__ import annotations

from typing import Any

import pytest

from compactor import Code, Erased, RecallExpiredError
from compactor.settings import Settings
from tests.integration.clients import Client, Connect
from tests.integration.conversations import SMALL, WIDE, conversation, user
from tests.integration.inline_worker import InlineWorker
from tests.integration.lossy_proxy import LossyProxy
from tests.integration.stored import expiries, keys_of

SECRET = "xyzzy-plugh-0451"


def test_it_counts_what_went_and_leaves_an_empty_session(memory: Client, worker: InlineWorker) -> None:
    session = memory.session("erase/count", SMALL)
    session.push([user("before"), user("that")])
    session.clear()
    session.push(conversation(9))
    session.prepare()
    outcome = worker.work("erase/count").outcome
    assert session.erase() == Erased(messages=len(conversation(9)), archived=outcome.items, cleared=2, audit=1)
    assert session.originals() == session.prepare().messages == []
    assert (session.status().length, session.status().stored_bytes, session.status().archived) == (0, 0, 0)


def test_nothing_of_the_content_is_left_in_any_key(
    memory: Client, worker: InlineWorker, settings: Settings, raw: Any
) -> None:
    session = memory.session("erase/content", SMALL)
    session.push(user(f"{SECRET} of the conversation before"))
    session.clear()
    talk = [user(f"My word is {SECRET}."), *conversation(9)[2:]]
    session.prepare([{"role": "system", "content": SECRET}, *talk])
    worker.work("erase/content")
    session.prepare([user(f"Another {SECRET}"), *talk[1:4]])
    session.erase()
    left = [key for key in keys_of(settings, "erase/content").all if raw.exists(key)]
    assert not [key for key in left if SECRET.encode() in raw.dump(key)]
    names = {key.rpartition(":")[2] for key in left}
    assert names <= {"state", "operations", "audit", "changes"}, "no key that holds messages is left"


def test_the_audit_keeps_its_numbers(memory: Client, worker: InlineWorker) -> None:
    session = memory.session("erase/audit", SMALL)
    session.push(conversation(9))
    session.prepare()
    outcome = worker.work("erase/audit").outcome
    session.erase()
    assert session.compactions() == [outcome]


def test_nothing_erased_can_be_recalled_and_positions_go_on(memory: Client) -> None:
    session = memory.session("erase/recall", SMALL)
    session.push([user("a"), user("b")])
    session.clear()
    session.push(user("c"))
    session.erase()
    assert session.push(user("d")).positions == (3,)
    for position in range(3):
        with pytest.raises(RecallExpiredError):
            session.recall(f"m{position}")
    assert session.recall("m3") == user("d")


def test_a_redelivery_does_not_bring_erased_words_back(memory: Client) -> None:
    session = memory.session("erase/redelivered", SMALL)
    receipt = session.push(user("delete me"), "platform-7")
    session.erase()
    assert session.push(user("delete me"), "platform-7") == receipt
    assert session.originals() == []


@pytest.mark.parametrize("at", ["snapshot", "swapping"])
def test_a_compaction_that_runs_brings_nothing_back(
    memory: Client, worker: InlineWorker, settings: Settings, raw: Any, at: str
) -> None:
    session = memory.session("erase/race", SMALL)
    session.push(conversation(9))
    session.prepare()
    ended = worker.work("erase/race", at=at, then=session.erase)
    assert ended.outcome.outcome is Code.STALE
    assert session.originals() == []
    assert not raw.exists(keys_of(settings, "erase/race").archive)


def test_a_process_that_held_the_history_shows_nothing_of_it(connect: Connect, settings: Settings) -> None:
    one, other = (connect(settings).session("erase/held", WIDE) for _ in range(2))
    one.push(conversation(1))
    assert other.prepare().messages == conversation(1)
    one.erase()
    assert other.prepare().messages == []
    assert other.prepare([user("new")]).messages == [user("new")]
    assert one.originals() == [user("new")]


def test_the_life_of_what_stays_is_that_of_the_session(memory: Client, settings: Settings, raw: Any) -> None:
    session = memory.session("erase/life", SMALL)
    session.push(conversation(1))
    session.erase()
    assert all(at > 0 for at in expiries(raw, settings, "erase/life").values())


def test_an_unknown_session_stays_unknown(memory: Client) -> None:
    session = memory.session("erase/unknown", SMALL)
    assert session.erase() == Erased()
    assert not session.status().exists


def test_an_erase_whose_reply_was_lost_gives_the_first_answer(
    connect: Connect, through_proxy: Settings, proxy: LossyProxy
) -> None:
    session = connect(through_proxy).session("erase/lost", SMALL)
    session.push([user("a"), user("b")])
    proxy.lose("clear")
    assert session.erase().messages == 2
    assert proxy.lost == 1
