"""Going back in a session: undo, rewind, fork, clear, erase; and closing what a dead bot left open."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar

from compactor.cached_history import UNSAVED, CachedHistory
from compactor.commands import read, recall, revise, sync
from compactor.commands.command import SCHEMA, newer, number, session_keys
from compactor.commands.read import Stored
from compactor.commands.recall import Ending
from compactor.commands.sync import Change
from compactor.effects import Flow, compute, run
from compactor.exceptions import ConfigurationError, RecallExpiredError, StoreUnavailableError
from compactor.formats.openai import part_of, text_of
from compactor.history import read_history
from compactor.list_change import split_fold
from compactor.models import (
    Code,
    CompactionId,
    Erased,
    Kind,
    Outcome,
    Receipt,
    SessionId,
    recall_id,
    recall_part,
    recall_position,
    recall_positions,
)
from compactor.outcomes import from_json, to_json
from compactor.pushing import OWN_OPERATION_MS, Pushing, operation_id
from compactor.queueing import new_id
from compactor.reader import MANY, SessionReader
from compactor.records import ENCODINGS, KEPT, chain_of
from compactor.repair import closing_result, open_calls
from compactor.restoring import ATTEMPTS, Restored, contended, originals_of, restored
from compactor.undoing import chosen, places, standing
from compactor.unfolding import Unfolding, with_whole_folds
from compactor.wording import wording_for

T = TypeVar("T")


class Revising:
    """Changes of one session's past; each method yields effects."""

    def __init__(self, reader: SessionReader, pushing: Pushing) -> None:
        self._reader, self._pushing = reader, pushing
        self._unfolding = Unfolding(reader)

    def recall(self, name: str) -> Flow[Any]:
        """The original message, the part of one (`m12.1`), or the list of a run (`m12-48`) that a recall id names."""
        whole, part = recall_part(name)
        first, last = recall_positions(whole)
        if last > first and part is None:
            records = yield from run(recall.recall_run(self._reader.keys, first, last))
            return [record.value() for record in records.values()]
        record = yield from run(recall.recall(self._reader.keys, recall_position(whole)))
        value = record.value()
        if part is None:
            return value
        found = part_of(value, part)
        if found is None:
            raise RecallExpiredError(f"recall id: the message {whole.strip()} has no part {part}.")
        return found

    def originals(self) -> Flow[list[Any]]:
        """The live conversation as it was pushed, every replacement undone; nothing is changed."""
        found = yield from run(read.read_rows(self._reader.keys))
        return (yield from compute(lambda: originals_of(found), heavy=len(found.rows) > MANY))

    def compactions(self) -> Flow[list[Outcome]]:
        """The compactions of this session, oldest first."""
        rows = yield from run(read.read_audit(self._reader.keys))
        return [from_json(row) for row in rows]

    def undo(self, compaction_id: str | None = None) -> Flow[Outcome]:
        """Brings the originals of one compaction back; they are not replaced again until released."""
        if not isinstance(compaction_id, str | None):
            raise ConfigurationError("compaction_id: expected a compaction's id, or None for the last that stands.")
        content = b"undo " + (compaction_id or "").encode(errors="replace")
        return (yield from self._repeatable(content, new_id().encode(), partial(self._undo, compaction_id)))

    def _repeatable(self, content: bytes, new: bytes, flow: Callable[[bytes], Flow[T]]) -> Flow[T]:
        """The flow under the name of an earlier call of this content that raised, or under a new name."""
        unconfirmed, session = self._reader.around.unconfirmed, self._reader.session
        name = unconfirmed.take(session, content) or new
        try:
            return (yield from flow(name))
        except (StoreUnavailableError, GeneratorExit):  # it may have been carried out
            unconfirmed.put(session, content, name)
            raise

    def _undo(self, compaction_id: str | None, name: bytes) -> Flow[Outcome]:
        undone = CompactionId(name.decode())
        for _ in range(ATTEMPTS):
            stored = yield from run(read.read_history(self._reader.keys, archive=True, audit=True))
            if not stored.state.exists:
                raise recall.not_found()
            audit = [from_json(row) for row in stored.audit]
            if (done := next((row for row in audit if row.id == undone), None)) is not None:
                return done  # the reply to the first attempt was lost
            left = partial(_places, stored, audit)
            compaction = chosen(audit, compaction_id, left)
            back = yield from self._restored(stored, left(compaction))
            before = stored.state.totals.get(self._reader.encoding, (0, 0))[0]
            outcome = Outcome(
                Code.UNDONE,
                id=undone,
                reason=compaction.id,
                before=before,
                after=before + back.added.get(self._reader.encoding, 0),
                items=len(back.records),
                at=self._reader.around.now(),
                positions=tuple(back.records),
            )
            if not back.records:
                return outcome
            restored = revise.restore(
                self._reader.keys,
                version=stored.state.version,
                records=back.records,
                added=back.added,
                bytes_added=back.bytes_added,
                outcome=to_json(outcome),
            )
            if (yield from run(restored)):
                return outcome
        raise contended()

    def _restored(self, stored: Stored, positions: Sequence[int]) -> Flow[Restored]:
        kept = dict.fromkeys(positions, KEPT)
        return (
            yield from compute(lambda: restored(stored, positions, self._reader.around.encoder, flags=kept), heavy=True)
        )

    def rewind(self, position: int | str) -> Flow[int]:
        """Ends the history behind a message; what followed stays recallable. Answers how many messages left."""
        last = recall_position(position) if isinstance(position, str) else position
        if not isinstance(last, int) or isinstance(last, bool):
            raise ConfigurationError("position: expected a recall id such as 'm12', or its number.")
        tried = 0
        for _ in range(ATTEMPTS):
            seen = yield from self._reader.current()
            if seen.answer is None:
                raise recall.not_found()
            index = last - seen.history.offset
            messages = seen.history.messages
            if not max(0, seen.history.lead - 1) <= index < len(messages) or messages[index].kind is Kind.TOMBSTONE:
                raise RecallExpiredError(
                    f"position: {recall_id(last)} is no live message of this session that a conversation can end with."
                )
            leaving = sum(1 for message in messages[index + 1 :] if message.kind is not Kind.TOMBSTONE)
            if not leaving:
                return tried  # they left, and the reply to that was lost
            fold = split_fold(seen.history, index + 1)
            if fold is not None:
                yield from self._unfolding.unfold(seen.history, fold)
            elif (yield from self._branch(seen.history, index + 1)):
                return leaving
            tried = leaving
        raise contended()

    def _branch(self, history: CachedHistory, index: int) -> Flow[bool]:
        stay = [m.own for m in history.messages[history.lead : index] if m.kind is not Kind.TOMBSTONE]
        change = Change(chain_of(stay)[-1] if stay else b"", branch=history.offset + index)
        synced = yield from run(
            sync.sync(
                self._reader.keys,
                change,
                version=history.version,
                length=len(history.messages),
                ttl_ms=self._reader.ttl_ms,
                max_bytes=self._reader.settings.max_session_bytes,
            )
        )
        return synced.status == "ok"

    def fork(self, new: SessionId, at: int | str | None = None) -> Flow[None]:
        """Copies the history, up to and with the message `at`, into a new session; recall ids stay the same."""
        if not isinstance(at, int | str | None) or isinstance(at, bool):
            raise ConfigurationError(
                "at: expected a recall id such as 'm12', its number, or None for the whole history."
            )
        content = f"fork {new} {at}".encode(errors="replace")
        yield from self._repeatable(content, operation_id(None), partial(self._fork, new, at))

    def _fork(self, new: SessionId, at: int | str | None, operation: bytes) -> Flow[None]:
        stored = yield from run(read.read_history(self._reader.keys, archive=True, audit=True))
        if not stored.state.exists:
            raise recall.not_found()
        if number(stored.raw.get("schema"), SCHEMA) > SCHEMA:  # a copy would lose what only the newer release reads
            raise newer(stored.raw["schema"])
        end = len(stored.records)
        if at is not None:
            end = (recall_position(at) if isinstance(at, str) else at) - stored.state.offset + 1
            if not 0 < end <= len(stored.records) or stored.records[end - 1].kind is Kind.TOMBSTONE:
                raise RecallExpiredError("at: is no live message of this session.")
        stored = with_whole_folds(stored, end)
        state, ledger = _forked_state(stored, end), self._reader.ledger_of(new)
        yield from ledger.admit(int(state["bytes"]))
        copy = revise.fork(
            session_keys(self._reader.settings.namespace, new),
            operation=operation,
            ttl_ms=self._reader.ttl_ms,
            state=state,
            records=[record.pack() for record in stored.records[:end]],
            archive={p: blob for p, blob in stored.archive.items() if p < stored.state.offset + end},
            audit=stored.audit_rows,
        )
        if not (yield from run(copy)):
            raise ConfigurationError("fork: a session of that id exists; nothing was changed. Choose another id.")
        yield from ledger.report(int(state["bytes"]))

    def close_open_calls(self) -> Flow[Receipt]:
        """Stores a result that says "interrupted" for each call that nothing answered; a repeat stores nothing."""
        seen = yield from self._reader.current()
        usable = seen.history.usable
        steps = [step for step in read_history([message.value for message in usable]).steps if step.open]
        words = wording_for(next((text_of(m.value) for m in usable if m.role == "user"), ""))
        results = [closing_result(call, words.interrupted) for step in steps for call in open_calls(step)]
        if not results:
            return (yield from self._pushing.push([]))
        # Closed once, and once again after a rewind took that away.
        left = sum(1 for message in seen.history.messages if message.kind is Kind.TOMBSTONE)
        name = f"close {left} " + " ".join(f"{usable[step.start].position}:{len(open_calls(step))}" for step in steps)
        return (yield from self._pushing.push(results, name))

    def clear(self) -> Flow[int]:
        """Ends the conversation; it stays recallable until the next clear. Answers its number of messages."""
        return (yield from self._end("clear")).messages

    def erase(self) -> Flow[Erased]:
        """Removes the content of the session for good; the audit keeps ids and numbers."""
        return (yield from self._end("erase"))

    def _end(self, ending: Ending) -> Flow[Erased]:
        for held in (*ENCODINGS, *UNSAVED):
            self._reader.around.histories.drop((self._reader.session, held))
        ended = yield from self._repeatable(ending.encode(), operation_id(None), partial(self._ended, ending))
        self._reader.around.unconfirmed.forget(self._reader.session)
        return ended

    def _ended(self, ending: Ending, operation: bytes) -> Flow[Erased]:
        command = recall.clear(self._reader.keys, operation=operation, remember_ms=OWN_OPERATION_MS, ending=ending)
        ended = yield from run(command)
        yield from self._reader.ledger.report_ended()
        return ended


