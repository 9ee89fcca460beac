"""The nouns of the product as frozen values: messages, snapshots, replacements, verdicts, outcomes.

Tokens are counted in one encoding per value; positions count from the first message ever pushed to
the session, so they never shift and never repeat.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from typing import Any, Final, NewType

from compactor.bills import Bill, Spending
from compactor.exceptions import ConfigurationError

SessionId = NewType("SessionId", str)
Revision = NewType("Revision", int)
CompactionId = NewType("CompactionId", str)

_SESSION_ID = re.compile(r"[A-Za-z0-9._:@/-]{1,200}")


def session_id(text: str) -> SessionId:
    """Checks a session id: `tenant/name`, 1-200 of `A-Z a-z 0-9 . _ : @ / -`.

    Raises ConfigurationError; the text names the characters, not the id, since ids may hold names.
    """
    if not isinstance(text, str) or not _SESSION_ID.fullmatch(text):
        raise ConfigurationError(
            "session id: expected 1-200 characters of A-Z a-z 0-9 . _ : @ / - (for example "
            "'tenant/chat-42'). Replace other characters before you pass it."
        )
    return SessionId(text)


class Kind(IntEnum):
    """What a stored record shows; the numbers are stored and never change meaning."""

    ORIGINAL = 0
    POINTER = 1
    CONDENSED = 2
    SUMMARY = 3
    EXTRACT = 4
    ELIDED = 5
    FOLD = 6
    TOMBSTONE = 7
    LIMITED = 8  # cut when it was pushed: the beginning of the original, which is in the archive
    FOLDED = 9  # part of the conversation, told by the fold before it; a send leaves it out
    CORRUPT = 255  # never stored: a record that this release cannot read


@dataclass(frozen=True, slots=True)
class Message:
    """One live message of a history.

    `value` is read-only and equal to what was pushed (or what replaced it), `tokens` its count.
    `position` counts from the first message ever pushed; in a plain list it is the index. `own` is
    the fingerprint of the original, `shown` that of the last replacement. `soft`: its caller may
    still reword it; `kept`: undone, so not replaced again until released. `cut` is the fingerprint of the
    cut text that a push stored in its place, if it did, `earlier` that of a replacement before the last.
    `reopened`: it came back for a pinned phrase. `left`: of a tombstone, the kind of what stood here.
    """

    position: int
    value: Mapping[str, Any]
    tokens: int
    kind: Kind = Kind.ORIGINAL
    provisional: bool = False
    pinned: bool = False
    own: bytes = b""
    shown: bytes = b""
    soft: bool = False
    kept: bool = False
    cut: bytes = b""
    reopened: bool = False
    earlier: bytes = b""
    left: Kind = Kind.ORIGINAL

    @property
    def names(self) -> tuple[bytes, ...]:
        """The fingerprints of all that ever stood here: a caller's list may hold any of it."""
        more = tuple(name for name in (self.cut, self.earlier) if name)
        return (self.own, self.shown, *more)

    @property
    def role(self) -> str:
        return str(self.value.get("role", ""))

    @property
    def replaced(self) -> bool:
        """Whether a compaction has been here: what a push cut is still to be summarised."""
        return self.kind not in (Kind.ORIGINAL, Kind.LIMITED)

    @property
    def live(self) -> bool:
        """Whether it is part of the conversation: neither a tombstone nor unreadable."""
        return self.kind not in (Kind.TOMBSTONE, Kind.CORRUPT)

    @property
    def folded(self) -> bool:
        """Whether a fold before it tells what it held, so that a send leaves it out; its value is a skeleton."""
        return self.kind is Kind.FOLDED


def recall_id(position: int) -> str:
    """The public name of a message: `m12` is the message at position 12."""
    return f"m{position}"


def run_id(first: int, last: int) -> str:
    """The public name of the messages from one position to another: `m12-48`."""
    return f"m{first}-{last}" if last > first else recall_id(first)


