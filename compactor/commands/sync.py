"""Bring a stored history up to a caller's own list."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from compactor.commands.command import Argument, Command, SessionKeys, refuse, text
from compactor.records import Encoded


@dataclass(frozen=True, slots=True)
class Row:
    """A message to store: its tokens by encoding, and the chain behind it.

    `soft`: the caller may reword it while it is the latest user message. `source` is the position of
    a tombstone whose replacement takes its place.
    """

    message: Encoded
    tokens: Mapping[str, int]
    chain: bytes = b""
    soft: bool = False
    source: int | None = None

    def args(self) -> tuple[Argument, ...]:
        """The script's arguments for this message."""
        head = self.message.pushed(self.tokens, soft=self.soft)
        return head, self.message.own, self.message.text, self.chain, "" if self.source is None else self.source


@dataclass(frozen=True, slots=True)
class Change:
    """What a list changes: new messages, after a branch at one position or a rewording at another.

    `chain` is the fingerprint of the history that the new messages follow; with `gaps` the list is not all of it.
    """

    chain: bytes
    rows: Sequence[Row] = ()
    branch: int | None = None
    reword: tuple[int, Row] | None = None
    gaps: bool = False

    @property
    def after(self) -> bytes:
        """The chain once the change is stored."""
        return self.rows[-1].chain if self.rows else self.chain


@dataclass(frozen=True, slots=True)
class Synced:
    """How it went: `ok`, `changed` (plan anew on what is there now) or `full`, with the session's bytes."""

    status: str
    stored_bytes: int = 0
    behind: bool = False


def sync(
    keys: SessionKeys, change: Change, *, version: int, length: int, ttl_ms: int, max_bytes: int
) -> Command[Synced]:
    """Raises (on parsing) SessionDamagedError, SchemaVersionError."""
    position, reworded = change.reword or (None, None)
    args: list[Argument] = [ttl_ms, max_bytes, version, length, "" if change.branch is None else change.branch]
    args += ("", "", "", "") if position is None or reworded is None else (position, *reworded.args()[:3])
    args += (change.chain, "same" if change.gaps else "")
    for row in change.rows:
        args += row.args()

    def parse(replies: list[Any]) -> Synced:
        reply = replies[0]
        status = text(reply[0])
        refuse(status, reply[-1])
        if status == "full":
            return Synced(status, int(reply[1]))
        return Synced(status, reply[2], bool(reply[3])) if status == "ok" else Synced(status)

    return Command(parse, "sync", keys.all, tuple(args))
