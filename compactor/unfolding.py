"""Folds that come back: one that a history is to end in, or to be left in, comes back whole."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import pairwise
from typing import Final

from compactor.cached_history import CachedHistory
from compactor.commands import read, recall, revise
from compactor.commands.read import Stored
from compactor.effects import Flow, compute, run
from compactor.exceptions import RecallExpiredError, SessionNotFoundError
from compactor.folded import Folded, folds_among
from compactor.models import Code, Kind, Outcome
from compactor.outcomes import to_json
from compactor.queueing import new_id
from compactor.reader import SessionReader
from compactor.records import Record
from compactor.restoring import before, restored

CUT_THROUGH: Final = "cut_through"  # the reason of an undo that nobody asked for


class Unfolding:
    """Folds of one session; each method yields effects."""

    def __init__(self, reader: SessionReader) -> None:
        self._reader = reader

    def unfold(self, held: CachedHistory, fold: Folded) -> Flow[None]:
        """Brings back every message of a fold; they may be folded again.

        Nothing happens when the history changed or grew since it was read (to what leaves it there may be more than was
        known), or when the archive has not all of them.
        """
        stored = yield from run(read.read_history(self._reader.keys, archive=True))
        positions = [held.messages[index].position for index in fold.indexes]
        known = stored.state.version == held.version and len(stored.records) == len(held.messages)
        if known and all(position in stored.archive for position in positions):
            encoder = self._reader.around.encoder
            back = yield from compute(lambda: restored(stored, positions, encoder, flags={}), heavy=True)
            total = stored.state.totals.get(self._reader.encoding, (0, 0))[0]
            outcome = Outcome(
                Code.UNDONE,
                id=new_id(),
                reason=CUT_THROUGH,
                before=total,
                after=total + back.added.get(self._reader.encoding, 0),
                items=len(back.records),
                at=self._reader.around.now(),
                positions=tuple(back.records),
            )
            yield from run(
                revise.restore(
                    self._reader.keys,
                    version=stored.state.version,
                    records=back.records,
                    added=back.added,
                    bytes_added=back.bytes_added,
                    outcome=to_json(outcome),
                )
            )
        yield from self._reader.current()

    def told(self, positions: Iterable[int]) -> Flow[dict[int, Record]]:
        """The originals at these positions, as far as there are any; nothing is changed."""
        wanted: list[int] = sorted(positions)
        found: dict[int, Record] = {}
        while wanted:
            last = next((one for one, other in pairwise(wanted) if other > one + 1), wanted[-1])
            last = min(last, wanted[0] + recall.LONGEST_RUN - 1)
            try:
                found |= yield from run(recall.recall_run(self._reader.keys, wanted[0], last))
            except (RecallExpiredError, SessionNotFoundError):  # the conversation ended meanwhile
                return {}
            wanted = [position for position in wanted if position > last]
        return {position: record for position, record in found.items() if record.kind in (Kind.ORIGINAL, Kind.LIMITED)}


def with_whole_folds(stored: Stored, end: int) -> Stored:
    """The session with the originals of the fold that `end` cuts through, if one is."""
    folds = folds_among([record.kind for record in stored.records])
    fold = next((fold for fold in folds if fold.indexes[0] < end <= fold.indexes[-1]), None)
    if fold is None:
        return stored
    offset = stored.state.offset
    back = [index for index in fold.indexes if offset + index in stored.archive]
    records = list(stored.records)
    for index in back:
        records[index] = records[index].brought_back(before(stored, offset + index, records[index]))
    gone = {offset + index for index in back if records[index].kind is Kind.ORIGINAL}
    archive = {position: blob for position, blob in stored.archive.items() if position not in gone}
    return replace(stored, records=tuple(records), archive=archive)


def whole_folds(stored: Stored, positions: Iterable[int]) -> list[int]:
    """The positions with all others of the folds that they are a part of."""
    wanted, offset = set(positions), stored.state.offset
    for fold in folds_among([record.kind for record in stored.records]):
        members = {offset + index for index in fold.indexes}
        wanted |= members if not wanted.isdisjoint(members) else set()
    return sorted(wanted)
