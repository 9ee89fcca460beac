"""What the sessions of each tenant hold, in keys of their own: a push touches the keys of its session only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from compactor.commands.command import Command, number, session_keys, text
from compactor.exceptions import SessionDamagedError
from compactor.models import SessionId

DEFAULT: Final = "default"
TOTAL: Final = "=total"  # stands among the sizes, so that both change together; no session id holds a "="
PAGE: Final = 1_000


@dataclass(frozen=True, slots=True)
class Page:
    """Some sizes in bytes (-1: garbled from outside), and where to read on (0: that was all)."""

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
    return Command(lambda replies: int(replies[0]), "sizes", (key,), (life_ms, "", session, "", stored_bytes))


def correct(
    namespace: str, tenant: str, corrections: Sequence[Correction], *, life_ms: int, anew: bool = False
) -> Command[int]:
    """Sets sizes that were not reported anew meanwhile; answers the tenant's total, `anew`: added up again."""
    parts = tuple(part for each in corrections for part in (each.session, each.old, each.new))
    args = (life_ms, "sum" if anew else "", *parts)
    return Command(lambda replies: int(replies[0]), "sizes", (sizes_key(namespace, tenant),), args)


def read_total(namespace: str, tenant: str) -> Command[int | None]:
    """The bytes that a tenant's sessions hold together; None when the total was garbled from outside."""
    return Command(lambda replies: _size(replies[0]), reads=(("HGET", sizes_key(namespace, tenant), TOTAL),))


def read_sizes(namespace: str, tenant: str, cursor: int) -> Command[Page]:
    """The next sizes; begins with cursor 0."""

    def parse(replies: list[Any]) -> Page:
        after, found = replies[0]
        known = {text(name): _size(size) for name, size in found.items()}
        sizes = {SessionId(name): -1 if size is None else size for name, size in known.items() if name != TOTAL}
        return Page(number(after), sizes)

    return Command(parse, reads=(("HSCAN", sizes_key(namespace, tenant), cursor, "COUNT", PAGE),))


def read_true_sizes(namespace: str, sessions: Sequence[SessionId]) -> Command[Mapping[SessionId, int]]:
    """What the states of these sessions say; 0 for a session that is gone, nothing for one that cannot be read."""
    names = ("bytes", "cleared_bytes")
    reads = tuple(("HMGET", session_keys(namespace, session).state, *names) for session in sessions)

    def parse(replies: list[Any]) -> dict[SessionId, int]:
        sizes = {session: [_size(part) for part in parts] for session, parts in zip(sessions, replies, strict=True)}
        return {session: sum(size or 0 for size in parts) for session, parts in sizes.items() if None not in parts}

    return Command(parse, reads=reads)


def _size(value: Any) -> int | None:
    try:
        return number(value)
    except SessionDamagedError:
        return None
