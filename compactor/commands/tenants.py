"""What the sessions of each tenant hold, in keys of their own: a push touches the keys of its session only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from compactor.commands.command import Command, fields, number, session_keys
from compactor.models import SessionId

DEFAULT: Final = "default"
TOTAL: Final = "=total"  # stands among the sizes, so that both change together; no session id holds a "="
PAGE: Final = 1_000


@dataclass(frozen=True, slots=True)
class Page:
    """Some sizes in bytes, and where to read on (0: that was all)."""

    cursor: int
    sizes: Mapping[SessionId, int]


@dataclass(frozen=True, slots=True)
class Correction:
    """A session whose size, still `old`, should be `new`; 0 drops it."""

    session: SessionId
    old: int
    new: int


def tenant_of(session: str) -> str:
    """The part of a session id before its first slash; `default` without one."""
    tenant, slash, _ = session.partition("/")
    return tenant if slash and tenant else DEFAULT


def sizes_key(namespace: str, tenant: str) -> str:
    """Where the sizes of a tenant's sessions are."""
    return f"{{{namespace}:tenant:{tenant}}}:sizes"


def report(namespace: str, session: SessionId, stored_bytes: int, *, life_ms: int) -> Command[int]:
    """Sets what a session holds, 0 when its life ended; answers the tenant's total. A repeat changes nothing."""
    key = sizes_key(namespace, tenant_of(session))
    return Command(lambda replies: int(replies[0]), "sizes", (key,), (life_ms, session, "", stored_bytes))


def correct(namespace: str, tenant: str, corrections: Sequence[Correction], *, life_ms: int) -> Command[int]:
    """Sets sizes that were not reported anew meanwhile; answers the tenant's total."""
    args = tuple(part for each in corrections for part in (each.session, each.old, each.new))
    return Command(lambda replies: int(replies[0]), "sizes", (sizes_key(namespace, tenant),), (life_ms, *args))


def read_total(namespace: str, tenant: str) -> Command[int]:
    """The bytes that a tenant's sessions hold together."""
    return Command(lambda replies: number(replies[0]), reads=(("HGET", sizes_key(namespace, tenant), TOTAL),))


def read_sizes(namespace: str, tenant: str, cursor: int) -> Command[Page]:
    """The next sizes; begins with cursor 0."""

    def parse(replies: list[Any]) -> Page:
        after, found = replies[0]
        sizes = {SessionId(name): int(size) for name, size in fields(found).items() if name != TOTAL}
        return Page(number(after), sizes)

    return Command(parse, reads=(("HSCAN", sizes_key(namespace, tenant), cursor, "COUNT", PAGE),))


def read_true_sizes(namespace: str, sessions: Sequence[SessionId]) -> Command[Mapping[SessionId, int]]:
    """What the states of these sessions say; 0 for a session that is gone."""
    reads = tuple(("HGET", session_keys(namespace, session).state, "bytes") for session in sessions)

    def parse(replies: list[Any]) -> dict[SessionId, int]:
        return dict(zip(sessions, map(number, replies), strict=True))

    return Command(parse, reads=reads)
