"""The lines of a text as passages: the smallest pieces worth showing alone, each with its label.

Short lines are shown whole, and of long ones the values with the word before them. Orders to the
reader that stand in a text give none: they are no data.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import accumulate, chain
from typing import Final, NamedTuple

from compactor.orders import STEMS, is_order, is_sentence
from compactor.worth import CHUNK, Sort, Values, values_of, values_of_word

MAX_LINE: Final = 240  # characters of one line
MAX_LINES: Final = 20_000  # lines looked at; the rest counts as hidden
ERROR: Final = re.compile(
    r"(?i)\b(?:error|exception|traceback|failed|failure|fatal|panic|denied|refused|not found|no such|timed? ?out)\b"
    r"|[a-z](?:Error|Exception)\b|错误|失败|异常|拒绝"
)
# One of them stands in whatever ERROR finds; looking for them is many times faster.
_FAILURE_STEMS: Final = {
    **dict.fromkeys(("error", "exception", "traceback", "fatal", "panic", "denied", "refused")),
    "fail": ("failed", "failure"), "not found": None, "no such": None,
    "time": ("timeout", "timedout", "time out", "timed out"), "错误": None, "失败": None, "异常": None, "拒绝": None,
}  # fmt: skip
_PIECE: Final = re.compile(r"[A-Za-z]{1,8}|\d{1,3}|[^\s\w]{1,3}|_|[^\x00-\x7f]")
_LABEL_BACKWARDS: Final = re.compile(r"[^\w]{0,4}[\"']?[A-Za-z\u4e00-\u9fff]{2,}")
_NUMBERED: Final = re.compile(r"^\s*(\d+)(?:\t|[:-](?=\s|$)|\|)\s?")
_NUMBERED_SHARE: Final = 0.6  # of the lines, for a file shown with the numbers of its lines
_CODE_LINE: Final = re.compile(
    r"(?:raise|except|def|class|import|from|if|elif|else|return|assert|try|catch|throw|for|while|with|self\.|@|#|//|\*|<)"
    r"(?![\w-]*:? *\d)(?:\W|$)"
)
_BESIDE: Final = 4  # characters that a piece costs beside its own; when pieces take more, the line is shown whole
_WHOLE: Final = 32  # characters of a line that is shown whole
_EDGE_CHARS: Final = 120  # of the first and the last line
_NEAR: Final = 6  # characters between two values that are shown together
_TOGETHER: Final = 40  # characters of such a group
_LABEL_CHARS: Final = 24
_ROWS: Final = 10_000  # remembered: agents read the same files again
FAILURE: Final = 3.0  # worth of telling of a failure
EDGE: Final = 0.3  # of the first and the last line
PLAIN: Final = 0.002  # worth of a line without any value, for what room is left


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
    """The passages of a text, how many lines it has, and whether it is JSON.

    `plain`: lines without any value, with their place and how often they occur; passages on demand, as
    they are many and seldom shown.
    """

    passages: list[Passage] = field(default_factory=list[Passage])
    lines: int = 0
    is_json: bool = False
    plain: dict[str, list[int]] = field(default_factory=dict[str, list[int]])

    def with_plain(self) -> int:
        """Makes passages of the plain lines; returns how many passages there were before."""
        before = len(self.passages)
        for text, (order, count) in self.plain.items():
            shown = _clipped(text, MAX_LINE)
            cost = len(shown) // 4 + 2 if shown.isascii() else cost_of(shown) + 1
            self.passages.append(Passage(order << 20, order, shown, cost, {}, PLAIN, count=count))
        self.plain = {}
        return before


def cost_of(text: str) -> int:
    """Tokens of a text, guessed from its runs of letters, digits and signs."""
    return len(_PIECE.findall(text))


def tells_of_failure(text: str) -> bool:
    """`is_failure`, after a quick look for words."""
    low = text.lower()
    return any(map(low.__contains__, _FAILURE_STEMS)) and is_failure(text)


def is_failure(line: str) -> bool:
    """Whether a line tells of a failure; a line of code that deals with one does not."""
    return ERROR.search(line) is not None and not _CODE_LINE.match(line)


def lines_with(lines: Sequence[str], *groups: Mapping[str, Sequence[str] | None]) -> list[set[int]]:
    """Which lines hold one of a group's words, for each group.

    A group has words in lower case, and for some of them the longer ones that are meant. Each is looked
    for in all lines at once.
    """
    low = "\n".join(lines).lower()
    starts: list[int] = []
    found: list[set[int]] = []
    for stems in groups:
        holding: set[int] = set()
        for stem in chain.from_iterable([stems[word] or (word,) for word in stems if word in low]):
            at = low.find(stem)
            while at >= 0:
                starts = starts or list(accumulate((len(line) + 1 for line in low.split("\n")), initial=0))
                line = bisect_right(starts, at) - 1
                holding.add(line)
                at = low.find(stem, starts[line + 1])
        found.append(holding)
    return found


def rows_of(text: str) -> list[str]:
    """The lines that hold anything, without their indents; a line end that is written out ends one too."""
    if text.count("\\n") > 2 * text.count("\n") + 2:
        text = text.replace("\\n", "\n")
    return [shown for row in text.splitlines() if (shown := row.strip())]


def read_rows(rows: Sequence[str]) -> Read:
    """The passages of a text's lines."""
    looked_at = rows if len(rows) <= MAX_LINES else [*rows[:MAX_LINES], rows[-1]]
    speaking, failing = lines_with(looked_at, STEMS, _FAILURE_STEMS)
    numbered = [1 for row in rows if row[0].isdigit() and _NUMBERED.match(row)]
    is_numbered = len(numbered) > _NUMBERED_SHARE * len(rows)
    reader = _RowReader(len(rows) - 1)
    for order, row in enumerate(looked_at):
        if order in speaking and is_order(row, excused=ERROR):
            continue
        match = _NUMBERED.match(row) if is_numbered else None
        text = row if match is None else row[match.end() :]
        number = "" if match is None else match[1]
        text = " ".join(text.split())
        failed = order in failing and is_failure(text)
        reader.read(text, order if order < MAX_LINES else len(rows) - 1, number, failed=failed)
    return Read(reader.passages, len(rows), plain=reader.plain)


