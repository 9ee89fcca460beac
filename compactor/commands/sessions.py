"""Every session of a namespace, page by page: ids by SCAN, then what an operator asks of their states."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from compactor.claims import Claim
from compactor.commands.command import Command, number, session_keys, text
from compactor.commands.dead import ATTEMPTS_USED_UP, is_dead, milliseconds
from compactor.commands.tenants import DEFAULT, tenant_of
from compactor.exceptions import SessionDamagedError
from compactor.models import SessionId
from compactor.records import ENCODINGS

PAGE: Final = 1_000  # keys a SCAN looks at
STATES: Final = ("idle", "due", "queued", "running", "held", "dead", "unreadable")
_SUFFIX: Final = "}:state"
_FIELDS: Final = (
    "revision", "length", "tombs", "bytes", "cleared_bytes", "judged", "claim", "until", "held", "not_before", "rearm",
    "attempts", "error",
    *(f"{encoding}.{name}" for encoding in ENCODINGS for name in ("total", "counted")),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Page:
    """Ids of some sessions, in no order and possibly more than once, and where to read on (0: that was all)."""

    cursor: int
    sessions: Sequence[SessionId]


@dataclass(frozen=True, slots=True)
class Seen:
    """One session as its state tells; tokens of the history, `percent` of the limit it was last judged by, seconds.

    `state` is one of STATES, `reason` says why it is held or dead. Figures that nobody counted are None.
    """

    session: SessionId
    messages: int = 0
    tokens: int | None = None
    percent: float | None = None
    state: str = "unreadable"
    reason: str = ""
    attempts: int = 0
    stored_bytes: int = 0
    expires_in: float = 0.0


def read_page(namespace: str, cursor: int, *, tenant: str | None = None) -> Command[Page]:
    """The next sessions, of one tenant when named; begins with cursor 0."""
    prefix = f"{{{namespace}:"
    # Sessions without a slash have the default tenant, which no pattern can say.
    narrowed = f"{tenant}/*" if tenant not in (None, DEFAULT) else "*"

    def parse(replies: list[Any]) -> Page:
        after, keys = replies[0]
        found = [SessionId(text(key)[len(prefix) : -len(_SUFFIX)]) for key in keys]
        return Page(int(after), [each for each in found if tenant is None or tenant_of(each) == tenant])

    return Command(parse, reads=(("SCAN", cursor, "MATCH", f"{prefix}{narrowed}{_SUFFIX}", "COUNT", PAGE),))


def read_seen(namespace: str, sessions: Sequence[SessionId], *, max_attempts: int) -> Command[list[Seen]]:
    """What the states of these sessions tell; those that ended meanwhile are left out."""
    reads: list[tuple[str | int, ...]] = [("TIME",)]
    for session in sessions:
        state = session_keys(namespace, session).state
        reads += [("HMGET", state, *_FIELDS), ("PTTL", state)]

    def parse(replies: list[Any]) -> list[Seen]:
        now_ms = milliseconds(replies[0])
        rows = zip(sessions, replies[1::2], replies[2::2], strict=True)
        return [
            _seen(session, dict(zip(_FIELDS, values, strict=True)), max(0, int(left)) / 1000, now_ms, max_attempts)
            for session, values, left in rows
            if values[0] is not None
        ]

    return Command(parse, reads=tuple(reads))


def _seen(
    session: SessionId, raw: Mapping[str, bytes | None], expires_in: float, now_ms: int, max_attempts: int
) -> Seen:
    try:
        judged: dict[str, Any] = json.loads(raw["judged"] or b"{}")
        tokens = _tokens(raw, str(judged.get("encoding", ENCODINGS[0])))
        expected = None if tokens is None or not judged else tokens + judged["fixed"]
        state, reason = _standing(raw, judged, expected, now_ms, max_attempts)
        return Seen(
            session,
            messages=number(raw["length"]) - number(raw["tombs"]),
            tokens=tokens,
            percent=None if expected is None else round(100 * expected / judged["limit"], 1),
            state=state,
            reason=reason,
            attempts=number(raw["attempts"]),
            stored_bytes=number(raw["bytes"]) + number(raw["cleared_bytes"]),
            expires_in=expires_in,
        )
    except (
        SessionDamagedError,
        ValueError,
        TypeError,
        KeyError,
        AttributeError,
    ):  # one broken state must not end a listing
        return Seen(session, expires_in=expires_in)


def _tokens(raw: Mapping[str, bytes | None], judged: str) -> int | None:
    """Tokens in the encoding it was judged by, else in one that counted the whole history."""
    for encoding in sorted(ENCODINGS, key=lambda name: name != judged):
        if number(raw[f"{encoding}.counted"]) == number(raw["length"]):
            return number(raw[f"{encoding}.total"])
    return None


def _standing(
    raw: Mapping[str, bytes | None], judged: Mapping[str, Any], expected: int | None, now_ms: int, max_attempts: int
) -> tuple[str, str]:
    claim = text(raw["claim"])
    if claim in (Claim.QUEUED, Claim.RUNNING) and number(raw["until"]) > now_ms:
        return claim, ""
    if is_dead(raw, now_ms, max_attempts):
        return "dead", text(raw["error"]) or text(raw["held"]).replace("dead", "") or ATTEMPTS_USED_UP
    waits = number(raw["not_before"]) > now_ms or (expected is not None and expected < number(raw["rearm"]))
    if raw["held"] and waits:
        return "held", text(raw["held"])
    over = expected is not None and expected >= judged["threshold"]
    return ("due" if over else "idle"), ""
