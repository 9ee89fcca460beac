"""Lists that hold a part of a fold: stale ones, views, and those of a process that knows less than what is stored."""

from __future__ import annotations

from typing import Any

import pytest

from compactor import ModelConfig
from compactor.settings import Settings
from compactor.validity import faults
from tests.integration.clients import Client, Connect
from tests.integration.conversations import SMALL, assistant, call, result, rows, user
from tests.integration.inline_worker import InlineWorker
from tests.integration.test_folds import LARGE, TASK, grown, listed, task

LARGER = ModelConfig("gpt-4o", 128)  # shows what is stored without a view


@pytest.mark.parametrize("missing", [0, 2])
def test_a_view_that_ends_inside_a_later_fold_is_answered_with_originals(
    connect: Connect, settings: Settings, worker: InlineWorker, missing: int
) -> None:
    name = f"folds/view-{missing}"
    session, wide = (connect(settings).session(name, config) for config in (SMALL, LARGER))
    part = [*TASK[:2], *task(33)]
    view = grown(session, part)
    assert len(view) < len(part)
    session.prepare([*part, *task(20, first=60)])
    assert worker.work(name).outcome.by_fold > len(part)
    revision = session.status().revision
    stale = view[: len(view) - missing]
    assert grown(wide, stale) == part[: len(part) - missing]
    assert not faults(grown(session, stale))
    assert session.status().revision == revision


def test_no_stale_list_that_came_back_is_answered_with_a_part_of_a_fold(memory: Client, worker: InlineWorker) -> None:
    session = memory.session("folds/stale", SMALL)
    talk: list[Any] = TASK[:2]
    older: list[list[Any]] = []
    for start in range(0, 32, 8):
        talk = [*talk, *task(8, first=start, lines=30)]
        if session.prepare(talk).verdict.compaction == "queued":
            worker.work("folds/stale")
        revision = session.status().revision
        for stale in older:
            assert not faults(grown(session, stale))
        assert session.status().revision == revision
        older = [*older, *(grown(session, talk[: len(talk) - missing]) for missing in (0, 4, 8))][-6:]
    assert sum(run.by_fold for run in session.compactions()) > len(talk) / 2
    assert session.originals() == talk[1:]


def test_a_view_that_keeps_rows_names_all_that_a_fold_tells_of(memory: Client, worker: InlineWorker) -> None:
    session = listed(memory, worker, "folds/rows-view")
    wide = memory.session("folds/rows-view", LARGER)
    talk = [*TASK, *task(30, first=40)]
    view = session.prepare(talk, keep_rows=True)
    assert view.verdict.fit == "shortened"
    session.undo()
    assert grown(wide, list(view.messages)) == talk
    assert session.originals() == talk[1:]


def test_a_view_of_a_longer_history_undoes_no_fold_in_a_process_that_knows_less(
    connect: Connect, settings: Settings, worker: InlineWorker
) -> None:
    name = "folds/knows-less"
    one, other = (connect(settings).session(name, SMALL) for _ in range(2))
    double = {**call(90), "tool_calls": [*call(90)["tool_calls"], *call(91)["tool_calls"]]}
    both = [double, result(90, rows(90, LARGE)), result(91, rows(91, LARGE))]
    short = [*TASK[:2], *both, *task(30)]
    one.prepare(short)
    assert worker.work(name).outcome.by_fold > 0
    own = grown(other, short)
    revision = one.status().revision
    talk = [*short, *task(30, first=40)]
    view = grown(one, [*own, *task(30, first=40)])
    assert len(view) < len(own)
    grown(other, [*view, user("And?")])
    assert one.status().revision == revision
    assert one.originals() == [*talk[1:], user("And?")]


def test_replacements_that_a_process_does_not_know_are_no_new_messages_behind_a_repeated_one(
    connect: Connect, settings: Settings, worker: InlineWorker
) -> None:
    name = "folds/repeated"
    one, other = (connect(settings).session(name, SMALL) for _ in range(2))
    again = [call(99), result(99, "nothing found")]
    talk = [*TASK[:2], *again, *task(9, lines=45), *again]
    other.prepare(talk)
    assert worker.work(name).outcome.items > 0
    own = grown(one, talk)
    assert own != talk
    grown(other, [*own, user("And?")])
    assert one.originals() == [*talk[1:], user("And?")]


def test_views_that_end_anywhere_are_answered_as_their_lists_are(memory: Client, worker: InlineWorker) -> None:
    session = memory.session("folds/anywhere", SMALL)
    wide = memory.session("folds/anywhere", LARGER)
    parts = [[*TASK[:2], *task(steps)] for steps in range(38, 44)]
    views = [grown(session, part) for part in parts]
    session.pin("m50")  # so that a fold begins with the last step that the views leave out
    session.prepare([*TASK[:2], *task(80)])
    assert worker.work("folds/anywhere").outcome.by_fold > 100
    for part, view in zip(parts, views, strict=True):
        assert len(view) < len(part)
        assert grown(wide, view) == grown(wide, part)


def test_a_fold_around_messages_that_had_left_comes_back_whole(memory: Client, worker: InlineWorker) -> None:
    name = "folds/gap"
    session = memory.session(name, SMALL)
    session.sync([*TASK[:12], *task(3, first=70)])
    session.sync(TASK)  # what another way had brought stays as tombstones among the steps
    session.prepare(TASK)
    assert worker.work(name).outcome.by_fold > 12
    own = grown(session, TASK)
    assert len(own) < len(TASK)
    grown(session, [*TASK[:2], assistant("Nowhere."), user("Look again.")])
    assert grown(session, TASK) == own
    assert session.originals() == TASK[1:]


def test_a_list_that_goes_another_way_between_two_folds_keeps_the_first(memory: Client, worker: InlineWorker) -> None:
    name = "folds/two"
    session, said = memory.session(name, SMALL), list(TASK)
    session.prepare(said)
    assert worker.work(name).outcome.by_fold
    between = [assistant("Done."), user("More, please."), assistant("Yes?"), user("Go on.")]
    said = [*said, *between, *task(34, first=100)]
    session.prepare(said)
    assert worker.work(name).outcome.by_fold
    own = grown(session, said)
    cut, at = own.index(between[2]), said.index(between[2])
    shown = grown(session, [*own[:cut], assistant("No."), *own[cut + 1 :]])
    assert shown[: cut + 1] == [*own[:cut], assistant("No.")]
    assert not faults(shown)
    assert session.originals()[:at] == [*said[1:at], assistant("No.")]
    assert [session.recall(f"m{position}") for position in range(len(said) - 1)] == said[1:]
