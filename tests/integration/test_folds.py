"""Folds in a session: whole steps of a turn become one, nothing is lost, and every way back finds the originals."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from compactor import Code, ModelConfig, RecallExpiredError
from compactor.models import Kind
from compactor.records import unpack
from compactor.settings import Settings
from compactor.tokens import PER_REQUEST
from compactor.unfolding import Unfolding
from compactor.validity import faults
from tests.integration.clients import Client, Connect
from tests.integration.conversations import SMALL, assistant, call, recount, result, rows, user
from tests.integration.inline_worker import InlineWorker
from tests.integration.stored import records

LARGE = 12  # lines: about 210 tokens, too few for a summary each to reach the target


def task(steps: int, first: int = 0, lines: int = LARGE) -> list[dict[str, Any]]:
    """Steps of an agent with one task, with a word of the model before each third call."""
    found: list[dict[str, Any]] = []
    for order in range(first, first + steps):
        said = {**call(order), "content": f"Now value_{order}."} if order % 3 == 0 else call(order)
        found += [said, result(order, rows(order, lines))]
    return found


TASK = [{"role": "system", "content": "You help."}, user("Where are the values defined?"), *task(30)]


def folded(memory: Client, worker: InlineWorker, name: str, messages: list[Any] = TASK) -> Any:
    """A session whose compaction had to fold."""
    session = memory.session(name, SMALL)
    session.push(messages)
    session.prepare()
    outcome = worker.work(name).outcome
    assert outcome.outcome is Code.APPLIED
    assert outcome.by_fold > 0
    return session, outcome


def kinds(raw: Any, settings: Settings, name: str) -> list[Kind]:
    return [unpack(row).kind for row in records(raw, settings, name)]


def test_an_agent_with_one_task_gets_below_its_target_by_what_is_stored(
    memory: Client, worker: InlineWorker, settings: Settings, raw: Any
) -> None:
    session, outcome = folded(memory, worker, "folds/one-task")
    context = session.prepare()
    assert outcome.reached
    assert context.verdict.fit == "fits"
    assert context.verdict.total == PER_REQUEST + recount(context.messages) == outcome.after
    assert outcome.items == outcome.by_fold + outcome.by_extract + outcome.by_pointer + outcome.by_condensed
    assert len(context.messages) < len(TASK)
    assert not faults(context.messages)
    assert context.messages[:2] == TASK[:2]
    assert context.messages[-6:] == TASK[-6:]
    assert Kind.FOLDED in kinds(raw, settings, "folds/one-task")


def test_a_fold_says_what_it_stands_for_and_how_to_get_it_back(memory: Client, worker: InlineWorker) -> None:
    session, _ = folded(memory, worker, "folds/header")
    carrier = session.prepare().messages[3]
    assert carrier["role"] == "tool"
    header = carrier["content"].splitlines()[0]
    assert header.startswith("[")
    assert "earlier steps (grep x" in header
    assert header.endswith("]")
    name = header.rpartition("originals: ")[2].rstrip("]")
    first, last = (int(part) for part in name.lstrip("m").split("-"))
    assert session.recall(name) == TASK[first : last + 1]
    assert [session.recall(f"m{position}") for position in range(first, last + 1)] == TASK[first : last + 1]
    assert session.originals() == TASK


def test_an_undo_brings_every_message_back_and_a_release_lets_them_be_folded_again(
    memory: Client, worker: InlineWorker
) -> None:
    session, outcome = folded(memory, worker, "folds/undo")
    undone = session.undo()
    assert undone.items == outcome.items
    wide = memory.session("folds/undo", ModelConfig("gpt-4o", 128))
    assert wide.prepare().messages == TASK
    assert wide.prepare().verdict.total == PER_REQUEST + recount(TASK)
    session.prepare()
    assert session.compact(wait=0.0).outcome is Code.QUEUED
    assert worker.work("folds/undo").outcome.by_fold == 0
    session.release(outcome.id)
    session.compact(wait=0.0)
    assert worker.work("folds/undo").outcome.by_fold > 0


def test_later_steps_are_folded_too_and_what_was_folded_stays_as_it_is(memory: Client, worker: InlineWorker) -> None:
    session, _ = folded(memory, worker, "folds/again")
    before = session.prepare().messages
    session.push(more := [assistant("On."), *task(20, first=40)])
    session.prepare()
    assert worker.work("folds/again").outcome.by_fold > 0
    after = session.prepare().messages
    assert after[:4] == before[:4]
    assert session.originals() == [*TASK, *more]
    assert session.prepare().verdict.total == PER_REQUEST + recount(session.prepare().messages)


def test_what_was_summarised_before_is_folded_from_its_originals(memory: Client, worker: InlineWorker) -> None:
    session = memory.session("folds/summaries", SMALL)
    pushed: list[Any] = TASK[:2]
    session.push(pushed)
    for start in range(0, 60, 6):
        session.push(more := task(6, first=start, lines=30))
        pushed = [*pushed, *more]
        if session.prepare().verdict.compaction == "queued":
            worker.work("folds/summaries")
    runs = session.compactions()
    assert any(run.by_extract for run in runs)
    assert any(run.by_fold for run in runs)
    context = session.prepare()
    assert context.verdict.total == PER_REQUEST + recount(context.messages)
    assert session.originals() == pushed
    folds = [m for m in context.messages if m["role"] == "tool" and "earlier steps" in m["content"]]
    assert folds
    assert not any("earlier tool output" in fold["content"] for fold in folds), "made from summaries"


def test_a_caller_that_promises_to_keep_rows_gets_no_fold(memory: Client, worker: InlineWorker) -> None:
    session = memory.session("folds/rows", SMALL)
    session.push(TASK)
    context = session.prepare(keep_rows=True)
    assert len(context.messages) == len(TASK)
    assert not faults(context.messages)
    outcome = worker.work("folds/rows").outcome
    assert outcome.by_fold == 0
    assert len(session.prepare(keep_rows=True).messages) == len(TASK)


@pytest.mark.parametrize("inside", [4, 9, 12])
def test_a_history_that_ends_inside_a_fold_ends_with_the_originals(
    memory: Client, worker: InlineWorker, inside: int
) -> None:
    name = f"folds/rewind-{inside}"
    session, _ = folded(memory, worker, name)
    session.fork(f"folds/fork-{inside}", at=inside)
    copy = memory.session(f"folds/fork-{inside}", SMALL)
    assert copy.originals() == copy.prepare().messages == TASK[: inside + 1]
    assert copy.prepare().verdict.total == PER_REQUEST + recount(TASK[: inside + 1])
    session.rewind(inside)
    assert session.originals() == TASK[: inside + 1]
    assert session.prepare().messages == TASK[: inside + 1]
    assert session.prepare().verdict.total == PER_REQUEST + recount(TASK[: inside + 1])
    assert session.recall("m20") == TASK[20]


def test_a_copy_that_ends_behind_a_fold_has_it(memory: Client, worker: InlineWorker) -> None:
    session, outcome = folded(memory, worker, "folds/fork-whole")
    session.fork("folds/copy")
    copy = memory.session("folds/copy", SMALL)
    assert copy.prepare().messages == session.prepare().messages
    assert copy.undo().items == outcome.items
    assert copy.originals() == TASK


def test_the_content_of_folds_goes_with_an_erase(memory: Client, worker: InlineWorker, raw: Any) -> None:
    session, _ = folded(memory, worker, "folds/erase")
    session.erase()
    assert not any(b"file3_" in (raw.dump(key) or b"") for key in raw.scan_iter("*folds/erase*"))


# --- callers that own their list


def grown(session: Any, messages: list[Any]) -> list[Any]:
    return list(session.prepare(messages).messages)


def listed(memory: Client, worker: InlineWorker, name: str) -> Any:
    """A session fed and folded by a caller's list."""
    session = memory.session(name, SMALL)
    session.prepare(TASK)
    assert worker.work(name).outcome.by_fold > 0
    return session


