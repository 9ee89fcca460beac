"""clear: ends the conversation, which stays recallable until the next clear."""

from __future__ import annotations

from typing import Any

import pytest

from compactor import RecallExpiredError
from compactor.settings import Settings
from tests.integration.clients import Client
from tests.integration.conversations import SMALL, conversation, recount, step, user
from tests.integration.inline_worker import InlineWorker
from tests.integration.stored import keys_of


def test_it_says_how_many_messages_ended_and_leaves_an_empty_history(memory: Client) -> None:
    session = memory.session("clear/count", SMALL)
    session.push(conversation(2))
    assert session.clear() == len(conversation(2))
    assert session.prepare().messages == []
    assert session.originals() == []
    assert session.estimate().total == 3
    assert session.status().length == 0


def test_what_moved_aside_counts_until_it_is_gone_for_good(memory: Client) -> None:
    session = memory.session("clear/bytes", SMALL)
    session.push(conversation(2))
    held = session.status().stored_bytes
    session.clear()
    assert session.status().stored_bytes == held
    session.push(user("new"))
    assert session.status().stored_bytes > held
    session.clear()
    assert 0 < session.status().stored_bytes < held
    session.erase()
    assert session.status().stored_bytes == 0


def test_the_ended_conversation_stays_recallable_replaced_and_kept_messages_alike(
    memory: Client, worker: InlineWorker
) -> None:
    session = memory.session("clear/recall", SMALL)
    session.push(conversation(8))
    session.prepare()
    assert worker.work("clear/recall").outcome.items
    session.clear()
    session.push([user("new"), user("newer")])
    old = conversation(8)
    assert [session.recall(f"m{position}") for position in range(len(old))] == old
    assert session.recall(f"m{len(old)}") == user("new")
    assert session.originals() == [user("new"), user("newer")]


def test_the_clear_after_it_ends_that(memory: Client) -> None:
    session = memory.session("clear/again", SMALL)
    session.push([user("first"), user("second")])
    session.clear()
    session.push(user("third"))
    session.clear()
    with pytest.raises(RecallExpiredError):
        session.recall("m1")
    assert session.recall("m2") == user("third")


def test_recall_ids_go_on_and_never_name_two_messages(memory: Client) -> None:
    session = memory.session("clear/ids", SMALL)
    assert session.push([user("a"), user("b")]).positions == (0, 1)
    session.clear()
    assert session.push(user("c")).positions == (2,)


def test_a_new_conversation_is_compacted_like_the_first(memory: Client, worker: InlineWorker) -> None:
    session = memory.session("clear/compact", SMALL)
    for round_ in range(3):
        pushed = [user(f"round {round_}"), *(m for order in range(9) for m in step(100 * round_ + order)), user("?")]
        receipt = session.push(pushed)
        assert session.prepare().verdict.compaction == "queued"
        outcome = worker.work("clear/compact").outcome
        assert outcome.items
        assert session.originals() == pushed
        assert session.estimate().total == recount(session.prepare().messages) + 3
        first = receipt.positions[0]
        assert all(session.recall(f"m{position}") == pushed[position - first] for position in outcome.positions)
        session.clear()


def test_it_forgets_back_off_and_attempts(memory: Client, worker: InlineWorker) -> None:
    session = memory.session("clear/held", SMALL)
    session.push([user("word " * 1_000) for _ in range(6)])
    session.prepare()
    worker.work("clear/held")
    assert session.prepare().verdict.compaction == "held(exhausted)"
    session.clear()
    session.push(conversation(9))
    assert session.prepare().verdict.compaction == "queued"


def test_it_raises_the_revision_and_never_resets_it(memory: Client, settings: Settings, raw: Any) -> None:
    session = memory.session("clear/revision", SMALL)
    session.push(user("a"))
    first = session.status().revision
    session.clear()
    assert session.status().revision == first + 1
    assert raw.lrange(keys_of(settings, "clear/revision").changes, 0, -1) == [b"all"]


def test_system_messages_open_a_new_conversation_again(memory: Client) -> None:
    session = memory.session("clear/lead", SMALL)
    session.push(conversation(1))
    session.clear()
    session.push(conversation(1))
    verdict = session.estimate()
    assert verdict.system == recount(conversation(1)[:1]) + 3
    assert verdict.history == recount(conversation(1)[1:])
