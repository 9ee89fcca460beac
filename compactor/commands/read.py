"""Read a session: its state alone, or its whole history in one round trip."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from compactor.commands.command import Command, SessionKeys, damaged, fields, number, text
from compactor.json_values import is_object
from compactor.models import Revision, Status
from compactor.outcomes import from_json
from compactor.records import ENCODINGS, Record, read_record

_SCALARS = (
    "revision",
    "offset",
    "length",
    "lead",
    "claim",
    "owner",
    "until",
    "held",
    "last",
    "judged",
    "version",
    "chain",
)


@dataclass(frozen=True, slots=True)
class State:
    """The session's state as one send needs it; an unknown session has revision 0 and length 0.

    `totals[encoding]` holds (tokens, tokens of the leading system messages) for each encoding that
    counted the whole history.
    """

    revision: Revision
    offset: int
    length: int
    lead: int
    totals: Mapping[str, tuple[int, int]]
    claim: str
    owner: str
    until_ms: int
    held: str
    last: Mapping[str, Any]
    judged: bytes = b""
    version: int = 0
    chain: bytes = b""

    @property
    def exists(self) -> bool:
        return self.revision > 0


def parse_state(raw: Mapping[str, bytes | None]) -> State:
    """Builds a State from the hash's fields."""
    length = number(raw.get("length"))
    totals = {
        encoding: (number(raw.get(f"{encoding}.total")), number(raw.get(f"{encoding}.lead")))
        for encoding in ENCODINGS
        if number(raw.get(f"{encoding}.counted")) == length
    }
    return State(
        revision=Revision(number(raw.get("revision"))),
        offset=number(raw.get("offset")),
        length=length,
        lead=number(raw.get("lead")),
        totals=totals,
        claim=text(raw.get("claim")) or "idle",
        owner=text(raw.get("owner")),
        until_ms=number(raw.get("until")),
        held=text(raw.get("held")),
        last=_row(raw.get("last") or b"{}"),
        judged=raw.get("judged") or b"",
        version=number(raw.get("version")),
        chain=raw.get("chain") or b"",
    )


def _row(data: bytes) -> dict[str, Any]:
    """An outcome's JSON; one damaged from outside reads as an unknown outcome."""
    try:
        row = json.loads(data)
    except (ValueError, RecursionError):
        row = None
    return dict(row) if is_object(row) else {"outcome": "unknown"}


def read_state(keys: SessionKeys, encoding: str) -> Command[State]:
    """One HMGET."""
    names = (*_SCALARS, f"{encoding}.total", f"{encoding}.counted", f"{encoding}.lead")

    def parse(replies: list[Any]) -> State:
        return parse_state(dict(zip(names, replies[0], strict=True)))

    return Command(parse, reads=(("HMGET", keys.state, *names),))


@dataclass(frozen=True, slots=True)
class Load:
    """How full a session is in one encoding; `total` is None when it did not count the whole history yet."""

    length: int
    total: int | None
    lead_tokens: int
    claim: str
    held: str
    until_ms: int = 0
    not_before_ms: int = 0
    rearm: int = 0
    anchor: str = ""

    def standing(self, now: float, count: int) -> tuple[str, str]:
        """Claim and hold at a time in seconds since the epoch, for a send that counts so many tokens."""
        if self.claim != "idle" and self.until_ms > now * 1000:
            return self.claim, ""
        held = self.held == "dead" or self.not_before_ms > now * 1000 or count < self.rearm
        return "idle", self.held if held else ""


def read_load(keys: SessionKeys, encoding: str, model: str) -> Command[Load]:
    """One HMGET of what an estimate needs; `model` is the key that its anchor is kept under."""

    def parse(replies: list[Any]) -> Load:
        length, total, counted, lead, claim, held, until, not_before, rearm, tombs, anchor = replies[0]
        if length is None:
            return Load(0, 0, 0, "idle", "")
        whole = length == (counted or b"0")
        return Load(
            length=number(length) - number(tombs),
            total=number(total) if whole else None,
            lead_tokens=number(lead),
            claim=text(claim) or "idle",
            held=text(held),
            until_ms=number(until),
            not_before_ms=number(not_before),
            rearm=number(rearm),
            anchor=text(anchor),
        )

    names = (
        "length",
        f"{encoding}.total",
        f"{encoding}.counted",
        f"{encoding}.lead",
        "claim",
        "held",
        "until",
        "not_before",
        "rearm",
        "tombs",
        f"anchor:{model}",
    )
    return Command(parse, reads=(("HMGET", keys.state, *names),))


