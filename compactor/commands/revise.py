"""Go back: restore originals, release what was undone, copy a session."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from compactor.commands.command import Argument, Command, SessionKeys, newer, text
from compactor.commands.recall import not_found
from compactor.records import KEPT, PINNED, Record


def restore(
    keys: SessionKeys,
    *,
    version: int,
    records: Mapping[int, Record],
    added: Mapping[str, int],
    bytes_added: int,
    outcome: Mapping[str, Any] | None,
    phrases: bytes | None = None,
) -> Command[bool]:
    """Puts records in place by position; False when the history changed since `version`.

    `added` maps each counted encoding to the tokens that come back; `outcome` is the audit's row, if the
    change is worth one; `phrases` are pinned from now on. Raises (on parsing)
    SessionNotFoundError, SchemaVersionError.
    """
    row = b"" if outcome is None else json.dumps(outcome, separators=(",", ":")).encode()
    pinned: Argument = "=" if phrases is None else phrases
    args: list[Argument] = [version, row, bytes_added, pinned, len(added)]
    for encoding, tokens in added.items():
        args += (encoding, tokens)
    for position, record in records.items():
        args += (position, record.pack())

    def parse(replies: list[Any]) -> bool:
        status = text(replies[0])
        if status == "gone":
            raise not_found()
        if status == "newer":
            raise newer("above ours")
        return status == "ok"

    return Command(parse, "restore", keys.all, tuple(args))


def unkeep(
    keys: SessionKeys, positions: Sequence[int], *, phrases: tuple[bytes, bytes] | None = None
) -> Command[int | None]:
    """Lets undone and pinned positions be replaced again; answers how many were kept. Raises as `restore`.

    `phrases` are those pinned when they were read, and those that stay so; None is answered when others are.
    """
    read, left = phrases or (b"=", b"=")

    def parse(replies: list[Any]) -> int | None:
        count = int(replies[0])
        if count == -1:
            raise not_found()
        if count == -2:
            raise newer("above ours")
        return None if count == -3 else count

    return Command(parse, "unkeep", keys.all, (KEPT, PINNED, read, left, *positions))


def fork(
    keys: SessionKeys,
    *,
    operation: bytes,
    ttl_ms: int,
    state: Mapping[str, Argument],
    records: Sequence[bytes],
    archive: Mapping[int, bytes],
    audit: Sequence[bytes],
) -> Command[bool]:
    """Writes a copy as a new session; False when a session of that id exists."""
    pairs: list[Argument] = [item for pair in state.items() for item in pair]
    kept: list[Argument] = [item for pair in archive.items() for item in pair]
    sizes = (len(pairs), len(records), len(kept))
    args = (operation, ttl_ms, *sizes, *pairs, *records, *kept, *audit)
    return Command(lambda replies: text(replies[0]) == "ok", "fork", keys.all, args)
