"""Needles: values of old tool results that the later turns of a recorded session used.

A value counts when it stands in an old result, a later call or answer uses it before anything shows
it again, and neither the system text, a user nor a newer result holds it. So a compaction can be
measured without a model: is the value still anywhere, and does its label stand beside it?
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final

from compactor.formats.openai import RESULT_ROLES, calls, text_of
from compactor.json_values import is_array, is_object
from compactor.tokens import Encode, count_text

LINE: Final = "line"
LEAST: Final = 200  # tokens of old results that make a case
CUTS: Final = (0.5, 0.75)  # of the results of a session, where its past ends
_LABEL_BEFORE: Final = 80  # characters around a value in which its label must stand
_LABEL_AFTER: Final = 40
_VALUES: Final = tuple(
    re.compile(pattern)
    for pattern in (
        r"[A-Za-z0-9._%+-]+@[A-Za-z0-9.-]+\.[A-Za-z]{2,}",
        r"https?://[^\s\"'<>)\]}]+",
        r"(?<![\w/.])(?:~|\.{1,2})?/?(?:[\w.@+-]+/)+[\w.@+-]+",
        r"(?<![\w/])[\w-]+\.(?:py|js|ts|md|rst|json|ya?ml|toml|txt|cfg|ini|sh|c|h|go|rs|java|csv|log|html|xml)\b",
        r"\b\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2})?)?\b",
        r"\b\d{1,2}:\d{2}(?::\d{2})?\b",
        r"[$€£¥]\s?\d[\d,]*(?:\.\d+)?",
        r"\b[A-Z]\w*(?:Error|Exception|Warning|Failure)\b",
        r"\b(?=[\w-]*\d)(?=[\w-]*[A-Za-z])[A-Za-z0-9][\w-]{3,}\b",
        r"\b[A-Za-z]+(?:_[A-Za-z0-9]+)+\b|\b[a-z]+(?:[A-Z][a-z0-9]+)+\b|\b[A-Z][a-z]+(?:[A-Z][a-z0-9]+)+\b",
        r"(?<![\w.])\d[\d,]*\.\d+(?![\w])|(?<![\w.,-])\d{3,}(?![\w-])",
    )
)
_NO_VALUE: Final = frozenset({"true", "false", "null", "none"})
_LINE_NUMBER: Final = re.compile(r"^\s*\d+[:|\t]\s?")
_FAILURE: Final = re.compile(
    r"(?i)^\W{0,4}(?:[\w./-]{1,60}:\s*){0,3}(?:\w*error|\w*exception|fatal|failed|failure|panic)\b\s*[:(\[]?\s*\S"
    r"|permission denied|command not found|no such file|connection refused|^traceback|错误|失败"
)
_LONGEST_LINE: Final = 400  # characters of a line that counts as one that tells of a failure

Messages = Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Needle:
    """How a value was used: as a whole line or not, and whether the assistant had said it itself."""

    is_line: bool
    restated: bool


@dataclass(slots=True)
class Case:
    """The past of a session up to a cut: its old results by index, and what the future needed of them."""

    messages: Messages
    old: list[int]
    needles: dict[str, Needle] = field(default_factory=dict[str, Needle])
    labels: dict[str, set[str]] = field(default_factory=dict[str, set[str]])
    failures: set[str] = field(default_factory=set[str])


def cases(messages: Messages, encode: Encode, *, keep_recent: int = 1) -> Iterator[Case]:
    """The cases of one recorded session; none where its old results are small or its future needs nothing."""
    results = [index for index, message in enumerate(messages) if message.get("role") in RESULT_ROLES]
    for count in dict.fromkeys(round(len(results) * share) for share in CUTS):
        if count < 2:
            continue
        end = results[count - 1] + 1
        while end < len(messages) and messages[end].get("role") in RESULT_ROLES:
            end += 1
        past = messages[:end]
        old = [index for index in results if index < end]
        old = old[: len(old) - keep_recent]
        future = messages[end:]
        if not old or not any(message.get("role") == "assistant" for message in future):
            continue
        if sum(count_text(text_of(past[index]), encode) for index in old) < LEAST:
            continue
        case = Case(past, old)
        _fill(case, future)
        if case.needles:
            yield case


def case_of(past: Messages, old: Sequence[int], future: Messages) -> Case:
    """The case of a session that was cut behind `past`; `old` are indexes of results in it."""
    case = Case(past, list(old))
    _fill(case, future)
    return case


def said(message: Mapping[str, Any]) -> str:
    """Text and arguments of a message."""
    return f"{text_of(message)}\n{arguments_of(message)}"


def arguments_of(message: Mapping[str, Any]) -> str:
    """The arguments of a message's calls."""
    return "\n".join(call.arguments for call in calls(message))


def plain(text: str) -> str:
    """A text as values are compared: lower case, without thousands separators."""
    return re.sub(r"(?<=\d),(?=\d{3})", "", text.strip().lower())