def recall_positions(text: str) -> tuple[int, int]:
    """Reads a recall id, or the id of a run: first and last position. Raises ConfigurationError when it is neither."""
    match = re.fullmatch(r"m(\d{1,15})(?:-m?(\d{1,15}))?", text.strip()) if isinstance(text, str) else None
    if match is None or (match[2] is not None and int(match[2]) < int(match[1])):
        raise ConfigurationError(
            "recall id: expected the letter m and a position, for example 'm12', or a run such as 'm12-48'."
        )
    return int(match[1]), int(match[2] or match[1])


def recall_position(text: str) -> int:
    """Reads a recall id. Raises ConfigurationError when it is none."""
    match = re.fullmatch(r"m(\d{1,15})", text.strip()) if isinstance(text, str) else None
    if match is None:
        raise ConfigurationError("recall id: expected the letter m and a position, for example 'm12'.")
    return int(match[1])


def recall_part(text: str) -> tuple[str, int | None]:
    """Splits the name of a part: `m12.1` is the first call, or the first part of the content, of `m12`.

    Raises ConfigurationError.
    """
    name, dot, part = text.partition(".") if isinstance(text, str) else (text, "", "")
    if dot and not re.fullmatch(r"[1-9]\d{0,5}", part.strip()):
        raise ConfigurationError("recall id: expected a part's number behind the point, for example 'm12.1'.")
    return name, int(part) if dot else None


@dataclass(frozen=True, slots=True)
class Replacement:
    """A message that takes the place of the original at `position`.

    `before` and `after` are the tokens of the whole message.
    """

    position: int
    value: Mapping[str, Any]
    kind: Kind
    before: int
    after: int
    provisional: bool = False

    @property
    def saved(self) -> int:
        return self.before - self.after


class Fit(StrEnum):
    """How the list of one send came to fit."""

    FITS = "fits"
    SHORTENED = "shortened"
    IMPOSSIBLE = "impossible"
    SHADOW = "shadow"
    DEGRADED = "degraded"


@dataclass(frozen=True, slots=True)
class Verdict:
    """How full the context is, in tokens.

    total = system + history + tools + extra, as we count (the fixed cost of a request is part of
    `system`, and so is what its `variables` added). `expected` is what the provider is expected to
    count: the figure that limit, threshold, ceiling and percent are compared with; `counted_by` says
    from what: `count`, `prior` (a model that tiktoken does not know) or `anchor` (reported usage).
    `sent` counts the list that is sent. `compaction` is one of
    `not_needed`, `due`, `queued`, `running`, `held(reason)`. `stable_until` counts the first messages
    of the list that no later compaction will change; a view, once it begins, may still leave some out.
    `problems` names what is wrong with calls and results, each with a recall id: `open_call@m3`,
    `late_answer@m7`, `orphan_result@m9`, `corrupt_record@m5`, `copied_mark@m31` (a call of the newest reply
    holds a mark of ours instead of text; see `Receipt.not_run`); or `evicted`.
    """

    system: int
    history: int
    tools: int
    total: int
    expected: int
    limit: int
    threshold: int
    ceiling: int
    length: int
    compaction: str
    fit: Fit = Fit.FITS
    sent: int = 0
    problems: tuple[str, ...] = ()
    stable_until: int = 0
    recounted: bool = False
    variables: int = 0
    extra: int = 0
    counted_by: str = "count"

    @property
    def base(self) -> int:
        """Tokens of the system text without its variables."""
        return self.system - self.variables

    @property
    def percent(self) -> float:
        """Expected tokens in percent of the limit, one decimal."""
        return round(100 * self.expected / self.limit, 1)

    @property
    def percent_until_compaction(self) -> float:
        """Percent of the limit still free below the threshold, never negative."""
        return round(max(0, self.threshold - self.expected) * 100 / self.limit, 1)

    @property
    def over_threshold(self) -> bool:
        return self.expected >= self.threshold


@dataclass(frozen=True, slots=True)
class Receipt:
    """What a push stored: history tokens and messages of the session after it.

    `not_run` holds a tool result for each pushed call whose arguments copy a mark of ours in the place of
    text that was left out: push these instead of running those calls.
    """

    total: int
    length: int
    over_threshold: bool
    positions: tuple[int, ...] = ()
    not_run: tuple[Mapping[str, Any], ...] = ()


SPEND_CAP: Final = "spend_cap"  # the reason of a compaction that wrote extracts because the day's money was spent


