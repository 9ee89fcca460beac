"""A session's history in memory, changed as the script changes the stored one: a reference for lists."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha1
from typing import Any

from compactor.cached_history import CachedHistory
from compactor.commands.sync import Change, Row
from compactor.formats.openai import leading_system
from compactor.list_change import change_of
from compactor.matching import Match, match
from compactor.models import Kind
from compactor.records import ENCODINGS, SOFT, Encoded, Record, encode_message
from compactor.stored_messages import read_messages
from compactor.tokens import count_message
from tests.unit.chat import Chat, by_length
from tests.unit.lists import ROOMY, rows

O200K = "o200k_base"


def counted(message: Encoded) -> Row:
    tokens = count_message(message.stored_value(), by_length)
    return Row(message, dict.fromkeys(ENCODINGS, tokens))


def next_chain(chain: bytes, own: bytes) -> bytes:
    """The first 16 hex digits of sha1(chain + own), as the scripts compute it."""
    return sha1(chain + own, usedforsecurity=False).hexdigest()[:16].encode()


@dataclass
class Session:
    """Stored records, the archive by position, and the chain; `sync` takes a caller's list."""

    offset: int = 0
    lead: int = 0
    records: list[Record] = field(default_factory=list[Record])
    archive: dict[int, Record] = field(default_factory=dict[int, Record])
    chain: bytes = b""
    version: int = 1

    def push(self, chat: Sequence[Chat]) -> None:
        """Appends, as push.lua does: leading system messages stand outside of the chain."""
        leading = leading_system(chat) if len(self.records) == self.lead else 0
        for index, row in enumerate(rows(chat)):
            if index >= leading:
                self.chain = next_chain(self.chain, row.own)
            self.records.append(self._record(counted(row), row.own, self.chain, soft=False))
        self.lead += leading

    def held(self) -> CachedHistory:
        messages = tuple(read_messages(self.records, self.offset, O200K, by_length))
        return CachedHistory(self.version, self.offset, messages, chain=self.chain, lead=self.lead)

    def match(self, chat: Sequence[Chat]) -> Match:
        return match(self.held().messages, rows(chat), lead=self.lead)

    def sync(self, chat: Sequence[Chat]) -> Change | None:
        """What a list changed; None when it had nothing new."""
        held, found = self.held(), self.match(chat)
        if not found.changes:
            return None
        wanted = {i: counted(item) for i, item in enumerate(found.items) if i >= found.stored or i == found.reword}
        change = change_of(held, found, wanted)
        self.apply(change)
        return change

    def apply(self, change: Change) -> None:
        """As sync.lua does."""
        if change.reword is not None:
            position, row = change.reword
            old = self.records[position - self.offset]
            self.records[position - self.offset] = self._record(row, row.message.own, old.chain, soft=True)
        if change.branch is not None:
            for index in range(change.branch - self.offset, len(self.records)):
                self._bury(index)
        for row in change.rows:
            self.records.append(self._appended(row))
        self.chain = change.after
        self.version += 1

    def _bury(self, index: int) -> None:
        record = self.records[index]
        if record.kind is Kind.TOMBSTONE:
            return
        replaced = record.kind is not Kind.ORIGINAL
        if not replaced:
            self.archive[self.offset + index] = record
        grave = record.pack()[2:11] + record.text if replaced else b""
        self.records[index] = replace(record, kind=Kind.TOMBSTONE, tokens=(0, 0), text=grave)

    def _appended(self, row: Row) -> Record:
        if row.source is not None:
            grave = self.records[row.source - self.offset]
            original = self.archive.get(row.source)
            if original is not None and grave.kind is Kind.TOMBSTONE and len(grave.text) > 9:
                self.archive[self.offset + len(self.records)] = original
                kind, tokens = Kind(grave.text[0]), grave.text[1:9]
                both = int.from_bytes(tokens[:4], "big"), int.from_bytes(tokens[4:], "big")
                return replace(grave, kind=kind, tokens=both, text=grave.text[9:], chain=row.chain)
        return self._record(row, row.message.own, row.chain, soft=row.soft)

    def _record(self, row: Row, own: bytes, chain: bytes, *, soft: bool) -> Record:
        message = row.message
        flags = message.flags | (SOFT if soft else 0)
        tokens = (row.tokens[ENCODINGS[0]], row.tokens[ENCODINGS[1]])
        return Record(flags, Kind.ORIGINAL, tokens, 1, own, own, chain, message.text)

    def swap(self, texts: Mapping[int, str]) -> None:
        """Replaces results by position, as a worker does; their originals go to the archive."""
        for position, text in texts.items():
            index = position - self.offset
            old = self.records[index]
            shown = encode_message({**old.value(), "content": text}, max_bytes=ROOMY)
            tokens: dict[str, int] = dict.fromkeys(ENCODINGS, count_message(shown.value, by_length))
            self.archive.setdefault(position, old)
            self.records[index] = old.showing(shown, Kind.SUMMARY, provisional=False, tokens=tokens)
        self.version += 1

    def live(self) -> list[Any]:
        """The conversation behind its system text as it stands."""
        behind = self.records[self.lead :]
        return [dict(record.value()) for record in behind if record.kind is not Kind.TOMBSTONE]

    def chain_by_hand(self) -> bytes:
        """The chain over the live originals."""
        chain = b""
        for record in self.records[self.lead :]:
            if record.kind is not Kind.TOMBSTONE:
                chain = next_chain(chain, record.own)
        return chain
