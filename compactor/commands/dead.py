"""The list of the dead: sessions left alone because their attempts are used up, one key per namespace."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from compactor.claims import Claim, Held
from compactor.commands.command import Command, SessionKeys, number, session_keys, text
from compactor.exceptions import SchemaVersionError, SessionDamagedError
from compactor.json_values import is_object
from compactor.models import CompactionId, SessionId

ATTEMPTS_USED_UP: Final = "attempts_used_up"  # the workers that tried were killed, or lost the server
SESSION_DAMAGED: Final = "session_damaged"
LIFE_MS: Final = 90 * 86_400_000  # of the list, after its last entry
PAGE: Final = 500
LONGEST_CLAIM_MS: Final = 86_400_000  # one that ends later is from before the server's clock was set back
_STANDING: Final = ("revision", "attempts", "claim", "until", "held", "error")


@dataclass(frozen=True, slots=True)
class Dead:
    """A session that is left alone; `since` in seconds since the epoch, `reason` a code or a place in our code."""

    session: SessionId
    reason: str
    attempts: int
    since: float


@dataclass(frozen=True, slots=True)
class Page:
    """Some entries of the list as they are stored, and where to read on (0: that was all)."""

    cursor: int
    entries: Mapping[SessionId, bytes]


def dead_key(namespace: str) -> str:
    """Where the list of a namespace is."""
    return f"{{{namespace}}}:dead"


def add(
    namespace: str, session: SessionId, reason: str = ATTEMPTS_USED_UP, *, attempts: int = 0, anew: bool = False
) -> Command[bool]:
    """Enters a session; False when it stood there and `anew` was not asked for.

    `reason` is a code or an exception's type and place, never content.
    """
    args = (session, json.dumps(reason), attempts, LIFE_MS, "anew" if anew else "")
    return Command(lambda replies: bool(replies[0]), "dead", (dead_key(namespace),), args)


def read_page(namespace: str, cursor: int) -> Command[Page]:
    """The next entries of the list; begins with cursor 0."""

    def parse(replies: list[Any]) -> Page:
        after, found = replies[0]
        return Page(number(after), {SessionId(text(name)): entry for name, entry in found.items()})

    return Command(parse, reads=(("HSCAN", dead_key(namespace), cursor, "COUNT", PAGE),))


def read_dead(
    namespace: str, entries: Mapping[SessionId, bytes], *, max_attempts: int
) -> Command[Mapping[SessionId, Dead]]:
    """Those of the entries whose session is still dead."""
    reads = tuple(("HMGET", session_keys(namespace, session).state, *_STANDING) for session in entries)

    def parse(replies: list[Any]) -> dict[SessionId, Dead]:
        now_ms = milliseconds(replies[0])
        rows = dict(zip(entries, replies[1:], strict=True))
        return {
            session: _dead(session, entries[session], row)
            for session, row in rows.items()
            if _is_listed(dict(zip(_STANDING, row, strict=True)), now_ms, max_attempts)
        }

    return Command(parse, reads=(("TIME",), *reads))


def milliseconds(time: Any) -> int:
    """The server's TIME in ms since the epoch."""
    seconds, microseconds = time
    return int(seconds) * 1000 + int(microseconds) // 1000


def is_dead(state: Mapping[str, bytes | None], now_ms: int, max_attempts: int) -> bool:
    """Whether a session with these fields is left alone until somebody retries it."""
    if state.get("revision") is None:
        return False
    if text(state.get("claim")) not in ("", Claim.IDLE) and 0 < number(state.get("until")) - now_ms <= LONGEST_CLAIM_MS:
        return False
    return text(state.get("held")) in (Held.DEAD, Held.DAMAGED) or number(state.get("attempts")) >= max_attempts


def _is_listed(state: Mapping[str, bytes | None], now_ms: int, max_attempts: int) -> bool:
    try:
        return is_dead(state, now_ms, max_attempts)
    except SessionDamagedError:  # nothing works on it until somebody looks
        return True


def _dead(session: SessionId, entry: bytes, row: Sequence[Any]) -> Dead:
    stored, state = _entry(entry), dict(zip(_STANDING, row, strict=True))
    since = stored.get("since")
    return Dead(
        session,
        reason=text(state["error"]) or str(stored.get("reason", SESSION_DAMAGED)),
        attempts=int(attempts) if (attempts := state["attempts"] or b"0").isdigit() else 0,
        since=since / 1000 if isinstance(since, (int, float)) else 0.0,
    )


def _entry(data: bytes) -> Mapping[str, Any]:
    """An entry's JSON; one damaged from outside must not hide the others."""
    try:
        entry = json.loads(data)
    except (ValueError, RecursionError):
        return {}
    return entry if is_object(entry) else {}


def forget(namespace: str, entries: Mapping[SessionId, bytes]) -> Command[int]:
    """Drops entries that stand as they were read; answers how many."""
    args = tuple(part for session, entry in entries.items() for part in (session, entry))
    return Command(lambda replies: int(replies[0]), "forget", (dead_key(namespace),), args)


def crash(keys: SessionKeys, *, owner: CompactionId, pause_ms: int, error: str, max_attempts: int) -> Command[str]:
    """Gives the claim of a crashed task back: `released`, `dead`, `lost` or `newer`."""
    return Command(lambda replies: text(replies[0]), "crash", keys.all, (owner, pause_ms, error, max_attempts))


def revive(keys: SessionKeys) -> Command[str]:
    """New attempts: `revived`, `busy` or `gone`. Raises (on parsing) SchemaVersionError."""

    def parse(replies: list[Any]) -> str:
        answer = text(replies[0])
        if answer == "newer":
            raise SchemaVersionError
        return answer

    return Command(parse, "revive", keys.all, (LONGEST_CLAIM_MS,))
