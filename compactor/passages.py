"""A tool result read into passages: the smallest pieces worth showing alone, each with its label.

JSON gives one passage per value under its key, grouped by record. Other text gives short lines whole,
and of long ones the values with the word before them. Orders to the reader that stand in a text give
none: they are no data.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

import orjson

from compactor.json_values import is_array, is_object
from compactor.orders import STEMS, is_order, order_stems
from compactor.tokens import json_text
from compactor.worth import CHUNK, Sort, values_of, values_of_word

MAX_LINE: Final = 240  # characters of one line
MAX_LINES: Final = 20_000  # lines looked at; the rest counts as hidden
ERROR: Final = re.compile(
    r"(?i)\b(?:error|exception|traceback|failed|failure|fatal|panic|denied|refused|not found|no such|timed? ?out)\b"
    r"|[a-z](?:Error|Exception)\b|错误|失败|异常|拒绝"
)
# One of them stands in whatever ERROR finds; looking for them is many times faster.
_STEMS: Final = (
    "error", "exception", "traceback", "fail", "fatal", "panic", "denied", "refused", "not found", "no such", "time",
    "错误", "失败", "异常", "拒绝",
)  # fmt: skip
_PIECE: Final = re.compile(r"[A-Za-z]{1,8}|\d{1,3}|[^\s\w]{1,3}|_|[^\x00-\x7f]")
_LABEL: Final = re.compile(r"[A-Za-z\u4e00-\u9fff]{2,}[\"']?[^\w]{0,4}$")
_CODE_KEY: Final = re.compile(r"\S*\d{3,}\S*")
_NUMBERED: Final = re.compile(r"^\s*(\d+)(?:\t|[:-](?=\s|$)|\|)\s?")
_NUMBERED_SHARE: Final = 0.6  # of the lines, for a file shown with the numbers of its lines
_CODE_LINE: Final = re.compile(
    r"(?:raise|except|def|class|import|from|if|elif|else|return|assert|try|catch|throw|for|while|with|self\.|@|#|//|\*|<)"
    r"(?![\w-]*:? *\d)(?:\W|$)"
)
_DENSE: Final = 1.0  # of a line's tokens; when its values take more, it is shown whole
_WHOLE: Final = 10  # tokens of a line that is shown whole
_EDGE_CHARS: Final = 120  # of the first and the last line
_NEAR: Final = 6  # characters between two values that are shown together
_TOGETHER: Final = 40  # characters of such a group
_LABEL_CHARS: Final = 24
_LONGEST_KEY: Final = 80
FAILURE: Final = 3.0  # worth of telling of a failure
EDGE: Final = 0.3  # of the first and the last line
_PLAIN: Final = 0.002  # worth of a line without any value, for what room is left


@dataclass(slots=True)
class Passage:
    """A piece of a text: `group` is its line or record, `head` what a record is called, `cost` guessed tokens."""

    place: int
    group: int
    text: str
    cost: int
    values: dict[str, Sort]
    bonus: float = 0.0
    head: str = ""
    key: str = ""
    count: int = 1
    is_part: bool = False
    is_edge: bool = False


@dataclass(slots=True)
class Read:
    """The passages of a text, how many lines it has, and whether it is JSON."""

    passages: list[Passage] = field(default_factory=list[Passage])
    lines: int = 0
    is_json: bool = False


def read(text: str) -> Read:
    """The passages of a text."""
    value = _json(text)
    if is_object(value) or is_array(value):
        with suppress(RecursionError):  # nested about as deep as Python goes: its own lines serve
            return Read(list(_of_json(value)), 0, True)
    rows = _rows(text)
    return Read(list(_of_rows(rows, stems=order_stems("\n".join(rows)))), len(rows))


def cost_of(text: str) -> int:
    """Tokens of a text, guessed from its runs of letters, digits and signs."""
    return len(_PIECE.findall(text))


def _json(text: str) -> Any:
    if text.lstrip()[:1] not in ("{", "["):
        return None
    try:
        return orjson.loads(text.encode("utf-8", "replace"))
    except ValueError:
        return None


def _of_json(value: Any) -> Iterator[Passage]:
    groups: dict[str, int] = {}
    for place, (path, head, key, leaf) in enumerate(_leaves(value, "", "", "")):
        if leaf is None or leaf is False or leaf in ("", [], {}):
            continue
        shown = " ".join((leaf if isinstance(leaf, str) else json_text(leaf)).split())
        group = groups.setdefault(path, len(groups))
        if len(shown) > MAX_LINE:
            rows = _rows(leaf if isinstance(leaf, str) else shown)
            for inner in _of_rows(rows, stems=STEMS):
                inner.place, inner.group, inner.head, inner.key, inner.is_part = place, group, head, key, True
                yield inner
        elif not is_order(shown, excused=ERROR):
            yield _leaf(place, group, head, key, shown, is_word=not isinstance(leaf, bool))


def _leaf(place: int, group: int, head: str, key: str, shown: str, *, is_word: bool) -> Passage:
    values = values_of(f"{key} {shown}")
    plain = shown.lower()
    if is_word and len(plain) > 2:
        values.setdefault(plain, Sort.PHRASE if " " in plain else Sort.WORD)
    failed = "error" in key.lower() or _tells_of_failure(shown)
    return Passage(place, group, shown, cost_of(shown) + 1, values, FAILURE if failed else _PLAIN, head, key)


def _leaves(value: Any, path: str, head: str, key: str, inside: bool = False) -> Iterator[tuple[str, str, str, Any]]:
    """Each leaf with its record, what the record is called, and its key.

    Objects in a list are records, and what they hold belongs to them; so are objects under keys that
    are codes.
    """
    if is_object(value):
        named = (head if inside or not key else f"{head}.{key}".lstrip("."))[-_LONGEST_KEY:]
        place = path if inside else named
        for name, item in value.items():
            if is_object(item) and item and _CODE_KEY.fullmatch(str(name)):
                if str(name) not in map(str, item.values()):
                    yield f"{place}[{name}]", named, "", str(name)
                yield from _leaves(item, f"{place}[{name}]"[-160:], named, "", True)
            else:
                yield from _leaves(item, place, named, str(name), inside)
    elif is_array(value):
        for order, item in enumerate(value):
            if is_object(item) or is_array(item):
                listed = f"{head}.{key}".strip(".")[-_LONGEST_KEY:]
                yield from _leaves(item, f"{path}.{key}[{order}]"[-160:], listed, "", True)
            else:
                yield path, head, key, item
    elif isinstance(value, str) and (inner := _json(value)) is not None:
        yield from _leaves(inner, path, head, key, inside)
    else:
        yield path, head, key, value


def _rows(text: str) -> list[str]:
    """The lines that hold anything, without their indents; a line end that is written out ends one too."""
    if text.count("\\n") > 2 * text.count("\n") + 2:
        text = text.replace("\\n", "\n")
    return [shown for row in text.splitlines() if (shown := row.strip())]


def _of_rows(rows: Sequence[str], *, stems: Sequence[str]) -> Iterator[Passage]:
    numbered = sum(1 for row in rows if _NUMBERED.match(row)) > _NUMBERED_SHARE * len(rows)
    seen: dict[str, Passage] = {}
    last = len(rows) - 1
    for order, row in enumerate(rows):
        if MAX_LINES <= order < last or (stems and is_order(row, stems, excused=ERROR)):
            continue
        match = _NUMBERED.match(row) if numbered else None
        number, text = (match[1], row[match.end() :]) if match else ("", row)
        text = " ".join(text.split())
        for passage in _of_row(text, order, is_edge=order in (0, last), seen=seen):
            if number:
                _number(passage, number)
            yield passage


def _of_row(text: str, order: int, *, is_edge: bool, seen: dict[str, Passage]) -> Iterator[Passage]:
    failed = _tells_of_failure(text)
    cost = cost_of(text[: 4 * MAX_LINE])
    found = [] if cost <= _WHOLE else list(_snippets(text, order))
    is_whole = cost <= _WHOLE or (len(text) <= MAX_LINE and sum(item.cost for item in found) >= _DENSE * cost)
    if failed or is_edge or is_whole:
        shown = _clipped(text, MAX_LINE if failed or is_whole else _EDGE_CHARS)
        known = seen.get(shown)
        if known is not None:
            known.count += 1
            return
        bonus = _PLAIN + (FAILURE if failed else 0.0) + (EDGE if is_edge else 0.0)
        seen[shown] = Passage(order << 20, order, shown, cost_of(shown) + 1, values_of(shown), bonus, is_edge=is_edge)
        yield seen[shown]
        if shown == text:
            return
    if not found and text:
        shown = _clipped(text, MAX_LINE)
        found = [Passage(order << 20, order, shown, cost_of(shown) + 1, {}, _PLAIN)]
    yield from found


def _tells_of_failure(text: str) -> bool:
    """Whether a line tells of a failure; a line of code that deals with one does not."""
    low = text.lower()
    return any(map(low.__contains__, _STEMS)) and ERROR.search(text) is not None and not _CODE_LINE.match(text)


def _number(passage: Passage, number: str) -> None:
    """Puts the number of a file's line before what is shown of it, so that it can be read again from there."""
    passage.text = f"{number} {passage.text}"
    passage.cost += 2
    if len(number) > 2:
        passage.values[number] = Sort.LINE


def _clipped(text: str, chars: int) -> str:
    return text if len(text) <= chars else f"{text[: chars * 2 // 3]} … {text[-(chars // 3) :]}"


def _snippets(row: str, order: int) -> Iterator[Passage]:
    """The values of a line, near ones together, each with the word before it."""
    start = end = -1
    values: dict[str, Sort] = {}
    for match in CHUNK.finditer(row):
        found = values_of_word(match[0])
        if not found:
            continue
        if start >= 0 and match.start() - end <= _NEAR and end - start < _TOGETHER:
            end = match.end()
            values.update(found)
            continue
        if start >= 0:
            yield _snippet(row[start:end], order, start, values)
        label = _LABEL.search(row, max(0, end, match.start() - _LABEL_CHARS), match.start())
        start, end, values = label.start() if label else match.start(), match.end(), dict(found)
    if start >= 0:
        yield _snippet(row[start:end], order, start, values)


def _snippet(text: str, order: int, start: int, values: dict[str, Sort]) -> Passage:
    text = _clipped(text, MAX_LINE)
    return Passage((order << 20) + start, order, text, cost_of(text) + 1, values)