class _Piece(NamedTuple):
    """Values of a line that are shown together, where they begin, and their guessed tokens."""

    start: int
    text: str
    cost: int
    values: dict[str, Sort]


class _Row(NamedTuple):
    """What a line says: its values where it is worth showing whole, else its pieces; neither for a plain one."""

    cost: int = 0
    values: dict[str, Sort] = {}  # noqa: RUF012 # why: never changed
    pieces: tuple[_Piece, ...] = ()


class _RowReader:
    """Reads the lines of one text, one after the other; equal ones that are shown whole are one passage."""

    def __init__(self, last: int) -> None:
        self.passages: list[Passage] = []
        self.plain: dict[str, list[int]] = {}
        self._edges = (0, last)
        self._seen: dict[str, Passage] = {}

    def read(self, text: str, order: int, number: str, *, failed: bool) -> None:
        """Adds the passages of one line; `number` is the one that a file's line stands under."""
        known = self._seen.get(text)
        if known is not None and not number:
            known.count += 1
            return
        first = len(self.passages)
        row = known_row(text) if len(text) <= 2 * MAX_LINE else _row(text)
        if failed or (order in self._edges and not is_sentence(text)):
            self._telling(text, row, order, failed=failed)
        elif row.pieces:
            self._apart(row.pieces, order)
        elif row.values:
            self._whole(Passage(order << 20, order, text, row.cost, row.values))
        elif text and number:
            shown = _clipped(text, MAX_LINE)
            self.passages.append(Passage(order << 20, order, shown, cost_of(shown) + 1, {}, PLAIN))
        elif text:
            self.plain.setdefault(text, [order, 0])[1] += 1
        if number:
            self._seen.clear()
            for passage in self.passages[first:]:
                _number(passage, number)

    def _apart(self, pieces: Iterable[_Piece], order: int) -> None:
        place = order << 20
        self.passages += [Passage(place + start, order, text, cost, values) for start, text, cost, values in pieces]

    def _telling(self, text: str, row: _Row, order: int, *, failed: bool) -> None:
        """A line that tells of a failure, the first or the last."""
        is_edge = order in self._edges
        shown = _clipped(text, MAX_LINE if failed or not row.pieces else _EDGE_CHARS)
        bonus = PLAIN + (FAILURE if failed else 0.0) + (EDGE if is_edge else 0.0)
        self._whole(Passage(order << 20, order, shown, cost_of(shown) + 1, values_of(shown), bonus, is_edge=is_edge))
        if shown != text:
            self._apart(row.pieces, order)

    def _whole(self, passage: Passage) -> None:
        known = self._seen.get(passage.text)
        if known is not None:
            known.count += 1
            return
        self._seen[passage.text] = passage
        self.passages.append(passage)


def _number(passage: Passage, number: str) -> None:
    """Puts the number of a file's line before what is shown of it, so that it can be read again from there."""
    passage.text = f"{number} {passage.text}"
    passage.cost += 2
    if len(number) > 2:
        passage.values = passage.values | {number: Sort.ROUND_LINE if number[-1] == "0" else Sort.LINE}


def _clipped(text: str, chars: int) -> str:
    return text if len(text) <= chars else f"{text[: chars * 2 // 3]} … {text[-(chars // 3) :]}"


def _row(text: str) -> _Row:
    words = CHUNK.findall(text)
    told = [pair for pair in zip(words, map(values_of_word, words), strict=True) if pair[1]]
    if not told:
        return _PLAIN_ROW
    if len(text) > _WHOLE:
        pieces = tuple(_pieces(text, told))
        if len(text) > MAX_LINE or sum(len(piece.text) + _BESIDE for piece in pieces) < len(text):
            return _Row(pieces=pieces)
    return _Row(cost_of(text) + 1, dict(chain.from_iterable(values for _, values in told)))


_PLAIN_ROW: Final = _Row()
known_row: Final = lru_cache(maxsize=_ROWS)(_row)


def _pieces(row: str, words: Sequence[tuple[str, Values]]) -> Iterator[_Piece]:
    """The values of a line, near ones together, each with the word before it."""
    start = end = -1
    values: dict[str, Sort] = {}
    at = 0
    for word, found in words:
        begin = row.find(word, at)
        at = begin + len(word)
        if start >= 0:
            if begin - end <= _NEAR and end - start < _TOGETHER:
                end = at
                values.update(found)
                continue
            yield _piece(row[start:end], start, values)
        label = _LABEL_BACKWARDS.match(row[max(0, end, begin - _LABEL_CHARS) : begin][::-1])
        start, end, values = begin - label.end() if label else begin, at, dict(found)
    yield _piece(row[start:end], start, values)


def _piece(text: str, start: int, values: dict[str, Sort]) -> _Piece:
    text = _clipped(text, MAX_LINE)
    return _Piece(start, text, cost_of(text) + 1, values)
