"""Originals are archived before the swap; what no swap took is deleted by the next claim."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import pytest

from compactor import Code, StoreUnavailableError
from compactor.archive import compress
from compactor.commands import claim
from compactor.commands.command import Command
from compactor.settings import Settings
from tests.integration.clients import Client, StoreClient
from tests.integration.conversations import SMALL, conversation, step
from tests.integration.inline_worker import InlineWorker
from tests.integration.stored import keys_of, records

T = TypeVar("T")


def archived(raw: Any, settings: Settings, session: str) -> set[int]:
    return {int(position) for position in raw.hkeys(keys_of(settings, session).archive)}


def test_the_archive_holds_the_replaced_records_whole(
    memory: Client, settings: Settings, worker: InlineWorker, raw: Any
) -> None:
    session = memory.session("archive/whole", SMALL)
    session.push(conversation(8))
    before = records(raw, settings, "archive/whole")
    session.prepare()
    outcome = worker.work("archive/whole").outcome
    kept = raw.hgetall(keys_of(settings, "archive/whole").archive)
    assert kept == {str(position).encode(): compress(before[position]) for position in outcome.positions}


@dataclass
class Watched:
    """A store that does something right before each swap."""

    inner: StoreClient
    before_swap: Callable[[], None]

    def run(self, command: Command[T]) -> T:
        if command.script == "swap":
            self.before_swap()
        return self.inner.run(command)


def test_originals_are_archived_before_the_swap(
    memory: Client, settings: Settings, store: StoreClient, worker: InlineWorker, raw: Any
) -> None:
    session = memory.session("archive/ahead", SMALL)
    session.push(conversation(8))
    session.prepare()
    seen: list[tuple[set[int], int]] = []

    def look() -> None:
        seen.append((archived(raw, settings, "archive/ahead"), session.prepare().replaced))

    worker.tools = replace(worker.tools, runner=Watched(store, look))
    outcome = worker.work("archive/ahead").outcome
    assert seen == [(set(outcome.positions), 0)]


def test_a_worker_that_dies_between_archive_and_swap_loses_nothing(
    memory: Client, settings: Settings, store: StoreClient, worker: InlineWorker, raw: Any
) -> None:
    session = memory.session("archive/dies", SMALL)
    session.push(conversation(8))
    session.prepare()

    def dying() -> None:
        raise StoreUnavailableError("gone")

    worker.tools = replace(worker.tools, runner=Watched(store, dying))
    with pytest.raises(StoreUnavailableError):
        worker.work("archive/dies")
    assert archived(raw, settings, "archive/dies")
    assert session.prepare().replaced == 0
    assert session.originals() == conversation(8)
    assert [session.recall(f"m{position}") for position in range(19)] == conversation(8)


def drafts_without_a_swap(
    session: Any, settings: Settings, store: StoreClient, worker: InlineWorker, name: str, positions: tuple[int, ...]
) -> None:
    """A worker that died between archive and swap."""
    session.prepare()
    owner = worker.owner(name)
    worker.begin(name, owner, lease=0)
    blobs = {position: compress(b"x" * 1_000) for position in positions}
    assert store.run(claim.archive(keys_of(settings, name), owner=owner, originals=blobs)) == "ok"


def test_the_next_claim_deletes_drafts_that_no_swap_took(
    memory: Client, settings: Settings, store: StoreClient, worker: InlineWorker, raw: Any
) -> None:
    session = memory.session("archive/drafts", SMALL)
    session.push(conversation(8))
    before = session.status().stored_bytes
    drafts_without_a_swap(session, settings, store, worker, "archive/drafts", (15, 17))
    assert archived(raw, settings, "archive/drafts") == {15, 17}
    assert session.status().stored_bytes > before
    assert session.prepare().verdict.compaction == "queued"
    assert archived(raw, settings, "archive/drafts") == set()
    assert session.status().stored_bytes == before
    outcome = worker.work("archive/drafts").outcome
    assert archived(raw, settings, "archive/drafts") == set(outcome.positions)


def test_a_draft_whose_message_then_leaves_the_history_is_its_only_original(
    memory: Client, settings: Settings, store: StoreClient, worker: InlineWorker, raw: Any
) -> None:
    session = memory.session("archive/leaves", SMALL)
    session.push(conversation(8))
    session.prepare()
    owner = worker.owner("archive/leaves")
    worker.begin("archive/leaves", owner, lease=0)
    blobs = {p: compress(records(raw, settings, "archive/leaves")[p]) for p in (3, 15)}
    assert store.run(claim.archive(keys_of(settings, "archive/leaves"), owner=owner, originals=blobs)) == "ok"
    session.rewind("m4")
    session.push([message for order in range(20, 28) for message in step(order)])
    assert session.prepare().verdict.compaction == "queued"
    assert archived(raw, settings, "archive/leaves") == set(range(5, 19)), "only the draft of what is live is gone"
    assert [session.recall(f"m{position}") for position in range(19)] == conversation(8)
    live = sum(len(row) - 51 for row in raw.lrange(keys_of(settings, "archive/leaves").messages, 0, -1))
    kept = sum(len(blob) for blob in raw.hvals(keys_of(settings, "archive/leaves").archive))
    assert session.status().stored_bytes == live + kept


def test_what_an_earlier_swap_took_is_not_deleted_with_later_drafts(
    memory: Client, settings: Settings, store: StoreClient, worker: InlineWorker, raw: Any
) -> None:
    session = memory.session("archive/kept", SMALL)
    session.push(conversation(8))
    session.prepare()
    first = worker.work("archive/kept").outcome
    assert first.outcome is Code.APPLIED
    session.push([message for order in range(20, 28) for message in step(order)])
    drafts_without_a_swap(session, settings, store, worker, "archive/kept", (30, 32))
    session.prepare()
    assert archived(raw, settings, "archive/kept") == set(first.positions)
    assert session.originals()[:18] == conversation(8)[:18]


def test_a_run_that_finds_its_claim_gone_writes_nothing(
    memory: Client, settings: Settings, worker: InlineWorker, raw: Any
) -> None:
    session = memory.session("archive/lost", SMALL)
    session.push(conversation(8))
    session.prepare()
    ended = worker.work("archive/lost", at="swapping", then=session.clear)
    assert ended.outcome.outcome in (Code.STALE, Code.GONE)
    assert archived(raw, settings, "archive/lost") == set()


def test_the_size_of_a_session_counts_its_archive(
    memory: Client, settings: Settings, worker: InlineWorker, raw: Any
) -> None:
    session = memory.session("archive/size", SMALL)
    session.push(conversation(8))
    session.prepare()
    worker.work("archive/size")
    keys = keys_of(settings, "archive/size")
    live = sum(len(row) - 51 for row in raw.lrange(keys.messages, 0, -1))
    kept = sum(len(blob) for blob in raw.hvals(keys.archive))
    assert session.status().stored_bytes == live + kept