def holds(text: str, value: str) -> bool:
    """Whether a plain text holds a value that does not go on on either side."""
    at = text.find(value)
    while at >= 0:
        before, behind = text[at - 1 : at] or " ", text[at + len(value) : at + len(value) + 1] or " "
        if not (before.isalnum() and value[0].isalnum()) and not (behind.isalnum() and value[-1].isalnum()):
            return True
        at = text.find(value, at + 1)
    return False


def is_labelled(text: str, value: str, labels: set[str]) -> bool:
    """Whether one of its labels stands near a value."""
    at = text.find(value)
    while at >= 0:
        window = text[max(0, at - _LABEL_BEFORE) : at + len(value) + _LABEL_AFTER]
        if any(label in window for label in labels):
            return True
        at = text.find(value, at + 1)
    return False


def failure_lines(text: str) -> set[str]:
    """The plain lines that tell of a failure; of a long one the beginning."""
    rows = (row.strip() for row in text.splitlines())
    return {plain(row)[:_LABEL_BEFORE] for row in rows if len(row) <= _LONGEST_LINE and _FAILURE.search(row)}


def _fill(case: Case, future: Messages) -> None:
    """Finds what the future used of the old results."""
    past, old = case.messages, set(case.old)
    given = _joined(m for m in past if m.get("role") in ("system", "user", "developer"))
    recent = _joined(m for i, m in enumerate(past) if m.get("role") in RESULT_ROLES and i not in old)
    by_assistant = plain("\n".join(said(m) for m in past if m.get("role") == "assistant"))
    texts = [text_of(past[index]) for index in reversed(case.old)]
    wanted = dict.fromkeys(value for text in texts for value in _values(text))
    lines = {line for text in texts for row in text.splitlines() if _is_line(line := _row(row))}
    again = ""
    for message in future:
        if message.get("role") != "assistant":
            again += "\n" + plain(text_of(message))
            continue
        arguments, text = plain(arguments_of(message)), plain(text_of(message))
        written = arguments_of(message).replace("\\n", "\n").replace('\\"', '"').splitlines()
        for line in {plain(row) for row in written} & lines - case.needles.keys():
            if line not in again and line not in given and line not in recent:
                case.needles[line] = Needle(True, line in by_assistant)
        for value in wanted:
            if value in case.needles or not (holds(arguments, value) or holds(text, value)):
                continue
            if not (holds(again, value) or holds(given, value) or holds(recent, value)):
                case.needles[value] = Needle(False, holds(by_assistant, value))
    _label(case, texts)
    kept = plain("\n".join(said(m) for i, m in enumerate(past) if i not in old))
    case.failures = {line for text in texts for line in failure_lines(text) if line not in kept}


def _joined(messages: Iterator[Mapping[str, Any]]) -> str:
    return plain("\n".join(text_of(message) for message in messages))


def _row(row: str) -> str:
    return plain(_LINE_NUMBER.sub("", row))


def _is_line(row: str) -> bool:
    return len(row) >= 16 and len(row.split()) >= 3


def _label(case: Case, texts: list[str]) -> None:
    for text in texts:
        for value, labels in _labels(text).items():
            if value in case.needles:
                case.labels.setdefault(value, set()).update(labels)


def _values(text: str) -> dict[str, None]:
    """The different values of a text, plain."""
    found = {
        plain(value): None
        for pattern in _VALUES
        for match in pattern.finditer(text)
        if len(value := match[0].rstrip(".,;:")) >= 3
    }
    for _, leaf in _leaves(_parsed(text), ()):
        if isinstance(leaf, str) and 4 <= len(leaf) <= 80:
            found[plain(leaf)] = None
        elif isinstance(leaf, (int, float)) and not isinstance(leaf, bool) and len(str(leaf)) >= 3:
            found[plain(str(leaf))] = None
    return {value: None for value in found if value not in _NO_VALUE}


def _labels(text: str) -> dict[str, set[str]]:
    """The label of each value: its key in JSON, else the word before it on its line."""
    found: dict[str, set[str]] = {}
    value = _parsed(text)
    if value is None:
        for row in text.split("\n"):
            low = plain(row)
            for item in _values(row):
                words = re.findall(r"[a-z]{3,}", low[: max(0, low.find(item))])
                if words:
                    found.setdefault(item, set()).add(words[-1])
        return found
    for path, leaf in _leaves(value, ()):
        keys = [key for part in path for key in re.split(r"[.\[\]]+", part) if key and not key.isdigit()]
        if leaf is None or isinstance(leaf, bool):
            continue
        if keys:
            for item in {plain(str(leaf)), *_values(str(leaf))}:
                found.setdefault(item, set()).add(plain(keys[-1]))
        for outer, inner in pairwise(keys):
            found.setdefault(plain(inner), set()).add(plain(outer))
    return found


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _leaves(value: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Each leaf with the keys that lead to it."""
    waiting = [(path, value)]
    while waiting:
        path, value = waiting.pop()
        if is_object(value):
            waiting += [((*path, str(key)), item) for key, item in value.items()]
        elif is_array(value):
            waiting += [(path, item) for item in value]
        else:
            yield path, value
