"""Which messages of a list stay when it must fit: whole steps leave, the oldest first.

What stays whatever the room: system and developer messages, the latest user message, and, as long as
`most` allows, the newest results that the model has not read yet. What is kept of an older turn begins
with the user message of that turn, since several providers refuse a list that begins with an answer.
Indexes count within the list.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from compactor.formats.openai import RESULT_ROLES, SYSTEM_ROLES, calls, holds_results
from compactor.history import History, read_history

FALLBACK_MESSAGES: Final = 10  # what `newest` keeps beside system messages and the latest user message


@dataclass(frozen=True, slots=True)
class _Unit:
    """Messages that stay or leave together: a step with its results, or one message outside of steps."""

    start: int
    indexes: frozenset[int]
    tokens: int
    user: bool = False


def trim(messages: Sequence[Mapping[str, Any]], tokens: Sequence[int], *, room: int, most: int = 0) -> list[int]:
    """The indexes that stay, in order; `tokens[i]` counts message i, `room` is what all may count together.

    Unread results stay up to `most` tokens, when that is more than `room`. A room that system messages
    and the latest user message exceed, zero and negative ones included, keeps just these.
    """
    if sum(tokens) <= room:
        return list(range(len(messages)))
    history = read_history(messages)
    units = _units(messages, tokens, history)
    kept = {index for index, role in enumerate(history.roles) if role in SYSTEM_ROLES}
    latest = _latest_user(messages, history)
    for unit in units:
        if unit.indexes & latest:
            kept |= unit.indexes
    unread = _unread(units, history)
    if sum(tokens[index] for index in kept | unread) <= max(room, most):
        kept |= unread
    return sorted(kept | _newest_that_fit(units, frozenset(kept), room - sum(tokens[index] for index in kept)))


def _latest_user(messages: Sequence[Mapping[str, Any]], history: History) -> frozenset[int]:
    """The latest user message, and the latest one that holds more than results, where these differ."""
    users = [index for index, role in enumerate(history.roles) if role == "user"]
    spoken = [index for index in users if not holds_results(messages[index])]
    return frozenset([*users[-1:], *spoken[-1:]])


def _units(messages: Sequence[Mapping[str, Any]], tokens: Sequence[int], history: History) -> list[_Unit]:
    """The units of a list from the oldest on; a user message that holds results belongs to the step before it."""
    grouped: dict[int, list[int]] = {}
    newest: int | None = None
    for index, message in enumerate(messages):
        role = history.roles[index]
        step = history.step_of.get(index)
        if role in SYSTEM_ROLES:
            continue
        start = step.start if step is not None else index
        if role == "user" and newest is not None and holds_results(message):
            start = newest
        if role == "assistant":
            newest = index
        grouped.setdefault(start, []).append(index)
    return [
        _Unit(start, frozenset(indexes), sum(tokens[index] for index in indexes), history.roles[start] == "user")
        for start, indexes in sorted(grouped.items())
    ]


def _unread(units: Sequence[_Unit], history: History) -> frozenset[int]:
    """The steps of the turn in progress whose results the model has not seen."""
    current = [unit.indexes for unit in units if unit.start > history.last_user]
    return frozenset[int]().union(*(found for found in current if any(history.is_unread(index) for index in found)))


def _newest_that_fit(units: Sequence[_Unit], kept: frozenset[int], room: int) -> set[int]:
    """The newest units that fit into `room` beside what is `kept`, with the user message their turn begins with."""
    added: set[int] = set()
    fitting: set[int] = set()
    for unit, opening in zip(reversed(units), reversed(_openings(units)), strict=True):
        if not unit.indexes <= kept:
            room -= unit.tokens
            added |= unit.indexes
        if room < 0:
            break
        if opening is None or opening.indexes <= kept | added:
            fitting = set(added)
        elif opening.tokens <= room:
            fitting = added | opening.indexes
    return fitting


def _openings(units: Sequence[_Unit]) -> list[_Unit | None]:
    """For each unit the user message that its turn begins with."""
    opening: _Unit | None = None
    found: list[_Unit | None] = []
    for unit in units:
        opening = unit if unit.user else opening
        found.append(opening)
    return found


def newest(messages: Sequence[Mapping[str, Any]], most: int = FALLBACK_MESSAGES) -> list[int]:
    """System messages, the latest user message and the last `most` others, without results whose call is gone.

    What stands in when a list could not be read as steps: it looks at nothing but roles and ids.
    """
    roles = [message.get("role") for message in messages]
    others = [index for index, role in enumerate(roles) if role not in SYSTEM_ROLES]
    users = [index for index in others if roles[index] == "user"]
    kept = set(range(len(messages))) - set(others) | set(users[-1:])
    waiting: Counter[object] = Counter()
    for index in others[-most:] if most > 0 else []:
        if roles[index] == "assistant":
            waiting.update(call.id or call.name for call in calls(messages[index]))
        elif roles[index] in RESULT_ROLES and not _take(waiting, messages[index]):
            continue
        kept.add(index)
    return sorted(kept)


def _take(waiting: Counter[object], result: Mapping[str, Any]) -> bool:
    """Whether a call waits for the result; it waits no longer. A result that names no call takes the oldest."""
    name = result.get("tool_call_id") or result.get("name")
    if name is None:
        name = next(iter(waiting), None)
    if not isinstance(name, str) or not waiting[name]:
        return False
    waiting[name] -= 1
    if not waiting[name]:
        del waiting[name]
    return True
