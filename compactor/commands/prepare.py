"""Judge one send and read what changed since this process last looked: one round trip."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from compactor.budget import Budget
from compactor.commands.command import Argument, Command, SessionKeys, damaged, refuse, text
from compactor.commands.read import unpack_all
from compactor.correction import PLAIN, Correction
from compactor.models import CompactionId
from compactor.records import Record, read_record

T = TypeVar("T")
Mode = Literal["send", "shadow", "force", "look"]


@dataclass(frozen=True, slots=True)
class Known:
    """What this process already holds of a session."""

    version: int = 0
    length: int = 0


@dataclass(frozen=True, slots=True)
class Prepared:
    """The script's answer. `total` is None when the encoding did not count the whole history yet.

    `tail` holds the records behind the known length, `changed` those that were replaced since the
    known version; `whole` says that the caller's knowledge is void and it must read all. `chain` is
    the fingerprint of all originals, `anchor` what the session learned of the model, `pins` the phrases
    as they are stored, told when the version is new to the caller. `draft` says why a kept draft is to be
    swapped in before this send: `cold`, `late`, or empty.
    """

    version: int
    offset: int
    length: int
    total: int | None
    lead: int
    claim: str
    claimed: bool
    held: str
    owner: CompactionId
    queued_seconds: float
    whole: bool
    changed: dict[int, Record]
    tail: tuple[Record, ...]
    chain: bytes = b""
    anchor: str = ""
    pins: bytes = b""
    draft: str = ""


@dataclass(frozen=True, slots=True)
class Judgement:
    """What a send is judged by; stored with the session, so that the worker knows it.

    `budget` is in the provider's tokens but for its fixed part, `model` the key of the model, `first`
    the correction to go by before any report, and `cache_ttl_ms` what the provider's cache lives, 0: unknown.
    """

    budget: Budget
    encoding: str
    json: bytes
    model: str = ""
    first: Correction = PLAIN
    cache_ttl_ms: int = 0


@dataclass(frozen=True, slots=True)
class Load:
    """History tokens that a send is judged by (None: the total), if the history still has this chain."""

    tokens: int | None
    chain: bytes


def prepare(
    keys: SessionKeys,
    judgement: Judgement,
    *,
    owner: CompactionId,
    ttl_ms: int,
    known: Known,
    queue_ms: int,
    lease_ms: int,
    max_attempts: int,
    kept: str = "",
    mode: Mode = "send",
    load: Load | None = None,
    first: Command[T] | None = None,
) -> Command[tuple[T | None, Prepared | None]]:
    """The answer of `first` (a script run right before, in the same transaction), then what the send is told.

    None for an unknown session. Raises (on parsing) SessionDamagedError, SchemaVersionError. `kept`
    names owners whose claims earlier calls may have taken without publishing, by spaces. `load`
    judges other tokens than the session's total.
    """
    args: tuple[Argument, ...] = (
        owner, ttl_ms, judgement.encoding, known.version, known.length, mode,
        judgement.json, judgement.budget.threshold, judgement.budget.fixed, queue_ms, max_attempts, kept,
        b"=" + load.chain if load else "", "" if load is None or load.tokens is None else load.tokens, lease_ms,
        judgement.model, repr(judgement.first.offset), repr(judgement.first.slope), judgement.budget.limit,
        judgement.cache_ttl_ms, "tail" if known.length else "",
    )  # fmt: skip
    # A whole history would be copied once more on its way through a script; what is new is little.
    reads = () if known.length else (("LRANGE", keys.messages, 0, -1),)

    def parse(replies: list[Any]) -> tuple[T | None, Prepared | None]:
        done = None if first is None else first.parse(replies[:1])
        reply = replies[-1] if known.length else replies[-2]
        return done, _prepared(reply, None if known.length else replies[-1], known)

    if first is None:
        return Command(parse, "prepare", keys.all, args, reads)
    return Command(parse, first.script, keys.all, first.args, reads, ("prepare", args))


def _prepared(reply: list[Any], rows: list[bytes] | None, known: Known) -> Prepared | None:
    status = text(reply[0])
    if status == "none":
        return None
    refuse(status, reply[-1])
    changed = {reply[i]: read_record(reply[i + 1]) for i in range(17, len(reply), 2)}
    whole = text(reply[10]) == "all" and known.length > 0
    tail = () if whole else unpack_all(reply[16] if rows is None else rows)
    if not whole and known.length + len(tail) != reply[3]:
        raise damaged()
    return Prepared(
        version=reply[1], offset=reply[2], length=reply[3],
        total=reply[4] if reply[4] >= 0 else None, lead=reply[5],
        claim=text(reply[6]), claimed=bool(reply[7]), held=text(reply[8]), owner=CompactionId(text(reply[9])),
        queued_seconds=reply[11] / 1000, whole=whole, changed=changed, tail=tail, chain=reply[12],
        anchor=text(reply[13]), pins=reply[14], draft=text(reply[15]),
    )  # fmt: skip


def recount(
    keys: SessionKeys, *, encoding: str, version: int, length: int, total: int, lead_tokens: int
) -> Command[bool]:
    """Stores the total of an encoding; False when the history changed meanwhile."""
    args = (encoding, version, length, total, lead_tokens)
    return Command(lambda replies: text(replies[0]) == "ok", "recount", keys.all, args)
