"""Turns among the sessions of a tenant: which may be published now, and which wait; in keys of the tenant."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from compactor.claims import Claim
from compactor.commands.command import Command, number, session_keys, text
from compactor.commands.dead import milliseconds
from compactor.commands.tenants import tenant_of
from compactor.models import CompactionId, SessionId

LIFE_MS: Final = 86_400_000  # of a tenant's turns, and of the list of crowded tenants, after their last change


@dataclass(frozen=True, slots=True)
class Turn:
    """A claimed session whose task is to be published now."""

    session: SessionId
    owner: CompactionId


@dataclass(frozen=True, slots=True)
class Turns:
    """Turns that have come, to be published by whoever asked, and how many sessions go on waiting."""

    waiting: int
    come: tuple[Turn, ...]


@dataclass(frozen=True, slots=True)
class Crowd:
    """How many sessions of a tenant are published and wait."""

    published: int
    waiting: int


@dataclass(frozen=True, slots=True)
class Line:
    """The places of one namespace: so many of a tenant at once, each kept for so many ms.

    A repeat of a call under the same operation id gets the same turns again.
    """

    namespace: str
    most: int
    kept_ms: int

    def join(self, session: SessionId, owner: CompactionId, *, operation: str) -> Command[Turns]:
        """A claimed session lines up; its own turn comes at once while the tenant has places, and again on a repeat."""
        return self._turns("join", Turn(session, owner), 1, operation)

    def leave(self, session: SessionId, owner: CompactionId, *, most: int, operation: str) -> Command[Turns]:
        """A session gives its place back, if it is still there for this claim; hands out at most so many turns."""
        return self._turns("leave", Turn(session, owner), most, operation)

    def _turns(self, verb: Literal["join", "leave"], of: Turn, most: int, operation: str) -> Command[Turns]:
        args = (self.most, self.kept_ms, most, LIFE_MS, verb, of.session, of.owner, operation)

        def parse(replies: list[Any]) -> Turns:
            waiting, *names = replies[0]
            pairs = zip(names[::2], names[1::2], strict=True)
            return Turns(number(waiting), tuple(Turn(SessionId(text(a)), CompactionId(text(b))) for a, b in pairs))

        return Command(parse, "turns", turns_keys(self.namespace, tenant_of(of.session)), args)


def turns_keys(namespace: str, tenant: str) -> tuple[str, str, str, str]:
    """Published, waiting, the claims of both, and what was handed out of late, of one tenant."""
    tag = f"{{{namespace}:tenant:{tenant}}}"
    return f"{tag}:published", f"{tag}:waiting", f"{tag}:owners", f"{tag}:handed"


def crowded_key(namespace: str) -> str:
    """The tenants that have sessions waiting."""
    return f"{{{namespace}}}:crowded"


def enter_crowded(namespace: str, tenant: str) -> Command[int]:
    """Enters a tenant that has sessions waiting."""
    return Command(lambda replies: int(replies[0]), "crowded", (crowded_key(namespace),), (LIFE_MS, tenant, ""))


def drop_crowded(namespace: str, entered: Mapping[str, bytes]) -> Command[int]:
    """Drops tenants that were not entered again since they were read."""
    args = tuple(part for tenant, at in entered.items() for part in (tenant, at))
    return Command(lambda replies: int(replies[0]), "crowded", (crowded_key(namespace),), (LIFE_MS, *args))


def read_crowded(namespace: str) -> Command[Mapping[str, bytes]]:
    """Tenants that had sessions waiting, and when they were entered, as stored."""

    def parse(replies: list[Any]) -> dict[str, bytes]:
        return {text(tenant): b"%.0f" % float(at) for tenant, at in _pairs(replies[0])}

    return Command(parse, reads=(("ZRANGE", crowded_key(namespace), 0, -1, "WITHSCORES"),))


def read_crowds(namespace: str, tenants: Sequence[str]) -> Command[Mapping[str, Crowd]]:
    """How many sessions of each of these tenants are published and wait."""
    keys = [turns_keys(namespace, tenant) for tenant in tenants]
    reads = tuple(("ZCARD", key) for published, waiting, *_ in keys for key in (published, waiting))

    def parse(replies: list[Any]) -> dict[str, Crowd]:
        counts = zip(replies[::2], replies[1::2], strict=True)
        return {tenant: Crowd(int(a), int(b)) for tenant, (a, b) in zip(tenants, counts, strict=True)}

    return Command(parse, reads=reads)


def is_waiting(namespace: str, session: SessionId) -> Command[bool]:
    """Whether a session waits for its tenant's turn."""
    _, waiting, *_ = turns_keys(namespace, tenant_of(session))
    return Command(lambda replies: replies[0] is not None, reads=(("ZSCORE", waiting, session),))


def read_published(namespace: str, tenant: str) -> Command[Sequence[SessionId]]:
    """The sessions that hold a tenant's places."""
    published, *_ = turns_keys(namespace, tenant)
    read = ("ZRANGE", published, 0, -1)
    return Command(lambda replies: [SessionId(text(name)) for name in replies[0]], reads=(read,))


def read_ended(namespace: str, tenant: str, sessions: Sequence[SessionId]) -> Command[Sequence[Turn]]:
    """Those of the sessions whose claim ended without giving the place back."""
    _, _, owners, _ = turns_keys(namespace, tenant)
    reads = (("TIME",), ("HMGET", owners, *sessions))
    states = tuple(("HMGET", session_keys(namespace, name).state, "claim", "owner", "until") for name in sessions)

    def parse(replies: list[Any]) -> list[Turn]:
        now = milliseconds(replies[0])
        ended: list[Turn] = []
        for name, owner, (claim, holder, until) in zip(sessions, replies[1], replies[2:], strict=True):
            held = text(claim) in (Claim.QUEUED, Claim.RUNNING) and holder == owner and number(until) > now
            if owner is not None and not held:
                ended.append(Turn(name, CompactionId(text(owner))))
        return ended

    return Command(parse, reads=(*reads, *states))


def _pairs(reply: Any) -> list[tuple[Any, Any]]:
    """Members with scores: pairs, or flat as the oldest protocol has them."""
    if reply and isinstance(reply[0], (list, tuple)):
        return [(name, score) for name, score in reply]
    return list(zip(reply[::2], reply[1::2], strict=True))