def test_the_own_list_and_the_returned_one_get_the_fold_and_change_nothing(
    memory: Client, worker: InlineWorker
) -> None:
    session = listed(memory, worker, "folds/list")
    revision = session.status().revision
    own = grown(session, TASK)
    assert len(own) < len(TASK)
    returned = grown(session, own)
    assert returned == own
    new = [assistant("One more."), user("And?")]
    assert grown(session, [*own, *new]) == [*own, *new]
    assert grown(session, [*TASK, *new]) == [*own, *new]
    assert session.status().revision == revision
    assert session.originals() == [*TASK[1:], *new]
    assert session.status().length == len(TASK) - 1 + len(new)


def test_a_list_with_earlier_summaries_in_it_is_still_the_history(memory: Client, worker: InlineWorker) -> None:
    session = memory.session("folds/list-summaries", SMALL)
    mine: list[Any] = TASK[:2]
    for start in range(0, 60, 6):
        mine = [*mine, *task(6, first=start, lines=30)]
        context = session.prepare(mine)
        if context.verdict.compaction == "queued":
            worker.work("folds/list-summaries")
        mine = list(context.messages)  # what it got back is one compaction behind
    assert any(run.by_fold for run in session.compactions())
    original = [*TASK[1:2], *task(60, lines=30)]
    assert session.originals() == original
    assert session.status().length == len(original)


