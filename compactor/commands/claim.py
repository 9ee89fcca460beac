"""The worker's side of a claim: begin, archive ahead, swap, release, hand on to a retry."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from compactor.claims import Begun
from compactor.commands.command import Command, SessionKeys, damaged, fields, refuse, text
from compactor.commands.read import Stored, parse_state, unpack_all
from compactor.models import CompactionId, Outcome
from compactor.outcomes import from_json
from compactor.records import Record


@dataclass(frozen=True, slots=True)
class Begin:
    """How a worker's start ended; `stored` is the snapshot when it may run."""

    begun: Begun
    stored: Stored | None = None
    busy_ms: int = 0


def begin(keys: SessionKeys, *, owner: CompactionId, lease_ms: int, max_attempts: int) -> Command[Begin]:
    """Takes the claim from queued to running and reads the snapshot in the same transaction."""

    def parse(replies: list[Any]) -> Begin:
        status = text(replies[0][0])
        refuse(status, replies[0][-1])
        if status == "busy":
            return Begin(Begun.BUSY, busy_ms=replies[0][1])
        if status != "running":
            return Begin(Begun(status))
        raw = fields(replies[0][1:])
        state = parse_state(raw)
        if len(replies[1]) != state.length:
            raise damaged()
        return Begin(Begun.RUNNING, Stored(state, unpack_all(replies[1]), raw))

    return Command(parse, "begin", keys.all, (owner, lease_ms, max_attempts), (("LRANGE", keys.messages, 0, -1),))


def archive(keys: SessionKeys, *, owner: CompactionId, originals: Mapping[int, bytes]) -> Command[str]:
    """Writes compressed originals by position: `ok`, `lost` (the claim is another's) or `gone`."""
    args: list[str | int | bytes] = [owner]
    for position, blob in originals.items():
        args += (position, blob)
    return Command(lambda replies: text(replies[0]), "archive", keys.all, tuple(args))


def swap(
    keys: SessionKeys,
    *,
    owner: CompactionId,
    last_position: int,
    replacements: Sequence[tuple[int, Record]],
    saved: Mapping[str, int],
    bytes_saved: int,
    rearm: int,
    held: str,
    outcome: Mapping[str, Any],
) -> Command[str]:
    """`applied`, `stale` or `gone`; `saved` maps each counted encoding to the tokens it frees."""
    args: list[str | int | bytes] = [owner, last_position, _json(outcome), bytes_saved, rearm, held, len(saved)]
    for encoding, tokens in saved.items():
        args += (encoding, tokens)
    for position, record in replacements:
        args += (position, record.pack())
    return Command(lambda replies: text(replies[0]), "swap", keys.all, tuple(args))


def keep(
    keys: SessionKeys,
    swap: Command[str],
    *,
    owner: CompactionId,
    outcome: Mapping[str, Any],
    cold: Mapping[str, Any],
    rules: Sequence[Any],
    level: int,
) -> Command[str]:
    """Keeps a swap for a send that counts `level` tokens, or finds the cache cold: `kept`, `stale` or `gone`.

    `cold` is the outcome that the audit gets in the second case, `rules` are those of the bot that it was written by.
    """
    given = [
        _json(cold),
        _json(rules),
        *(part if isinstance(part, bytes) else str(part).encode() for part in swap.args[1:]),
    ]
    draft = b"".join(len(part).to_bytes(4, "big") + part for part in given)
    args = (owner, swap.args[1], _json(outcome), level, draft)
    return Command(lambda replies: text(replies[0]), "keep", keys.all, args)


def swap_kept(keys: SessionKeys, *, is_cold: bool, rules: Sequence[Any]) -> Command[Outcome | None]:
    """Swaps a kept draft in; None when there is none that still fits, the bot's `rules` of now among the rest."""

    def parse(replies: list[Any]) -> Outcome | None:
        answer = text(replies[0])
        return from_json(json.loads(answer)) if answer.startswith("{") else None

    return Command(parse, "swap", keys.all, ("", "cold" if is_cold else "", _json(rules)))


def release(
    keys: SessionKeys,
    *,
    owner: CompactionId,
    outcome: Mapping[str, Any],
    pause_ms: int,
    rearm: int,
    held: str,
    audit: bool,
    shadow: bytes = b"",
) -> Command[bool]:
    """Ends the claim without a swap; False when it was lost before. `shadow` is kept for the next run."""
    drafted = (shadow,) if shadow else ()
    args = (owner, _json(outcome), pause_ms, rearm, held, int(audit), *drafted)
    return Command(lambda replies: text(replies[0]) == "released", "release", keys.all, args)


def unqueue(keys: SessionKeys, *, owner: CompactionId) -> Command[bool]:
    """Gives the claim back after a failed publish."""
    return Command(lambda replies: text(replies[0]) == "released", "unqueue", keys.all, (owner,))


def publishing(keys: SessionKeys, *, owner: CompactionId, patience_ms: int) -> Command[bool]:
    """Starts the time in which the task of a claim that waited must be begun; False when the claim has ended."""
    return Command(lambda replies: text(replies[0]) == "queued", "publishing", keys.all, (owner, patience_ms))


def retry(
    keys: SessionKeys, *, owner: CompactionId, wait_ms: int, patience_ms: int, counted: bool = True
) -> Command[bool]:
    """Hands the claim to this task's own retry in `wait_ms`; False when it was lost before.

    After `patience_ms` more the retry counts as lost. One that is not `counted` leaves the attempts as they were
    before this run.
    """
    args = (owner, wait_ms + patience_ms, wait_ms, int(counted))
    return Command(lambda replies: text(replies[0]) == "queued", "retry", keys.all, args)


def _json(value: Mapping[str, Any] | Sequence[Any]) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()
