"""Calls that copy a mark of ours: a model imitates what it sees, and would write the mark into a file.

The words of a mark prove nothing, they may stand in any text; its tag does, which only elided
arguments of this session hold.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final

from compactor.formats.openai import Call, calls
from compactor.models import Kind, Message, recall_id
from compactor.repair import closing_result
from compactor.wording import CHINESE, ENGLISH

_MARK: Final = re.compile(
    r"\[#(?P<tag>[0-9a-f]{8})\b(?P<chinese>：|\\uff1a)?(?:[^\[\]]{0,120}?\b(?P<original>m\d{1,15}\.\d{1,4})\b)?"
)


def seems_copied(message: Mapping[str, Any]) -> bool:
    """Whether arguments of the message hold what looks like a mark; nearly none do."""
    return next(_marks(message), None) is not None


def known_tags(history: Sequence[Message]) -> frozenset[str]:
    """The tags of all marks that stand in a history."""
    return frozenset(
        mark["tag"] for message in history if message.kind is Kind.ELIDED for _, mark in _marks(message.value)
    )


def refusals(message: Mapping[str, Any], known: Collection[str]) -> list[dict[str, Any]]:
    """A result for each call of a message that holds a mark of a known tag: why it should not be run."""
    found: dict[int, dict[str, Any]] = {}
    for (order, call), mark in _marks(message):
        if mark["tag"] in known and order not in found:
            words = CHINESE if mark["chinese"] else ENGLISH
            why = words.copied.format(mark=f"#{mark['tag']}", id=mark["original"] or "?")
            found[order] = closing_result(call, words.not_run.format(why=why))
    return list(found.values())


def newest_refusals(history: Sequence[Message]) -> list[dict[str, Any]]:
    """The refusals of the newest reply of the model; what older ones copied is over and done."""
    newest = next((message for message in reversed(history) if message.role == "assistant"), None)
    return [] if newest is None else _refusals_of(newest, history)


def copied_problem(history: Sequence[Message], newest: Message | None) -> tuple[str, ...]:
    """`copied_mark@m31` when the newest reply of the model, which is given, copies a mark of the history."""
    return (f"copied_mark@{recall_id(newest.position)}",) if newest and _refusals_of(newest, history) else ()


def _refusals_of(newest: Message, history: Sequence[Message]) -> list[dict[str, Any]]:
    if newest.replaced or not seems_copied(newest.value):
        return []
    return refusals(newest.value, known_tags(history))


def _marks(message: Mapping[str, Any]) -> Iterator[tuple[tuple[int, Call], re.Match[str]]]:
    if message.get("role") != "assistant":
        return
    for order, call in enumerate(calls(message)):
        if "[#" in call.arguments:
            yield from (((order, call), mark) for mark in _MARK.finditer(call.arguments))
