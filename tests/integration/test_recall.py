"""recall, originals, compactions, status: what was replaced comes back whole, and the audit says so."""

from __future__ import annotations

from typing import Any

import pytest

from compactor import Code, ConfigurationError, RecallExpiredError, SessionNotFoundError
from tests.integration.clients import Client
from tests.integration.conversations import ROOMY, SMALL, conversation, recount, step, user
from tests.integration.inline_worker import InlineWorker


def test_every_message_can_be_recalled_live_or_archived(memory: Client, worker: InlineWorker) -> None:
    session = memory.session("recall/all", SMALL)
    pushed: list[Any] = [*conversation(8), {"role": "assistant", "content": None, "x": [{}, []]}, user("é\ud83d")]
    session.push(pushed)
    session.prepare()
    assert worker.work("recall/all").outcome.items >= 2
    assert [session.recall(f"m{position}") for position in range(len(pushed))] == pushed
    assert session.originals() == pushed


def test_after_several_compactions_every_original_is_there(memory: Client, worker: InlineWorker) -> None:
    session = memory.session("recall/several", SMALL)
    pushed = conversation(8)
    session.push(pushed)
    applied = 0
    for order in range(8):
        more = [message for part in range(3) for message in step(100 + 3 * order + part, 100)]
        session.push(more)
        pushed = [*pushed, *more]
        if session.prepare(keep_rows=True).verdict.compaction == "queued":
            applied += worker.work("recall/several").outcome.outcome is Code.APPLIED
        assert session.originals() == pushed
    assert applied >= 3
    listed = session.compactions()
    assert len(listed) >= applied
    replaced = [position for outcome in listed for position in outcome.positions]
    assert len(replaced) == len(set(replaced)), "nothing is replaced twice"
    assert replaced == sorted(replaced), "nothing before the frontier changes again"


@pytest.mark.parametrize("unknown", ["m99", "m999999999999999"])
def test_a_recall_id_of_no_message_is_told_apart_from_an_unknown_session(memory: Client, unknown: str) -> None:
    session = memory.session("recall/unknown", ROOMY)
    session.push(user("hello"))
    with pytest.raises(RecallExpiredError, match=unknown):
        session.recall(unknown)


@pytest.mark.parametrize("wrong", ["", "12", "x12", "m-1", "m1.x", "m1.0", "m", "m 1", "m1\n2", "m" + "9" * 40])
def test_a_text_that_is_no_recall_id_is_refused(memory: Client, wrong: str) -> None:
    session = memory.session("recall/wrong", ROOMY)
    session.push(user("hello"))
    with pytest.raises(ConfigurationError, match="m12"):
        session.recall(wrong)


def test_an_audit_row_accounts_for_its_compaction(memory: Client, worker: InlineWorker) -> None:
    session = memory.session("recall/audit", SMALL)
    session.push(conversation(8))
    before = session.prepare().verdict.total
    ended = worker.work("recall/audit").outcome
    (row,) = session.compactions()
    assert row == ended == session.status().last
    assert row.id == worker.owner("recall/audit")
    assert row.before == before
    assert row.after == session.estimate().total == recount(session.prepare().messages) + 3
    assert (
        row.items
        == len(row.positions)
        == row.by_extract + row.by_condensed + row.by_pointer
        == session.status().archived
    )
    assert row.reached
    assert row.at > 1_700_000_000


def test_status_says_where_a_session_stands(memory: Client, worker: InlineWorker) -> None:
    session = memory.session("recall/status", SMALL)
    session.push(conversation(8))
    fresh = session.status()
    assert (fresh.exists, fresh.length, fresh.claim, fresh.archived, fresh.last) == (True, 19, "idle", 0, None)
    assert fresh.totals == {"o200k_base": recount(conversation(8))}
    session.prepare()
    assert session.status().claim == "queued"
    worker.work("recall/status")
    after = session.status()
    assert after.revision == fresh.revision + 1
    assert after.compactions == 1
    assert after.claim == "idle"
    assert after.attempts == 0


def test_an_unknown_session_is_empty_for_push_and_prepare_and_not_found_for_recall(memory: Client) -> None:
    session = memory.session("recall/nobody", SMALL)
    assert session.prepare().messages == []
    assert session.prepare(system="You are kind.").messages == [{"role": "system", "content": "You are kind."}]
    assert session.prepare().verdict.compaction == "not_needed"
    assert session.originals() == []
    assert session.compactions() == []
    assert session.compact(wait=1).outcome is Code.BELOW_THRESHOLD
    assert session.clear() == 0
    assert not session.status().exists
    with pytest.raises(SessionNotFoundError, match="not found"):
        session.recall("m0")
    assert not session.status().exists, "no call but push makes a session"
