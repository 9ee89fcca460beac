"""extract(text): a shortened tool result without a model; the same text always gives the same lines.

Kept by worth until the token budget is full: error lines, the first and last lines, lines with a
labelled value, lines with identifiers. JSON is read as `path = value` lines, repeated lines are
folded with a count, and every gap says how many lines it hides.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import orjson

from compactor.json_values import is_array, is_object
from compactor.tokens import Encode, count_text, json_text
from compactor.wording import Wording

MAX_LINE: Final = 240  # characters of one line
MAX_LINES: Final = 20_000  # lines looked at; the rest counts as one gap before the last lines
_EDGE: Final = 2

_ERROR: Final = re.compile(
    r"(?i)\b(?:error|exception|traceback|failed|failure|fatal|panic|denied|refused|not found|timed? ?out)\b"
    r"|错误|失败|异常|拒绝"
)
_LABELLED: Final = re.compile(r"^\s*[\w.\[\]\"'/ -]{1,60}\s*(?:=|:|：)\s*\S")
_IDENTIFIER: Final = re.compile(
    r"https?://\S+|[\w.+-]+@[\w-]+\.\w+|(?:[\w.-]*/){2,}[\w.-]+|\b\d{4}-\d{2}-\d{2}\b|[$€£¥]\s?\d[\d,.]*"
    r"|\b(?=[\w-]*\d)(?=[\w-]*[A-Za-z])[\w-]{4,}\b|\b\d{3,}(?:\.\d+)?\b"
)


@dataclass(frozen=True, slots=True)
class _Line:
    text: str
    order: int
    worth: int


def extract(text: str, *, budget: int, encode: Encode, wording: Wording) -> str:
    """Lines of `text` worth at most `budget` tokens; never empty for a text that has any line."""
    lines = _worth(_fold(_lines(text), wording))
    if not lines:
        return ""
    chosen: list[_Line] = []
    left = budget
    for line in sorted(lines, key=lambda item: (-item.worth, item.order)):
        cost = _cost(line.text)
        if cost <= left:
            chosen.append(line)
            left -= cost
        if left < 4:
            break
    while chosen:
        body = _join(sorted(chosen, key=lambda item: item.order), len(lines), wording)
        if count_text(body, encode) <= budget:
            return body
        chosen = chosen[: len(chosen) * 9 // 10]
    return _cut(lines[0].text, budget, encode)


def head_and_tail(text: str, *, chars: int, mark: str) -> str:
    """The first and last characters of a text around a mark, `chars` in all; surrogates stay whole."""
    head, tail = chars - chars // 2, chars // 2
    return f"{text[:head]}\n{mark}\n{text[len(text) - tail :] if tail else ''}".rstrip("\n")


def _lines(text: str) -> list[str]:
    value = _json(text)
    rows = _flatten(value) if (is_object(value) or is_array(value)) else iter(text.splitlines())
    kept: list[str] = []
    tail: list[str] = []
    for row in rows:
        line = row.rstrip()
        if not line.strip():
            continue
        if len(kept) < MAX_LINES:
            kept.append(_short(line))
        else:
            tail = [*tail[-(_EDGE - 1) :], _short(line)]
    return kept + tail


def _short(line: str) -> str:
    return line if len(line) <= MAX_LINE else f"{line[: MAX_LINE * 2 // 3]} … {line[-(MAX_LINE // 3) :]}"


def _json(text: str) -> Any:
    if text.lstrip()[:1] not in ("{", "["):
        return None
    try:
        return orjson.loads(text.encode("utf-8", "replace"))
    except ValueError:
        return None


def _flatten(value: Any, path: str = "") -> Iterator[str]:
    if is_object(value) and value:
        for key, item in value.items():
            yield from _flatten(item, f"{path}.{key}" if path else str(key))
    elif is_array(value) and any((is_object(item) or is_array(item)) for item in value):
        for order, item in enumerate(value):
            yield from _flatten(item, f"{path}[{order}]")
    else:
        yield f"{path} = {value if isinstance(value, str) else json_text(value)}" if path else json_text(value)


def _fold(lines: list[str], wording: Wording) -> list[str]:
    """Repeated lines once, at their first place, with a count."""
    counts: dict[str, int] = {}
    for line in lines:
        counts[line] = counts.get(line, 0) + 1
    return [
        line if count == 1 else wording.lines_repeated.format(line=line, count=count) for line, count in counts.items()
    ]


def _worth(lines: list[str]) -> list[_Line]:
    last = len(lines) - _EDGE
    return [
        _Line(line, order, _score(line) + (60 if order < _EDGE or order >= last else 0))
        for order, line in enumerate(lines)
    ]


def _score(line: str) -> int:
    score = 100 if _ERROR.search(line) else 0
    score += 30 if _LABELLED.search(line) else 0
    return score + min(30, 10 * len(_IDENTIFIER.findall(line)))


def _cost(line: str) -> int:
    """Tokens of a line, guessed from its characters: about 3.2 to a token, wide ones 1.2."""
    wide = 0 if line.isascii() else sum(1 for char in line if char > "\u2e80")
    return int((len(line) - wide) / 3.2 + wide / 1.2) + 2


def _join(chosen: list[_Line], total: int, wording: Wording) -> str:
    out: list[str] = []
    expected = 0
    for line in chosen:
        if line.order > expected:
            out.append(wording.lines_skipped.format(count=line.order - expected))
        out.append(line.text)
        expected = line.order + 1
    if expected < total:
        out.append(wording.lines_skipped.format(count=total - expected))
    return "\n".join(out)


def _cut(line: str, budget: int, encode: Encode) -> str:
    chars = max(1, budget)
    while chars > 1 and count_text(line[:chars], encode) > budget:
        chars //= 2
    return line[:chars]
