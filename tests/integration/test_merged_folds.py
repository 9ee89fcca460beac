"""Folds of folds in a session: a turn of any length stays in its window, and every way back finds the originals."""

from __future__ import annotations

from typing import Any

import pytest

from compactor import Code
from compactor.folded import folds_among
from compactor.models import Kind
from compactor.settings import Settings
from compactor.tokens import PER_REQUEST
from compactor.validity import faults
from tests.integration.clients import Client, Connect
from tests.integration.conversations import SMALL, WIDE, assistant, recount, user
from tests.integration.inline_worker import InlineWorker
from tests.integration.stored import keys_of
from tests.integration.test_folds import TASK, grown, kinds, task

STEPS = 60  # of one round: about 13,000 tokens in a window of 8K


@pytest.fixture
def kind() -> str:
    """Merging is the worker's work: one client tells as much as two."""
    return "blocking"


@pytest.fixture
def merged(memory: Client, worker: InlineWorker) -> tuple[Any, list[Any], list[Any]]:
    """A session of one long task whose folds just became one, all that was pushed, and what stood before."""
    session, pushed = memory.session("folds/merged", SMALL), TASK[:2]
    session.push(pushed)
    shown = pushed
    for start in range(0, 20 * STEPS, STEPS):
        pushed = [*pushed, *(more := task(STEPS, first=start))]
        session.push(more)
        assert session.prepare().verdict.compaction == "queued"
        worker.work("folds/merged")
        context, before = session.prepare(), [*shown, *more]
        assert context.verdict.fit == "fits"
        if len(headers(context.messages)) < len(headers(shown)):
            return session, pushed, before
        shown = list(context.messages)
    raise AssertionError("no folds were merged")


def headers(messages: list[Any]) -> list[str]:
    lines = [str(message["content"]).partition("\n")[0] for message in messages if message["role"] == "tool"]
    return [line for line in lines if "earlier steps" in line]


def test_a_task_of_any_length_is_sent_from_what_is_stored(merged: tuple[Any, list[Any], list[Any]]) -> None:
    session, pushed, _ = merged
    context = session.prepare()
    assert context.verdict.total == PER_REQUEST + recount(context.messages)
    assert not faults(context.messages)
    assert context.messages[:2] == pushed[:2]
    assert context.messages[-6:] == pushed[-6:]
    assert session.originals() == pushed
    name = headers(context.messages)[0].rpartition("originals: ")[2].rstrip("]")
    first, last = (int(part) for part in name.lstrip("m").split("-"))
    assert last - first > 5 * STEPS
    assert session.recall(name) == pushed[first : last + 1]
    assert session.recall(f"m{last - 1}") == pushed[last - 1]


def test_a_second_compaction_changes_nothing(merged: tuple[Any, list[Any], list[Any]], worker: InlineWorker) -> None:
    session, _, _ = merged
    stands = session.prepare().messages
    if session.compact(wait=0.0).outcome is Code.QUEUED:
        assert worker.work("folds/merged").outcome.items == 0
    assert session.prepare().messages == stands


def test_a_swap_writes_only_what_changes(
    merged: tuple[Any, list[Any], list[Any]], raw: Any, settings: Settings
) -> None:
    session, _, _ = merged
    written = raw.lindex(keys_of(settings, "folds/merged").changes, 0).split(b",")
    assert len(written) < len(session.compactions()[-1].positions) / 2


def test_an_undo_brings_the_originals_of_all_steps_back_and_the_audit_says_so(
    merged: tuple[Any, list[Any], list[Any]], memory: Client
) -> None:
    session, pushed, _ = merged
    runs = [run for run in session.compactions() if run.outcome is Code.APPLIED]
    merges = [run for run in runs if run.by_fold > 5 * STEPS]
    assert merges
    assert all(run.items == len(run.positions) for run in merges)
    undone = session.undo(merges[-1].id)
    wide = memory.session("folds/merged", WIDE).prepare()
    assert undone.items > 5 * STEPS
    assert [pushed[position] for position in undone.positions if pushed[position] not in wide.messages] == []
    assert wide.verdict.total == PER_REQUEST + recount(wide.messages)
    assert session.originals() == pushed


@pytest.mark.parametrize("cut", [40, 101])
def test_a_history_that_ends_inside_a_merged_fold_ends_with_the_originals(
    merged: tuple[Any, list[Any], list[Any]], memory: Client, cut: int
) -> None:
    session, pushed, _ = merged
    assert session.fork("folds/merged-copy", at=cut).originals() == pushed[: cut + 1]
    session.rewind(cut)
    assert session.originals() == pushed[: cut + 1]
    assert memory.session("folds/merged", WIDE).prepare().messages == pushed[: cut + 1]


def test_lists_from_before_the_merge_and_after_it_change_nothing(
    merged: tuple[Any, list[Any], list[Any]], connect: Connect, settings: Settings
) -> None:
    session, pushed, before = merged
    revision, length = session.status().revision, session.status().length
    for owner in (session, connect(settings).session("folds/merged", SMALL)):
        for mine in (pushed, before, session.prepare().messages):
            shown = grown(owner, mine)
            assert not faults(shown)
            assert (owner.status().revision, owner.status().length) == (revision, length)
    own = grown(session, before)
    assert grown(session, [*own, assistant("So."), user("And?")])[-2:] == [assistant("So."), user("And?")]
    assert session.originals() == [*pushed, assistant("So."), user("And?")]


def test_an_older_list_is_answered_with_its_own_end_also_where_a_fold_ends(
    merged: tuple[Any, list[Any], list[Any]], raw: Any, settings: Settings
) -> None:
    session, pushed, _ = merged
    revision = session.status().revision
    for fold in folds_among(kinds(raw, settings, "folds/merged")):
        for end in (fold.hidden[-3], fold.hidden[-1], fold.hidden[-1] + 1):
            assert grown(session, pushed[: end + 1])[-1] == pushed[end]
    assert session.status().revision == revision


def test_a_phrase_pinned_later_brings_a_merged_fold_back_whole(
    merged: tuple[Any, list[Any], list[Any]], raw: Any, settings: Settings
) -> None:
    session, pushed, _ = merged
    fold = folds_among(kinds(raw, settings, "folds/merged"))[0]
    phrase = str(pushed[fold.hidden[5]]["content"]).splitlines()[3]
    session.pin(phrase)
    after = kinds(raw, settings, "folds/merged")
    assert {after[index] for index in fold.indexes} == {Kind.ORIGINAL}
    assert session.originals() == pushed
