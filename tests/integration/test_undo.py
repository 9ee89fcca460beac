"""undo brings originals back and keeps them; release lets them be replaced again."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from compactor import Code, CompactionNotFoundError, Outcome, SessionNotFoundError
from compactor.settings import Settings
from tests.integration.clients import Client, Connect, SessionClient
from tests.integration.conversations import OTHER_ENCODING, ROOMY, SMALL, WIDE, conversation, recount, step, user
from tests.integration.inline_worker import InlineWorker
from tests.integration.lossy_proxy import LossyProxy
from tests.integration.stored import texts
from tests.unit.summarizers import saying

TALK = conversation(9)


def compacted(memory: Client, worker: InlineWorker, name: str) -> tuple[SessionClient, Outcome]:
    """A session with one compaction."""
    session = memory.session(name, SMALL)
    session.push(TALK)
    assert session.prepare().verdict.compaction == "queued"
    return session, worker.work(name).outcome


def test_an_undo_brings_every_original_back_byte_for_byte(
    memory: Client, worker: InlineWorker, settings: Settings, raw: Any
) -> None:
    memory.session("undo/first", SMALL).push(TALK)
    pushed = texts(raw, settings, "undo/first")
    memory.session("undo/first", SMALL).prepare()
    outcome = worker.work("undo/first").outcome
    undone = memory.session("undo/first", SMALL).undo()
    assert (undone.outcome, undone.reason, undone.positions) == (Code.UNDONE, outcome.id, outcome.positions)
    assert texts(raw, settings, "undo/first") == pushed
    assert memory.session("undo/first", WIDE).prepare().messages == TALK


def test_totals_and_bytes_are_what_they_were_before_the_compaction(memory: Client, worker: InlineWorker) -> None:
    session = memory.session("undo/totals", SMALL)
    session.push(TALK)
    memory.session("undo/totals", OTHER_ENCODING).prepare()
    before = session.status()
    session.prepare()
    worker.work("undo/totals")
    undone = session.undo()
    after = session.status()
    assert (after.totals, after.stored_bytes, after.archived) == (before.totals, before.stored_bytes, 0)
    assert after.totals["o200k_base"] == recount(TALK)
    assert (undone.after, undone.before) == (recount(TALK), recount(TALK) - (undone.after - undone.before))


def test_undone_messages_are_not_replaced_again_until_they_are_released(memory: Client, worker: InlineWorker) -> None:
    session, outcome = compacted(memory, worker, "undo/kept")
    session.undo()
    session.push([*step(50), user("And now?")])
    session.prepare()
    worker.work("undo/kept")
    assert session.originals()[: len(TALK)] == TALK
    assert not {*outcome.positions} & {
        p for run in session.compactions()[1:] if run.outcome is Code.APPLIED for p in run.positions
    }


def test_released_messages_are_replaced_by_the_next_compaction(memory: Client, worker: InlineWorker) -> None:
    session, outcome = compacted(memory, worker, "undo/released")
    session.undo()
    assert session.release(outcome.id) == outcome.items
    session.prepare()
    again = worker.work("undo/released").outcome
    assert again.positions == outcome.positions
    assert session.originals() == TALK


def test_a_release_by_recall_id_frees_that_message_alone_and_only_once(memory: Client, worker: InlineWorker) -> None:
    session, outcome = compacted(memory, worker, "undo/release")
    session.undo()
    name = f"m{outcome.positions[0]}"
    assert session.release(name) == 1
    assert session.release(name) == 0
    assert session.release([name, f"m{outcome.positions[1]}", "m0", "m999"]) == 1
    session.prepare()
    replaced = {*worker.work("undo/release").outcome.positions}
    assert replaced & {*outcome.positions} == {*outcome.positions[:2]}


def test_without_an_id_the_newest_that_still_stands_is_undone(memory: Client, worker: InlineWorker) -> None:
    session, first = compacted(memory, worker, "undo/newest")
    session.push([message for order in range(20, 28) for message in step(order)])
    session.prepare(keep_rows=True)  # a fold would take up what the first one replaced
    second = worker.work("undo/newest").outcome
    assert second.outcome is Code.APPLIED
    assert session.undo().reason == second.id
    assert session.undo().reason == first.id
    with pytest.raises(CompactionNotFoundError):
        session.undo()
    assert [row.outcome for row in session.compactions()] == [Code.APPLIED] * 2 + [Code.UNDONE] * 2


def test_a_compaction_is_undone_by_its_id_and_no_other(memory: Client, worker: InlineWorker) -> None:
    session, first = compacted(memory, worker, "undo/by-id")
    session.push([message for order in range(20, 28) for message in step(order)])
    session.prepare(keep_rows=True)  # a fold would take up what the first one replaced
    second = worker.work("undo/by-id").outcome
    assert session.undo(first.id).positions == first.positions
    assert memory.session("undo/by-id", WIDE).prepare().replaced == second.items
    again = session.undo(first.id)
    assert (again.items, again.positions) == (0, ())


def test_an_unknown_compaction_or_session_is_told_apart(memory: Client, worker: InlineWorker) -> None:
    session, _ = compacted(memory, worker, "undo/wrong")
    with pytest.raises(CompactionNotFoundError):
        session.undo("no-such-id")
    with pytest.raises(SessionNotFoundError):
        memory.session("undo/unknown", ROOMY).undo()
    with pytest.raises(SessionNotFoundError):
        memory.session("undo/unknown", ROOMY).release("m1")


def test_an_undo_during_a_compaction_makes_its_plan_stale(memory: Client, worker: InlineWorker) -> None:
    session, first = compacted(memory, worker, "undo/race")
    session.push([message for order in range(20, 28) for message in step(order)])
    session.prepare(keep_rows=True)  # a fold would take up what the first one replaced
    ended = worker.work("undo/race", at="swapping", then=lambda: session.undo(first.id))
    assert ended.outcome.outcome is Code.STALE
    assert memory.session("undo/race", WIDE).prepare().messages == session.originals()


def test_other_processes_see_it_at_their_next_send(connect: Connect, settings: Settings, worker: InlineWorker) -> None:
    memory, other = connect(settings), connect(settings).session("undo/seen", WIDE)
    session, outcome = compacted(memory, worker, "undo/seen")
    assert other.prepare().replaced == outcome.items
    session.undo()
    assert other.prepare().messages == TALK


def test_an_undo_whose_reply_was_lost_is_done_once_and_answered_whole(
    connect: Connect, settings: Settings, through_proxy: Settings, proxy: LossyProxy, worker: InlineWorker
) -> None:
    _, outcome = compacted(connect(settings), worker, "undo/lost")
    session = connect(through_proxy).session("undo/lost", SMALL)
    proxy.lose("restore")
    assert session.undo().items == outcome.items
    assert proxy.lost == 1
    assert [row.outcome for row in session.compactions()] == [Code.APPLIED, Code.UNDONE]


def test_a_list_that_still_holds_the_replacements_gets_the_originals(memory: Client, worker: InlineWorker) -> None:
    session = memory.session("undo/list", SMALL)
    session.prepare(TALK)
    worker.work("undo/list")
    held = session.prepare(TALK).messages
    assert held != TALK
    session.undo()
    before = session.status()
    context = memory.session("undo/list", WIDE).prepare([*held, user("and?")])
    assert context.messages == [*TALK, user("and?")]
    assert (session.status().revision, session.status().archived) == (before.revision, before.archived)


def test_a_list_may_hold_a_summary_that_another_one_has_followed(memory: Client, worker: InlineWorker) -> None:
    session = memory.session("undo/again", SMALL)
    session.prepare(TALK)
    worker.tools = replace(worker.tools, summarize=saying("The values stand in the files of src."))
    first = worker.work("undo/again").outcome
    held = session.prepare(TALK).messages
    session.undo()
    session.release(first.id)
    more = [*step(60), *step(61), *step(62)]
    session.prepare([*TALK, *more])
    session.prepare([*TALK, *more])
    worker.tools = replace(worker.tools, summarize=saying("Each file of src defines one value."))
    assert {*worker.work("undo/again").outcome.positions} & {*first.positions}
    before = session.status()
    session.prepare([*held, *more, user("and?")])
    assert session.originals() == [*TALK[1:], *more, user("and?")]
    assert (session.status().revision, session.status().archived) == (before.revision, before.archived)


def test_what_was_undone_is_kept_through_a_branch_and_on_the_way_back(memory: Client, worker: InlineWorker) -> None:
    session = memory.session("undo/kept-branch", SMALL)
    session.prepare(TALK)
    outcome = worker.work("undo/kept-branch").outcome
    held = session.prepare(TALK).messages
    session.undo()
    wide = memory.session("undo/kept-branch", WIDE)
    undone = outcome.positions[-1] + 2  # messages, the system text included
    edited = [*TALK[:1], user("Edited."), *TALK[2:]]
    session.prepare(edited)
    session.prepare(edited)
    worker.work("undo/kept-branch")
    assert wide.prepare(edited).messages[:undone] == edited[:undone]
    session.prepare([*TALK[:2], user("Another question.")])
    assert wide.prepare(held).messages[:undone] == TALK[:undone]
    assert session.originals() == TALK[1:]
    assert session.status().totals["o200k_base"] == recount(wide.prepare(held).messages[1:])


def test_a_replacement_that_a_branch_carried_on_can_be_undone_too(memory: Client, worker: InlineWorker) -> None:
    session = memory.session("undo/branch", SMALL)
    session.prepare(TALK)
    outcome = worker.work("undo/branch").outcome
    session.prepare([*TALK[:2], user("Another question.")])
    session.prepare(TALK)
    assert session.undo(outcome.id).items == outcome.items
    assert memory.session("undo/branch", WIDE).prepare(TALK).messages == TALK
    assert session.release(outcome.id) == outcome.items


def test_a_compaction_whose_messages_left_the_history_is_passed_over(memory: Client, worker: InlineWorker) -> None:
    session, first = compacted(memory, worker, "undo/left")
    session.push([message for order in range(20, 28) for message in step(order)])
    session.prepare(keep_rows=True)  # a fold would take up what the first one replaced
    assert worker.work("undo/left").outcome.outcome is Code.APPLIED
    session.rewind(f"m{first.positions[-1]}")
    assert session.undo().positions == first.positions
