"""What a strict provider would refuse in a message list."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from compactor.formats.openai import RESULT_ROLES, SYSTEM_ROLES, calls
from compactor.history import History, read_history


def faults(messages: Sequence[Mapping[str, Any]]) -> Counter[str]:
    """Counts the faults of a list by code; empty when a strict provider takes it.

    `open_call` (a call without a result directly behind it), `late_answer` (the result comes after
    another message), `orphan_result`, `empty_content`, `bad_arguments`, `no_message`.
    """
    history = read_history(messages)
    found: Counter[str] = Counter()
    for step in history.steps:
        found["open_call"] += step.results.count(None)
        found["late_answer"] += _late(history, step.start, step.answered)
    for index, message in enumerate(messages):
        if history.is_orphan(index):
            found["orphan_result"] += 1
        found["empty_content"] += _is_empty(message)
        found["bad_arguments"] += sum(1 for call in calls(message) if not _parses(call.arguments))
    if all(role in SYSTEM_ROLES for role in history.roles):
        found["no_message"] = 1
    return +found


def added_faults(before: Sequence[Mapping[str, Any]], after: Sequence[Mapping[str, Any]]) -> Counter[str]:
    """The faults of `after` beyond those of `before`; also `last_role` when the last role differs."""
    added = faults(after) - faults(before)
    if before and (not after or after[-1].get("role") != before[-1].get("role")):
        added["last_role"] = 1
    return added


def _late(history: History, start: int, answered: list[int]) -> int:
    """Results that do not stand in the unbroken run of results behind their call."""
    end = start + 1
    while end < len(history.roles) and history.roles[end] in RESULT_ROLES:
        end += 1
    return sum(1 for index in answered if index >= end)


def _is_empty(message: Mapping[str, Any]) -> int:
    content = message.get("content")
    if content:
        return 0
    return 0 if message.get("role") == "assistant" and calls(message) else 1


def _parses(arguments: str) -> bool:
    try:
        json.loads(arguments)
    except (ValueError, RecursionError):
        return False
    return True
