"""A caller's own list: matched with the history, what is new in it stored, answered for exactly that list."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Any, Final

from compactor.cached_history import EMPTY, UNSAVED, CachedHistory
from compactor.commands import counters, recall, sync
from compactor.commands.prepare import Judgement, Load, Mode
from compactor.commands.push import session_full
from compactor.commands.sync import Change, Row
from compactor.effects import Flow, compute, run
from compactor.exceptions import InvalidMessageError, SessionEvictedError, StoreUnavailableError, TenantFullError
from compactor.formats.openai import leading_system
from compactor.frozen import freeze
from compactor.json_values import is_array
from compactor.judging import beginning_at
from compactor.list_change import as_given, change_of, split_fold, tokens_of, untold
from compactor.matching import Match, expanded, match, without_closings
from compactor.models import Message
from compactor.pushing import OWN_OPERATION_MS, Pushing, operation_id
from compactor.queueing import Queueing
from compactor.reader import HEAVY, MANY, Look, SessionReader
from compactor.records import ENCODINGS, Encoded, encode_message
from compactor.returned import cut_position, is_cut_of
from compactor.tokens import Encode, count_message, json_text
from compactor.unfolding import Unfolding

_ATTEMPTS: Final = 8  # at a history that others change all the while
_CUT_ROWS: Final = 16  # whose originals are looked up at once
FULL: Final = "session_full"
TENANT_FULL: Final = "tenant_full"
CONTENDED: Final = "contended"


@dataclass(frozen=True, slots=True)
class Listed:
    """A caller's list read: the system messages that open it, and the conversation behind them.

    `closed` says that results of ours that closed calls of an unsaved list were left out.
    """

    lead: tuple[Mapping[str, Any], ...]
    rows: tuple[Encoded, ...]
    closed: bool = False


@dataclass(frozen=True, slots=True)
class Placed:
    """The messages that answer a list, and how the session stands; `unsaved` says why new ones are not stored.

    `closed` says that the list came back with calls that an earlier answer had closed.
    """

    messages: tuple[Message, ...]
    seen: Look
    unsaved: str = ""
    problems: tuple[str, ...] = ()
    closed: bool = False
    refusal: TenantFullError | None = None

    def raise_unsaved(self, max_bytes: int) -> None:
        """Raises MessageTooLargeError or StoreUnavailableError when new messages could not be stored."""
        if self.refusal is not None:
            raise self.refusal
        if self.unsaved == FULL:
            raise session_full(self.seen.synced.stored_bytes if self.seen.synced else 0, max_bytes)
        if self.unsaved:
            raise StoreUnavailableError(
                "session: others change its history all the while, so the list could not be stored; nothing was "
                "changed. Call again."
            )


class Syncing:
    """Lists of one session; each method yields effects."""

    def __init__(self, reader: SessionReader, pushing: Pushing, queueing: Queueing) -> None:
        self._reader, self._pushing, self._queueing = reader, pushing, queueing
        self._unfolding = Unfolding(reader)

    def read(self, messages: object) -> Flow[Listed]:
        """Splits a list into system text and conversation. Raises InvalidMessageError, also for a single message."""
        if not is_array(messages):
            raise InvalidMessageError("messages: expected the whole conversation as a list of chat messages.")
        encoded = yield from self._pushing.encoded(messages)
        lead = leading_system(message.value for message in encoded)
        return Listed(tuple(freeze(dict(message.value)) for message in encoded[:lead]), tuple(encoded[lead:]))

    def place(self, listed: Listed, judgement: Judgement, encode: Encode, *, mode: Mode = "send") -> Flow[Placed]:
        """Stores what is new, in one round trip when this process or the whole list knows the history.

        Raises StoreUnavailableError.
        """
        problems: tuple[str, ...] = ()
        seen, unsaved = Look(None, EMPTY), ""
        listed = self._completed(listed)
        found, refusal = Match((), ()), None
        for _ in range(_ATTEMPTS):
            held = self._reader.around.histories.get(self._reader.cache_key) or EMPTY
            found = yield from self._matched(held, listed.rows)
            seen = replace(seen, history=held)  # of which `found` speaks, should this attempt be the last
            if found.branch is not None and (proven := (yield from self._proven_cuts(held, found))):
                known = replace(held, sent=held.sent | proven)
                self._reader.around.histories.put(self._reader.cache_key, known)
                continue
            if found.branch is not None and (fold := split_fold(held, found.branch)) is not None:
                yield from self._unfolding.unfold(held, fold)
                continue
            try:
                seen, refusal = yield from self._look(held, found, judgement, encode, mode)
            except SessionEvictedError:
                problems = (counters.EVICTED,)
                yield from self._heal()
                continue
            found = yield from self._matched(seen.history, listed.rows)
            unsaved = FULL if seen.synced is not None and seen.synced.status == "full" else ""
            # Of a history that this process did not know, the whole list was asked for: once more, with what is new.
            if refusal is not None and found.changes and (held is not EMPTY or seen.answer is None):
                unsaved = TENANT_FULL
            if unsaved or not found.changes:
                break
        else:
            unsaved = CONTENDED
        found = yield from self._with_told(seen.history, found, listed.rows)
        messages = yield from self.messages(seen.history, found, encode)
        self._remember(messages if unsaved else (), seen.history)
        closed = found.closed or listed.closed
        return Placed(messages, seen, unsaved, problems, closed, refusal if unsaved == TENANT_FULL else None)

    def unplaced(self, listed: Listed, encode: Encode) -> Flow[Placed]:
        """The list with the replacements that this process knows of, nothing read and nothing stored."""
        held = self._reader.around.histories.get(self._reader.cache_key) or EMPTY
        listed = self._completed(listed)
        found = yield from self._matched(held, listed.rows)
        closed = found.closed or listed.closed
        if untold(held, found):
            found = match((), listed.rows)
        messages = yield from self.messages(held, found, encode)
        self._remember(messages, held)
        return Placed(messages, Look(None, held), closed=closed)

    def _unsaved(self) -> list[CachedHistory]:
        """The lists that could not be stored, the oldest first."""
        histories, session = self._reader.around.histories, self._reader.session
        return [kept for slot in UNSAVED if (kept := histories.get((session, slot))) is not None]

    def _remember(self, unsaved: tuple[Message, ...], stored: CachedHistory) -> None:
        """Keeps lists that could not be stored: their views may hide messages that exist nowhere else by then.

        One is forgotten when all of it is stored, or stands in a newer one, where its views say it does: a bot may send
        an older list of its own in between, and then go on with the view. Questions may stand there in other words.
        """
        before = self._unsaved()
        if not before and not unsaved:
            return
        known = {(message.position, message.own) for message in (*stored.messages, *unsaved)}
        asked = {message.position for message in (*stored.messages, *unsaved) if message.role == "user"}
        kept = [
            each
            for each in before
            if not all(
                (m.position, m.own) in known or (m.role == "user" and m.position in asked) for m in each.messages
            )
        ]
        if unsaved:
            size = sum(len(json_text(message.value)) for message in unsaved)
            kept.append(CachedHistory(0, 0, unsaved, size=size))
        newest = kept[-len(UNSAVED) :]
        for slot, each in zip_longest(UNSAVED, newest):
            key = (self._reader.session, slot)
            if each is None:
                self._reader.around.histories.drop(key)
            else:
                self._reader.around.histories.put(key, each)

    def _completed(self, listed: Listed) -> Listed:
        """The list with what a view of an unsaved one had left out, and without what closed its calls.

        An older one may explain a part of the view.
        """
        unsaved = self._unsaved()
        said: Sequence[Encoded] = listed.rows
        for kept in unsaved:
            said = without_closings(kept.messages, kept.messages, said)
        given = {id(row) for row in said}
        rows = max(
            (expanded(kept.messages, said) for kept in reversed(unsaved)),
            key=lambda rows: sum(id(row) not in given for row in rows),
            default=said,
        )
        return Listed(listed.lead, tuple(rows), closed=len(said) < len(listed.rows))

    def _matched(self, held: CachedHistory, rows: Sequence[Encoded]) -> Flow[Match]:
        heavy = len(rows) > MANY
        return (yield from compute(lambda: match(held.messages, rows, lead=held.lead, sent=held.sent), heavy=heavy))

    def _with_told(self, held: CachedHistory, found: Match, rows: Sequence[Encoded]) -> Flow[Match]:
        """The match with the originals that the answer needs; where one is gone, the list row for row."""
        wanted = untold(held, found)
        if not wanted:
            return found
        records = yield from self._unfolding.told(message.position for message in wanted.values())
        items = list(found.items)
        for i, message in wanted.items():
            record = records.get(message.position)
            if record is None or record.own != message.own:
                return match((), rows)
            items[i] = encode_message(record.value())
        return replace(found, items=tuple(items))

    def _proven_cuts(self, held: CachedHistory, found: Match) -> Flow[frozenset[bytes]]:
        """The rows of a fork that are results as another process had cut them, before they were replaced."""
        replaced = {message.position for message in held.messages if message.live and message.replaced}
        suspects: dict[bytes, tuple[Encoded, int]] = {}
        for item in found.items[found.stored :]:
            position = cut_position(item.value)
            if position in replaced and item.own not in held.sent and len(suspects) < _CUT_ROWS:
                suspects[item.own] = item, position
        if not suspects:
            return frozenset()
        records = yield from self._unfolding.told({position for _, position in suspects.values()})
        return frozenset(
            own
            for own, (item, position) in suspects.items()
            if position in records and is_cut_of(item.value, records[position].value(), position)
        )

    def _look(
        self, held: CachedHistory, found: Match, judgement: Judgement, encode: Encode, mode: Mode
    ) -> Flow[tuple[Look, TenantFullError | None]]:
        """Stores the change and reads; one that the tenant has no room for is told, and nothing is stored."""
        change = yield from self._change(held, found)
        refusal = None if change is None else (yield from self._refusal(change))
        first = None
        if change is not None and refusal is None:
            first = sync.sync(
                self._reader.keys,
                change,
                version=held.version,
                length=len(held.messages),
                ttl_ms=self._reader.ttl_ms,
                max_bytes=self._reader.settings.max_session_bytes,
            )
        after = held.chain if change is None else change.after
        tokens = None if held is EMPTY else tokens_of(held, found, change, self._reader.encoding, encode)
        places = [place for place in found.places if place is not None]
        judged = beginning_at(judgement, held.messages[places[0]].position if places else 0)
        seen = yield from self._queueing.look(judged, encode, mode=mode, load=Load(tokens, after), first=first)
        if seen.synced is not None and seen.synced.behind:
            self._reader.around.encodings[self._reader.session] = frozenset(ENCODINGS)
        if seen.synced is not None and seen.synced.status == "ok":
            yield from self._reader.ledger.report(seen.synced.stored_bytes)
        return seen, refusal

    def _refusal(self, change: Change) -> Flow[TenantFullError | None]:
        try:
            yield from self._reader.ledger.admit(sum(len(row.message.text) for row in change.rows))
        except TenantFullError as error:
            return error
        return None

    def _change(self, held: CachedHistory, found: Match) -> Flow[Change | None]:
        """What the list changes in the history this process holds; None when nothing."""
        if not found.changes:
            return None
        reworded = [] if found.reword is None else [found.reword]
        wanted = [*reworded, *range(found.stored, len(found.items))]
        counts = yield from self._pushing.counted([found.items[i] for i in wanted])
        rows = {
            i: Row(found.items[i], {name: tokens[order] for name, tokens in counts.items()})
            for order, i in enumerate(wanted)
        }
        return change_of(held, found, rows)

    def messages(self, held: CachedHistory, found: Match, encode: Encode) -> Flow[tuple[Message, ...]]:
        """The messages of a matched list: stored ones as they stand now, others as the caller has them."""
        following = held.offset + len(held.messages) - found.stored

        def read() -> tuple[Message, ...]:
            given = as_given(held, found)
            answer: list[Message] = []
            for i, place in enumerate(found.places):
                stored = None if place is None else held.messages[place]
                if stored is not None and i not in given:
                    answer.append(stored)
                    continue
                value = found.items[i].stored_value()
                position = following + i if stored is None else stored.position
                own = found.items[i].own
                tokens, pinned = count_message(value, encode), stored is not None and stored.pinned
                answer.append(Message(position, freeze(value), tokens, pinned=pinned, own=own, shown=own))
            return tuple(answer)

        fresh = sum(len(item.text) for i, item in enumerate(found.items) if found.places[i] is None)
        return (yield from compute(read, heavy=fresh > HEAVY))

    def _heal(self) -> Flow[None]:
        """What an eviction left moves aside; then the caller's list is stored as a new conversation."""
        self._reader.around.histories.drop(self._reader.cache_key)
        healed = recall.clear(
            self._reader.keys, operation=operation_id(None), remember_ms=OWN_OPERATION_MS, ending="heal"
        )
        yield from run(healed)
        yield from run(counters.add(self._reader.settings.namespace, counters.EVICTED))
