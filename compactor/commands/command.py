"""The shape of a command, and the keys of a session."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from compactor.exceptions import SchemaVersionError, SessionEvictedError
from compactor.json_values import is_object
from compactor.models import SessionId

SCHEMA: Final = 1  # of a session's state; what the scripts refuse above
Argument = str | bytes | int | float
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Command(Generic[T]):
    """One round trip: a Lua script, a second one on the same keys, plain reads, all in one MULTI/EXEC.

    `parse` gets the replies in order (the scripts' first) and returns the typed answer, or raises.
    """

    parse: Callable[[list[Any]], T]
    script: str | None = None
    keys: tuple[str, ...] = ()
    args: tuple[Argument, ...] = ()
    reads: tuple[tuple[Argument, ...], ...] = ()
    then: tuple[str, tuple[Argument, ...]] | None = None


@dataclass(frozen=True, slots=True)
class SessionKeys:
    """The eight keys of a session, and one for short-lived answers of the model.

    They share one hash tag, so a cluster keeps them together.
    """

    state: str
    messages: str
    operations: str
    archive: str
    audit: str
    changes: str
    cleared: str
    cleared_archive: str
    summaries: str

    @property
    def namespace(self) -> str:
        return self._tag.partition(":")[0]

    @property
    def session(self) -> SessionId:
        return SessionId(self._tag.partition(":")[2])

    @property
    def _tag(self) -> str:
        """What stands in the braces: neither part of it may hold one."""
        return self.state[1:].partition("}")[0]

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
    return SessionKeys(*(f"{tag}:{name}" for name in (*names, "summaries")))


def text(value: Any) -> str:
    """A Redis reply as text; nil is empty."""
    return value.decode(errors="replace") if isinstance(value, bytes) else "" if value is None else str(value)


def number(value: Any, default: int = 0) -> int:
    """A Redis reply as a whole number; nil and empty are the default. Raises SessionDamagedError."""
    try:
        return int(float(value)) if value not in (None, b"", "") else default
    except (ValueError, OverflowError):
        raise damaged() from None


def fields(reply: Any) -> dict[str, bytes]:
    """A field-value reply as a dict; a client hands out HGETALL's as one, a script's as a flat list."""
    pairs: Any = reply.items() if is_object(reply) else zip(reply[::2], reply[1::2], strict=True)
    return {text(name): value for name, value in pairs}


def damaged() -> SessionEvictedError:
    """The error for a session whose parts disagree."""
    return SessionEvictedError(
        "session: its state and its messages disagree in Redis; part of it was evicted or deleted from outside. "
        "Check maxmemory-policy (noeviction is right for a server of our own). A prepare with your own list stores "
        "the conversation anew; without one, clear the session to go on."
    )


def newer(schema: object) -> SchemaVersionError:
    """The error for a session that a newer release has migrated."""
    return SchemaVersionError(
        f"session: a newer release wrote it (schema {text(schema)}, this one knows {SCHEMA}); nothing was changed. "
        "Upgrade this process first."
    )


def refuse(status: str, detail: object = None) -> None:
    """Raises for what every script may answer: a damaged session, or one of a newer release."""
    if status == "damaged":
        raise damaged()
    if status == "newer":
        raise newer(detail)
