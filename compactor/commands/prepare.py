"""Judge one send and read what changed since this process last looked: one round trip."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from compactor.budget import Budget
from compactor.commands.command import Command, SessionKeys, damaged, text
from compactor.commands.read import unpack_all
from compactor.models import CompactionId, Revision
from compactor.records import Record, unpack


@dataclass(frozen=True, slots=True)
class Known:
    """What this process already holds of a session."""

    revision: int = 0
    length: int = 0


@dataclass(frozen=True, slots=True)
class Prepared:
    """The script's answer. `total` is None when the encoding did not count the whole history yet.

    `tail` holds the records behind the known length, `changed` those that were replaced since the
    known revision; `whole` says that the caller's knowledge is void and it must read all.
    """

    revision: Revision
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


@dataclass(frozen=True, slots=True)
class Judgement:
    """What a send is judged by; stored with the session, so that the worker knows it."""

    budget: Budget
    encoding: str
    json: bytes


def prepare(
    keys: SessionKeys,
    judgement: Judgement,
    *,
    owner: CompactionId,
    ttl_ms: int,
    known: Known,
    queue_ms: int,
    max_attempts: int,
    kept: str = "",
    force: bool = False,
) -> Command[Prepared | None]:
    """None for an unknown session. Raises (on parsing) SessionDamagedError.

    `kept` names owners whose claims earlier calls may have taken without publishing, by spaces.
    """
    args = (
        owner, ttl_ms, judgement.encoding, known.revision, known.length, "force" if force else "send",
        judgement.json, judgement.budget.threshold, judgement.budget.fixed, queue_ms, max_attempts, kept,
    )  # fmt: skip

    def parse(replies: list[Any]) -> Prepared | None:
        reply = replies[0]
        status = text(reply[0])
        if status == "none":
            return None
        if status == "damaged":
            raise damaged()
        changed = {reply[i]: unpack(reply[i + 1]) for i in range(12, len(reply), 2)}
        whole = text(reply[10]) == "all" and known.length > 0
        tail = () if whole else unpack_all(replies[1])
        if not whole and known.length + len(tail) != reply[3]:
            raise damaged()
        return Prepared(
            revision=Revision(reply[1]), offset=reply[2], length=reply[3],
            total=reply[4] if reply[4] >= 0 else None, lead=reply[5],
            claim=text(reply[6]), claimed=bool(reply[7]), held=text(reply[8]), owner=CompactionId(text(reply[9])),
            queued_seconds=reply[11] / 1000, whole=whole, changed=changed, tail=tail,
        )  # fmt: skip

    return Command(parse, "prepare", keys.all, args, (("LRANGE", keys.messages, known.length, -1),))


def recount(
    keys: SessionKeys, *, encoding: str, revision: int, length: int, total: int, lead_tokens: int
) -> Command[bool]:
    """Stores the total of an encoding; False when the history changed meanwhile."""
    args = (encoding, revision, length, total, lead_tokens)
    return Command(lambda replies: text(replies[0]) == "ok", "recount", keys.all, args)
