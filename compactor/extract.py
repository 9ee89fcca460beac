"""extract(text): a shortened tool result without a model; the same text always gives the same lines.

Kept by worth until the token budget is full: error lines, the first and last lines, lines with a
labelled value, lines with identifiers. JSON is read as `path = value` lines, repeated lines are
folded with a count, and every gap says how many lines it hides.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Final

import orjson

from compactor.json_values import is_array, is_object
from compactor.tokens import Encode, count_text, json_text
from compactor.wording import Wording

MAX_LINE: Final = 240  # characters of one line
MAX_PATH: Final = 120  # characters of a JSON value's path; of a longer one the end is shown
MAX_LINES: Final = 20_000  # lines looked at; the rest counts as one gap before the last lines
_EDGE: Final = 2  # lines at the beginning and at the end
_FAILURE: Final = 100  # worth of a line that tells of one
_AT_THE_EDGE: Final = 60
_SMALLEST_PART: Final = 16  # tokens
_LEAST: Final = 4  # tokens

_ERROR: Final = re.compile(
    r"(?i)\b(?:error|exception|traceback|failed|failure|fatal|panic|denied|refused|not found|timed? ?out)\b"
    r"|错误|失败|异常|拒绝"
)
_LABELLED: Final = re.compile(r"^\s*[\w.\[\]\"'/ -]{1,60}\s*(?:=|:|：)\s*\S")
_WORD: Final = re.compile(r"[\w./:@+$€£¥-]{3,}")
_DIGITS: Final = re.compile(r"\d")
_LETTER: Final = re.compile(r"[A-Za-z]")


@dataclass(frozen=True, slots=True)
class _Line:
    """One line, or several alike; `order` is the place of the first in the text."""

    text: str
    order: int
    worth: int = 0
    count: int = 1

    def shown(self, wording: Wording) -> str:
        return self.text if self.count == 1 else wording.lines_repeated.format(line=self.text, count=self.count)


def extract(text: str, *, budget: int, encode: Encode, wording: Wording) -> str:
    """Lines of `text` worth at most `budget` tokens; never empty for a text that has any line."""
    rows = _rows(text)
    lines = _worth(_fold(rows))
    if not lines:
        return ""
    unread = len(rows) - sum(line.count for line in lines)
    chosen = _choose(lines, budget, wording)
    while chosen:
        body = _join(chosen, lines, unread, wording)
        if count_text(body, encode) <= budget:
            return body
        chosen = chosen[: len(chosen) * 9 // 10]
    best = max(lines, key=lambda item: (item.worth, -item.order))
    return _cut(best.text.strip(), budget, encode)


def _choose(lines: Sequence[_Line], budget: int, wording: Wording) -> list[_Line]:
    """The worthiest lines that fit; a failure too long to fit is kept in part."""
    chosen: list[_Line] = []
    left = budget
    for line in sorted(lines, key=lambda item: (-item.worth, item.order)):
        kept, cost = line, _cost(line.shown(wording))
        if cost > left and line.worth >= _FAILURE and left >= _SMALLEST_PART:
            kept = replace(line, text=line.text[: max(1, len(line.text) * left // cost - 1)] + "…", count=1)
            cost = left
        if cost <= left:
            chosen.append(kept)
            left -= cost
        if left < _LEAST:
            break
    return chosen


def head_and_tail(text: str, *, chars: int, mark: str) -> str:
    """The first and last characters of a text around a mark, `chars` in all; surrogates stay whole."""
    head, tail = chars - chars // 2, chars // 2
    return f"{text[:head]}\n{mark}\n{text[len(text) - tail :] if tail else ''}".rstrip("\n")


def _rows(text: str) -> list[str]:
    """The lines that hold anything; JSON as `path = value` lines."""
    value = _json(text)
    rows = text.splitlines()
    if is_object(value) or is_array(value):
        with suppress(RecursionError):  # nested about as deep as Python goes: its own lines serve
            rows = list(_flatten(value))
    return [row.strip() if len(row) > MAX_LINE else row.rstrip() for row in rows if row.strip()]


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
            yield from _flatten(item, f"{path[-MAX_PATH:]}.{key}" if path else str(key))
    elif is_array(value) and any((is_object(item) or is_array(item)) for item in value):
        for order, item in enumerate(value):
            yield from _flatten(item, f"{path[-MAX_PATH:]}[{order}]")
    else:
        yield f"{path} = {value if isinstance(value, str) else json_text(value)}" if path else json_text(value)


def _fold(rows: Sequence[str]) -> list[_Line]:
    """Repeated lines once, at their first place, with a count; of a very long text the beginning and the end."""
    found: dict[str, _Line] = {}
    for order, row in enumerate(rows):
        if MAX_LINES <= order < len(rows) - _EDGE:
            continue
        text = _short(row)
        known = found.get(text)
        found[text] = replace(known, count=known.count + 1) if known else _Line(text, order)
    return list(found.values())


def _worth(lines: Sequence[_Line]) -> list[_Line]:
    last = len(lines) - _EDGE
    return [
        replace(line, worth=_score(line.text) + (_AT_THE_EDGE if place < _EDGE or place >= last else 0))
        for place, line in enumerate(lines)
    ]


def _score(line: str) -> int:
    score = _FAILURE if _ERROR.search(line) else 0
    score += 30 if _LABELLED.search(line) else 0
    return score + min(30, 10 * sum(map(_is_identifier, _WORD.findall(line))))


def _is_identifier(word: str) -> bool:
    """An address, a path, an amount, a date, a number of three digits, or letters mixed with digits."""
    if "@" in word or word.count("/") > 1:
        return True
    digits = len(_DIGITS.findall(word))
    return digits >= 3 or (digits > 0 and len(word) >= 4 and _LETTER.search(word) is not None)


def _cost(line: str) -> int:
    """Tokens of a line, guessed from its characters: about 3.2 to a token, wide ones 1.2."""
    wide = 0 if line.isascii() else sum(1 for char in line if char > "\u2e80")
    return int((len(line) - wide) / 3.2 + wide / 1.2) + 2


def _join(chosen: Sequence[_Line], lines: Sequence[_Line], unread: int, wording: Wording) -> str:
    """The chosen lines in order; every gap says how many lines of the text it hides."""
    kept = {line.order: line for line in chosen}
    out: list[str] = []
    hidden = 0
    for line in lines:
        if line.order >= MAX_LINES:
            hidden, unread = hidden + unread, 0
        if line.order not in kept:
            hidden += line.count
            continue
        if hidden:
            out.append(wording.lines_skipped.format(count=hidden))
            hidden = 0
        out.append(kept[line.order].shown(wording))
    if hidden + unread:
        out.append(wording.lines_skipped.format(count=hidden + unread))
    return "\n".join(out)


def _cut(line: str, budget: int, encode: Encode) -> str:
    chars = max(1, budget)
    while chars > 1 and count_text(line[:chars], encode) > budget:
        chars //= 2
    return line[:chars]
