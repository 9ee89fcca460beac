"""What must hold of every list that a bot of a chaos run is given."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from compactor.formats.openai import RESULT_ROLES
from compactor.history import read_history
from compactor.models import Context, Fit
from compactor.records import write_json
from compactor.validity import added_faults, faults

KEPT_ROLES: Final = ("system", "developer", "user")
_OLDEST: Final = 60  # messages by which a list from memory may be behind
Messages = Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Fault:
    """One broken promise: `lost`, `duplicated`, `invalid` or `changed`, with what was seen."""

    name: str
    detail: dict[str, Any] = field(default_factory=dict[str, Any])


def refused(messages: Messages) -> Counter[str]:
    """What a provider would refuse; calls that wait at the end of the list are the bot's own business."""
    return +(faults(messages) - Counter(open_call=_waiting(messages)))


def check_words(pushed: Messages, context: Context, *, mark: str, alone: bool) -> Iterator[Fault]:
    """The words of system and users are as they were pushed; `mark` stands in all words of this bot."""
    shown = kept(context.messages)
    foreign = [text for text in shown if mark.encode() not in text]
    if Counter(shown) - Counter(kept(pushed)) - Counter(foreign):
        yield Fault("changed", {"what": "own words", "fit": context.verdict.fit})
    if alone and foreign:
        yield Fault("changed", {"what": "foreign words", "fit": context.verdict.fit})


def check_list(pushed: Messages, context: Context, *, alone: bool, doubtful: bool) -> Iterator[Fault]:
    """No provider refuses the list; in a session of one bot it ends as that bot ended, and nothing is missing.

    `doubtful`: a push of this bot may yet turn up, so lengths say nothing.
    """
    found = refused(context.messages)
    if found:
        yield Fault("invalid", {"refused": dict(found), "fit": context.verdict.fit, "shape": shape(context.messages)})
    if not alone:
        return
    if context.verdict.fit is Fit.DEGRADED:
        if not any(_ends_as(pushed[:end], context) for end in _ends(len(pushed))):
            yield Fault("invalid", {"what": "no list of before", "length": context.verdict.length})
        return
    if not doubtful and (missing := _length(pushed) - context.verdict.length):
        yield Fault("lost" if missing > 0 else "duplicated", {"missing": missing, "pushed": len(pushed)})
    elif not _ends_as(pushed, context):
        yield Fault("invalid", {"what": "another end", "length": context.verdict.length, "fit": context.verdict.fit})


def check_own_list(said: Messages, context: Context, *, mark: str, placed: bool, whole: bool) -> Iterator[Fault]:
    """The answer to a caller's own list: no fault of ours, its words, its end.

    Nothing is missing when it was stored (`placed`) and no view had left anything out before (`whole`).
    """
    yield from check_words(said, context, mark=mark, alone=True)
    if added := added_faults(said, context.messages):
        yield Fault("invalid", {"added": dict(added), "fit": context.verdict.fit})
    lead = sum(message["role"] == "system" for message in said)
    if placed and whole and (missing := len(said) - lead - context.verdict.length):
        yield Fault("lost" if missing > 0 else "duplicated", {"missing": missing, "said": len(said)})
    elif not _ends_as(said, context):
        yield Fault("invalid", {"what": "another end", "fit": context.verdict.fit})


def shape(messages: Messages) -> str:
    """A list in short, for a report: roles, call ids and what they answer; no content."""
    return " ".join(
        f"{message.get('role')}{[call['id'] for call in message.get('tool_calls') or ()] or ''}"
        f"{message.get('tool_call_id') or ''}"
        for message in messages
    )


def kept(messages: Messages) -> list[bytes]:
    """The texts of the messages whose words nothing may change."""
    return [write_json(message)[0] for message in messages if message.get("role") in KEPT_ROLES]


def _ends(length: int) -> range:
    """Where a list from memory may end, the newest first."""
    return range(length, max(0, length - _OLDEST) - 1, -1)


def _ends_as(pushed: Messages, context: Context) -> bool:
    """The newest user message is there, and the last message is the last one pushed."""
    if not pushed:
        return not context.messages
    last: Mapping[str, Any] = context.messages[-1] if context.messages else {}
    users = kept([message for message in pushed if message["role"] == "user"])
    if users and users[-1] not in kept(context.messages):
        return False
    if pushed[-1]["role"] in RESULT_ROLES:  # a giant one may be shortened
        return bool(last.get("tool_call_id") == pushed[-1]["tool_call_id"])
    return bool(write_json(last)[0] == write_json(pushed[-1])[0])


def _length(pushed: Messages) -> int:
    """How long the whole list is to be: each call that something else follows is closed by a result."""
    return len(pushed) + faults(pushed)["open_call"] - _waiting(pushed)


def _waiting(messages: Messages) -> int:
    """Calls that wait for results at the end of a list, nothing else behind them."""
    steps = read_history(messages).steps
    if not steps:
        return 0
    last = steps[-1]
    behind = messages[last.start + 1 :]
    return last.results.count(None) if all(message.get("role") in RESULT_ROLES for message in behind) else 0