def test_a_fresh_process_knows_the_returned_list(
    connect: Connect, memory: Client, worker: InlineWorker, settings: Settings
) -> None:
    session = listed(memory, worker, "folds/fresh")
    own = grown(session, TASK)
    other = connect(settings).session("folds/fresh", SMALL)
    assert grown(other, [*own, user("And?")]) == [*own, user("And?")]
    assert other.originals() == [*TASK[1:], user("And?")]


def test_a_list_that_has_only_a_part_of_a_fold_is_shown_as_it_is(memory: Client, worker: InlineWorker) -> None:
    session = listed(memory, worker, "folds/part")
    revision = session.status().revision
    part = TASK[:8]
    assert grown(session, part) == part
    trimmed = [TASK[0], TASK[1], *TASK[6:]]
    shown = grown(session, trimmed)
    assert shown[:4] == trimmed[:4]
    assert not faults(shown)
    assert session.status().revision == revision
    assert session.originals() == TASK[1:]


def test_a_list_that_leaves_the_history_inside_a_fold_keeps_what_it_has(memory: Client, worker: InlineWorker) -> None:
    session = listed(memory, worker, "folds/branch")
    other = [*TASK[:8], user("No, the other ones.")]
    assert grown(session, other) == other
    assert session.originals() == other[1:]
    assert session.recall("m20") == TASK[21]
    assert session.prepare().verdict.total == PER_REQUEST + recount(other[1:])