@dataclass(frozen=True, slots=True)
class Stored:
    """A whole session as read in one transaction."""

    state: State
    records: tuple[Record, ...]
    raw: Mapping[str, bytes] = field(default_factory=dict[str, bytes])
    archive: Mapping[int, bytes] = field(default_factory=dict[int, bytes])
    audit_rows: tuple[bytes, ...] = ()

    @property
    def audit(self) -> list[dict[str, Any]]:
        """The finished compactions, oldest first."""
        return [_row(row) for row in self.audit_rows]


@dataclass(frozen=True, slots=True)
class Rows:
    """The records of a history as they lie in Redis, the first at position `offset`, and its archive by position."""

    offset: int
    rows: Sequence[bytes]
    archive: Mapping[int, bytes]


def unpack_all(rows: Sequence[bytes]) -> tuple[Record, ...]:
    """Reads records in order; unreadable ones are of kind CORRUPT."""
    return tuple(read_record(row) for row in rows)


def read_history(keys: SessionKeys, *, archive: bool = False, audit: bool = False) -> Command[Stored]:
    """State and messages, with the archived originals (compressed) and the audit when asked for."""
    reads: list[tuple[str | int, ...]] = [("HGETALL", keys.state), ("LRANGE", keys.messages, 0, -1)]
    if archive:
        reads.append(("HGETALL", keys.archive))
    if audit:
        reads.append(("LRANGE", keys.audit, 0, -1))

    def parse(replies: list[Any]) -> Stored:
        raw = fields(replies[0])
        state = parse_state(raw)
        if len(replies[1]) != state.length:
            raise damaged()
        originals = _by_position(replies[2]) if archive else {}
        return Stored(state, unpack_all(replies[1]), raw, originals, tuple(replies[-1]) if audit else ())

    return Command(parse, reads=tuple(reads))


def read_rows(keys: SessionKeys) -> Command[Rows]:
    """The whole history and its archive, nothing of it decoded."""

    def parse(replies: list[Any]) -> Rows:
        (length, offset), rows, archive = replies
        if len(rows) != number(length):
            raise damaged()
        return Rows(number(offset), rows, _by_position(archive))

    reads = (("HMGET", keys.state, "length", "offset"), ("LRANGE", keys.messages, 0, -1), ("HGETALL", keys.archive))
    return Command(parse, reads=reads)


def _by_position(reply: Any) -> dict[int, bytes]:
    """An archive's fields; what is no position came from outside."""
    return {int(name): blob for name, blob in fields(reply).items() if name.isdecimal()}


def read_pins(keys: SessionKeys) -> Command[bytes]:
    """The pinned phrases as they are stored; empty for none."""
    return Command(lambda replies: replies[0] or b"", reads=(("HGET", keys.state, "pins"),))


def read_archive(keys: SessionKeys, positions: Sequence[int]) -> Command[dict[int, bytes]]:
    """The compressed originals at these positions, as far as there are any; at least one position."""

    def parse(replies: list[Any]) -> dict[int, bytes]:
        return {p: blob for p, blob in zip(positions, replies[0], strict=True) if blob is not None}

    return Command(parse, reads=(("HMGET", keys.archive, *positions),))


def read_audit(keys: SessionKeys) -> Command[list[dict[str, Any]]]:
    """The finished compactions, oldest first."""

    def parse(replies: list[Any]) -> list[dict[str, Any]]:
        return [_row(row) for row in replies[0]]

    return Command(parse, reads=(("LRANGE", keys.audit, 0, -1),))


def read_status(keys: SessionKeys) -> Command[Status]:
    """Everything an operator asks of one session, in one transaction."""

    def parse(replies: list[Any]) -> Status:
        raw = fields(replies[0])
        state = parse_state(raw)
        if not state.exists:
            return Status(exists=False)
        seconds, microseconds = replies[4]
        now_ms = int(seconds) * 1000 + int(microseconds) // 1000
        return Status(
            exists=True,
            length=state.length - number(raw.get("tombs")),
            totals={encoding: counted[0] for encoding, counted in state.totals.items()},
            revision=state.revision,
            claim=state.claim if state.until_ms > now_ms else "idle",
            held=state.held,
            attempts=number(raw.get("attempts")),
            stored_bytes=number(raw.get("bytes")) + number(raw.get("cleared_bytes")),
            archived=int(replies[1]),
            compactions=int(replies[2]),
            expires_in=max(0, int(replies[3])) / 1000,
            last=from_json(state.last) if state.last else None,
        )

    reads = (("HGETALL", keys.state), ("HLEN", keys.archive), ("LLEN", keys.audit), ("PTTL", keys.state), ("TIME",))
    return Command(parse, reads=reads)
