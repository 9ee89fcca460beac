"""Go back: restore originals, release what was undone, copy a session."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from compactor.commands.command import Argument, Command, SessionKeys, newer, text
from compactor.commands.recall import not_found
from compactor.records import KEPT, Record


def restore(
    keys: SessionKeys,
    *,
    version: int,
    records: Mapping[int, Record],
    added: Mapping[str, int],
    bytes_added: int,
    outcome: Mapping[str, Any],
) -> Command[bool]:
    """Puts records back by position; False when the history changed since `version`.

    `added` maps each counted encoding to the tokens that come back. Raises (on parsing)
    SessionNotFoundError, SchemaVersionError.
    """
    row = json.dumps(outcome, separators=(",", ":")).encode()
    args: list[Argument] = [version, row, bytes_added, len(added)]
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


def unkeep(keys: SessionKeys, positions: Sequence[int]) -> Command[int]:
    """Lets undone positions be replaced again; answers how many were kept. Raises as `restore`."""

    def parse(replies: list[Any]) -> int:
        count = int(replies[0])
        if count == -1:
            raise not_found()
        if count == -2:
            raise newer("above ours")
        return count

    return Command(parse, "unkeep", keys.all, (KEPT, *positions))


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