def _places(stored: Stored, audit: Sequence[Outcome], compaction: Outcome) -> list[int]:
    """Where what a compaction put stands now."""
    return places(standing(audit, compaction), stored.records, stored.state.offset)


def _forked_state(stored: Stored, end: int) -> dict[str, str | bytes | int | float]:
    """The state of a copy that ends behind `end` records; totals of what every record was counted in."""
    state, records = stored.state, stored.records[:end]
    live = [record for record in records if record.kind is not Kind.TOMBSTONE]
    lead = min(state.lead, end)
    chains = chain_of([r.own for r in records[lead:] if r.kind is not Kind.TOMBSTONE])
    archived = sum(len(blob) for position, blob in stored.archive.items() if position < state.offset + end)
    fields: dict[str, str | bytes | int | float] = {
        "offset": state.offset,
        "length": end,
        "tombs": end - len(live),
        "lead": lead,
        "bytes": sum(record.size for record in records) + archived,
        "chain": chains[-1] if chains else b"",
    }
    fields |= {name: value for name, value in stored.raw.items() if name.startswith(("judged", "anchor", "pins"))}
    for encoding in ENCODINGS:
        counts = [record.counted(encoding) for record in records]
        if None not in counts:
            known = [count or 0 for count in counts]
            fields |= {
                f"{encoding}.total": sum(known),
                f"{encoding}.counted": end,
                f"{encoding}.lead": sum(known[:lead]),
            }
    return fields
