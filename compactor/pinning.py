"""Pins of one session: messages that no compaction replaces and no view leaves out, and phrases that survive."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from compactor.commands import read, recall, revise
from compactor.commands.read import Stored
from compactor.effects import Flow, compute, run
from compactor.exceptions import RecallExpiredError
from compactor.formats.openai import calls, text_of
from compactor.json_values import is_array
from compactor.models import Code, CompactionId, Kind, Outcome, Pinned, Pins, recall_id
from compactor.outcomes import from_json, to_json
from compactor.pins import check_phrase, holds, pinned_position, read_phrases, write_phrases
from compactor.queueing import new_id
from compactor.reader import SessionReader
from compactor.records import PINNED, REOPENED, Record
from compactor.restoring import ATTEMPTS, Restored, contended, original_of, restored
from compactor.undoing import brought_back, chosen
from compactor.unfolding import whole_folds

_GONE = (Kind.TOMBSTONE, Kind.CORRUPT)
_NOTHING = Restored({}, {}, 0)


@dataclass(frozen=True, slots=True)
class _Pin:
    """What a pin changes: records, what of them came back, and the phrases, if they change."""

    back: Restored = _NOTHING
    restored: tuple[int, ...] = ()
    phrases: bytes | None = None
    records: dict[int, Record] = field(default_factory=dict[int, Record])

    @property
    def changes(self) -> bool:
        return bool(self.records) or self.phrases is not None


class Pinning:
    """Each method yields effects."""

    def __init__(self, reader: SessionReader) -> None:
        self._reader = reader

    def pin(self, what: int | str) -> Flow[Pinned]:
        """Pins a message by its position or recall id, or a phrase."""
        position = pinned_position(what)
        phrase = check_phrase(str(what)) if position is None else ""
        name = phrase if position is None else recall_id(position)
        came_back: tuple[int, ...] = ()
        for _ in range(ATTEMPTS):
            stored = yield from self._stored(archive=True)
            change = (
                partial(self._phrase, stored, phrase) if position is None else partial(self._message, stored, position)
            )
            pin = yield from compute(change, heavy=True)
            came_back = pin.restored or came_back  # the reply to an attempt may have been lost
            if not pin.changes or (yield from self._written(stored, pin)):
                return Pinned(name, tuple(map(recall_id, came_back)))
        raise contended()

    def pins(self) -> Flow[Pins]:
        """What is pinned now."""
        stored = yield from self._stored()
        named = enumerate(stored.records, start=stored.state.offset)
        messages = (recall_id(place) for place, each in named if each.flags & PINNED and each.kind not in _GONE)
        return Pins(tuple(messages), read_phrases(stored.raw.get("pins")))

    def release(self, what: int | str | Sequence[int | str]) -> Flow[int]:
        """Unpins messages and phrases, and lets messages that an undo brought back be replaced again."""
        names: Sequence[Any] = what if is_array(what) else [what]
        places = [pinned_position(name) for name in names]
        words = [str(name) for name, place in zip(names, places, strict=True) if place is None]
        for _ in range(ATTEMPTS):
            kept = b"" if not words else (yield from run(read.read_pins(self._reader.keys)))
            phrases = read_phrases(kept)
            positions = [place for place in places if place is not None]
            positions += yield from self._of_compactions([word for word in words if word not in phrases])
            left = [phrase for phrase in phrases if phrase not in words]
            change = (kept, write_phrases(left)) if len(left) < len(phrases) else None
            count = yield from run(revise.unkeep(self._reader.keys, positions, phrases=change))
            if count is not None:
                return count + len(phrases) - len(left)
        raise contended()

    def _of_compactions(self, names: Sequence[str]) -> Flow[list[int]]:
        """What undos of these compactions brought back. Raises CompactionNotFoundError."""
        positions: list[int] = []
        if names:
            rows = [from_json(row) for row in (yield from run(read.read_audit(self._reader.keys)))]
            for name in names:
                compaction = chosen(rows, name)
                positions += [*compaction.positions, *brought_back(rows, compaction)]
        return positions

    def _stored(self, *, archive: bool = False) -> Flow[Stored]:
        stored = yield from run(read.read_history(self._reader.keys, archive=archive))
        if not stored.state.exists:
            raise recall.not_found()
        return stored

    def _message(self, stored: Stored, position: int) -> _Pin:
        """The message with its flag; what replaced it goes."""
        index = position - stored.state.offset
        record = stored.records[index] if 0 <= index < len(stored.records) else None
        if record is None or record.kind in _GONE:
            raise RecallExpiredError(f"pin: {recall_id(position)} is no live message of this session.")
        if record.kind in (Kind.ORIGINAL, Kind.LIMITED):
            pinned = {} if record.flags & PINNED else {position: replace(record, flags=record.flags | PINNED)}
            return _Pin(Restored(pinned, dict.fromkeys(stored.state.totals, 0), 0), records=pinned)
        if position not in stored.archive:
            raise RecallExpiredError(f"pin: {recall_id(position)} was replaced, and its original is no more.")
        places = whole_folds(stored, [position])
        if any(place not in stored.archive for place in places):
            raise RecallExpiredError(
                f"pin: {recall_id(position)} was folded, and not all of its fold's originals are left."
            )
        flags = dict.fromkeys(places, REOPENED) | {position: PINNED}
        back = restored(stored, places, self._reader.around.encoder, flags=flags)
        return _Pin(back, tuple(back.records), records=dict(back.records))

    def _phrase(self, stored: Stored, phrase: str) -> _Pin:
        """The phrases with a new one; originals whose replacement lost it come back, to be replaced with it again."""
        known = read_phrases(stored.raw.get("pins"))
        named = enumerate(stored.records, start=stored.state.offset)
        without = whole_folds(stored, [place for place, record in named if _lost(stored, place, record, phrase)])
        back = restored(stored, without, self._reader.around.encoder, flags=dict.fromkeys(without, REOPENED))
        phrases = None if phrase in known else write_phrases([*known, phrase])
        return _Pin(back, tuple(back.records), phrases, dict(back.records))

    def _written(self, stored: Stored, pin: _Pin) -> Flow[bool]:
        name = CompactionId(new_id())
        before = stored.state.totals.get(self._reader.encoding, (0, 0))[0]
        outcome = Outcome(
            Code.UNDONE,
            id=name,
            reason="pin",
            before=before,
            after=before + pin.back.added.get(self._reader.encoding, 0),
            items=len(pin.restored),
            at=self._reader.around.now(),
            positions=pin.restored,
        )
        command = revise.restore(
            self._reader.keys,
            version=stored.state.version,
            records=pin.records,
            added=pin.back.added or dict.fromkeys(stored.state.totals, 0),
            bytes_added=pin.back.bytes_added,
            outcome=to_json(outcome) if pin.restored else None,
            phrases=pin.phrases,
        )
        return (yield from run(command))


def _lost(stored: Stored, position: int, record: Record, phrase: str) -> bool:
    """Whether a replacement lacks a phrase that its original holds."""
    if record.kind in (*_GONE, Kind.ORIGINAL, Kind.LIMITED) or position not in stored.archive:
        return False
    original, shown = original_of(stored, position, record).value(), record.value()
    told = [text_of(original), *(call.arguments for call in calls(original))]
    now = [text_of(shown), *(call.arguments for call in calls(shown))]
    return any(holds(text, phrase) for text in told) and not any(holds(text, phrase) for text in now)
