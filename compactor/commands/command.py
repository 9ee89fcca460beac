"""The shape of a command, and the keys of a session."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from compactor.exceptions import SessionDamagedError
from compactor.json_values import is_object
from compactor.models import SessionId

Argument = str | bytes | int | float
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Command(Generic[T]):
    """One round trip: a Lua script, plain reads, or both in one MULTI/EXEC.

    `parse` gets the replies in order (the script's first) and returns the typed answer, or raises.
    """

    parse: Callable[[list[Any]], T]
    script: str | None = None
    keys: tuple[str, ...] = ()
    args: tuple[Argument, ...] = ()
    reads: tuple[tuple[Argument, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class SessionKeys:
    """The eight keys of a session; they share one hash tag, so a cluster keeps them together."""

    state: str
    messages: str
    operations: str
    archive: str
    audit: str
    changes: str
    cleared: str
    cleared_archive: str

    @property
    def all(self) -> tuple[str, ...]:
        return (
            self.state, self.messages, self.operations, self.archive,
            self.audit, self.changes, self.cleared, self.cleared_archive,
        )  # fmt: skip


def session_keys(namespace: str, session: SessionId) -> SessionKeys:
    """The keys of one session in one namespace."""
    tag = f"{{{namespace}:{session}}}"
    names = ("state", "messages", "operations", "archive", "audit", "changes", "cleared", "cleared-archive")
    return SessionKeys(*(f"{tag}:{name}" for name in names))


def text(value: Any) -> str:
    """A Redis reply as text; nil is empty."""
    return value.decode() if isinstance(value, bytes) else "" if value is None else str(value)


def number(value: Any, default: int = 0) -> int:
    """A Redis reply as a whole number; nil and empty are the default."""
    return int(float(value)) if value not in (None, b"", "") else default


def fields(reply: Any) -> dict[str, bytes]:
    """A field-value reply as a dict; a client hands out HGETALL's as one, a script's as a flat list."""
    pairs: Any = reply.items() if is_object(reply) else zip(reply[::2], reply[1::2], strict=True)
    return {text(name): value for name, value in pairs}


def damaged() -> SessionDamagedError:
    """The error for a session whose parts disagree."""
    return SessionDamagedError(
        "session: its state and its messages disagree in Redis; part of it was evicted or deleted from outside. "
        "Check maxmemory-policy (noeviction is right for a server of our own); clear the session to go on."
    )