class Code(StrEnum):
    """How a compaction ended; QUEUED and RUNNING have not ended yet."""

    APPLIED = "applied"
    DRAFTED = "drafted"
    BELOW_THRESHOLD = "below_threshold"
    NOTHING_TO_DO = "nothing_to_do"
    NO_GAIN = "no_gain"
    BUSY = "busy"
    STALE = "stale"
    GONE = "gone"
    SUMMARIZER_FAILED = "summarizer_failed"
    EXHAUSTED = "exhausted"
    DEAD = "dead"
    UNDONE = "undone"
    SHADOW = "shadow"
    QUEUED = "queued"
    RUNNING = "running"
    UNKNOWN = "unknown"

    @classmethod
    def _missing_(cls, value: object) -> Code:  # noqa: ARG003 # why: the name and arguments are the enum protocol
        """A word of a newer release must not hide the rest of an audit."""
        return cls.UNKNOWN


@dataclass(frozen=True, slots=True)
class Outcome:
    """One compaction: numbers and codes only, so it may be shown anywhere.

    `before` and `after` are the expected tokens of a send; `items` counts replaced messages, and `by_*`
    those of each kind (`by_fold`: all messages that became part of a fold, the results that carry it too);
    `reached` says whether the target was reached; `spent_*` are the model's own figures, in tokens;
    `rewrite` counts the tokens behind the first cut; `bill` says it in money, None in older audits.
    Of a `shadow` outcome nothing was replaced: the figures are those that a compaction would have had.
    `values_used` counts values of results replaced in shadow before that the turns since have used,
    `values_kept` those of them that the context would have held still.
    """

    outcome: Code
    id: str = ""
    reason: str = ""
    before: int = 0
    after: int = 0
    items: int = 0
    by_pointer: int = 0
    by_condensed: int = 0
    by_model: int = 0
    by_extract: int = 0
    by_arguments: int = 0
    by_fold: int = 0
    left: int = 0
    reached: bool = False
    model: str = ""
    prompt_version: int = 0
    spent_in: int = 0
    spent_out: int = 0
    rewrite: int = 0
    ms: int = 0
    at: float = 0.0
    positions: tuple[int, ...] = field(default=())
    bill: Bill | None = None
    values_used: int = 0
    values_kept: int = 0

    @property
    def saved(self) -> int:
        return self.before - self.after


@dataclass(frozen=True, slots=True)
class Context:
    """What one send gets.

    `messages` is a new list of shared, read-only messages, the given system text first; it fits the
    OpenAI SDK's `messages`. `replaced` counts the messages that a compaction replaced.
    """

    messages: list[Any]
    verdict: Verdict
    system: str | None = None
    replaced: int = 0
    left_out: int = 0


@dataclass(frozen=True, slots=True)
class Status:
    """Where a session stands; `totals` maps each encoding to history tokens, times are seconds.

    `compactions` counts the runs in the audit, failed ones included; `spending` is the tenant's today.
    """

    exists: bool
    length: int = 0
    totals: Mapping[str, int] = field(default_factory=dict[str, int])
    revision: int = 0
    claim: str = "idle"
    held: str = ""
    attempts: int = 0
    stored_bytes: int = 0
    archived: int = 0
    compactions: int = 0
    expires_in: float = 0.0
    last: Outcome | None = None
    spending: Spending | None = None


@dataclass(frozen=True, slots=True)
class Erased:
    """What an `erase` removed: live messages, archived originals, and what was left of the conversation before.

    `audit` counts the audit rows that stay: ids and numbers only.
    """

    messages: int = 0
    archived: int = 0
    cleared: int = 0
    audit: int = 0


@dataclass(frozen=True, slots=True)
class Pinned:
    """What a pin did: the recall id or phrase that is pinned, and the messages whose originals came back for it."""

    pin: str
    restored: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Pins:
    """What is pinned in a session: messages by recall id, and phrases."""

    messages: tuple[str, ...] = ()
    phrases: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Compacted:
    """What `compact_messages` returns: the list, the originals by recall id, tokens before and after."""

    messages: list[Any]
    originals: Mapping[str, Any]
    outcome: Outcome
    before: int
    after: int