def test_a_list_that_leaves_a_fold_of_a_history_that_never_rests_is_answered_unstored(
    memory: Client, worker: InlineWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    def too_late(*_: object) -> Iterator[Any]:
        return iter(())  # another change was first, each time

    session = listed(memory, worker, "folds/restless")
    session.prepare()
    with monkeypatch.context() as patch:
        patch.setattr(Unfolding, "unfold", too_late)
        other = [*TASK[:8], user("No, the other ones.")]
        context = session.prepare(other)
    assert context.messages == other
    assert context.verdict.compaction == "held(contended)"
    assert session.originals() == TASK[1:]
    assert session.prepare(other).messages == other
    assert session.originals() == other[1:]


def test_no_part_of_a_fold_comes_back_behind_steps_that_another_process_pushed(
    connect: Connect, memory: Client, worker: InlineWorker, settings: Settings, raw: Any
) -> None:
    name = "folds/half-stored"
    session = listed(memory, worker, name)
    session.rewind("m0")
    other = connect(settings).session(name, SMALL)
    assert grown(other, TASK[:2]) == TASK[:2]
    session.push(TASK[2:4])  # the beginning of the fold, which the other one does not know to be stored
    mine = [*TASK, user("And?")]
    other.prepare(mine)
    assert grown(memory.session(name, ModelConfig("gpt-4o", 128)), mine)[:8] == mine[:8]
    assert Kind.FOLDED not in kinds(raw, settings, name)
    assert session.originals() == mine[1:]


def test_a_returned_list_with_other_words_before_a_fold_is_stored_as_it_came(
    memory: Client, worker: InlineWorker
) -> None:
    session = listed(memory, worker, "folds/before")
    own = grown(session, TASK)
    other = [own[0], user("Something else entirely?"), *own[2:]]
    assert grown(session, other) == other
    assert session.originals()[:4] == other[1:5]
    assert session.recall("m8") == TASK[9]


def test_a_returned_list_after_an_undo_gets_the_originals(memory: Client, worker: InlineWorker) -> None:
    session = listed(memory, worker, "folds/list-undo")
    own = grown(session, TASK)
    session.undo()
    wide = memory.session("folds/list-undo", ModelConfig("gpt-4o", 128))
    assert grown(wide, own) == TASK
    assert grown(wide, TASK) == TASK
    assert session.originals() == TASK[1:]


def test_an_undone_fold_stays_undone_when_its_messages_leave_and_come_back(
    memory: Client, worker: InlineWorker
) -> None:
    name = "folds/undone-back"
    session = listed(memory, worker, name)
    wide = memory.session(name, ModelConfig("gpt-4o", 128))
    session.rewind("m0")
    assert len(wide.prepare(TASK).messages) < len(TASK), "taken over by the list"
    session.undo()
    session.rewind("m0")
    assert wide.prepare(TASK).messages == TASK
    session.prepare()
    session.compact()
    worker.work(name)
    assert wide.prepare(TASK).messages[:26] == TASK[:26]
    assert session.originals() == TASK[1:]


def _recalled(session: Any, place: int) -> Any:
    try:
        return session.recall(f"m{place}")
    except RecallExpiredError:
        return None


def test_a_pin_holds_though_an_older_fold_told_of_its_message(memory: Client, worker: InlineWorker) -> None:
    name = "folds/pinned-back"
    session = listed(memory, worker, name)
    wide = memory.session(name, ModelConfig("gpt-4o", 128))
    session.rewind("m0")
    wide.prepare(TASK)
    place = next(place for place in range(60, 200) if _recalled(session, place) == TASK[12])
    session.pin(f"m{place}")
    session.rewind("m0")
    assert wide.prepare(TASK).messages[12] == TASK[12]


def test_a_pin_inside_a_fold_brings_the_whole_fold_back_and_it_stays(memory: Client, worker: InlineWorker) -> None:
    session, _ = folded(memory, worker, "folds/pin")
    pinned = session.pin("m12")
    assert "m12" in pinned.restored
    assert len(pinned.restored) > 2
    wide = memory.session("folds/pin", ModelConfig("gpt-4o", 128))
    assert wide.prepare().messages[12] == TASK[12]
    assert not faults(wide.prepare().messages)
    assert wide.prepare().verdict.total == PER_REQUEST + recount(wide.prepare().messages)
    session.prepare()
    session.compact()
    worker.work("folds/pin")
    assert TASK[12] in session.prepare().messages
    assert session.originals() == TASK


def test_a_phrase_that_a_fold_lost_brings_it_back(memory: Client, worker: InlineWorker) -> None:
    session, _ = folded(memory, worker, "folds/phrase")
    phrase = "src/file5_7.py:49"
    assert phrase not in str(session.prepare().messages)
    session.pin(phrase)
    assert phrase in str(memory.session("folds/phrase", ModelConfig("gpt-4o", 128)).prepare().messages)
    session.prepare()
    session.compact()
    worker.work("folds/phrase")
    assert phrase in str(session.prepare().messages)
    assert session.originals() == TASK
