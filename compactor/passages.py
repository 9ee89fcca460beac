"""The lines of a text as passages: the smallest pieces worth showing alone, each with its label.

Orders to the reader that stand in a text give none: they are no data.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from compactor.orders import is_sentence
from compactor.rows import MAX_LINE, Piece, Row, clipped, cost_of, row_of
from compactor.words import values_of
from compactor.worth import Sort

MAX_LINES: Final = 20_000  # lines looked at; the rest counts as hidden
_NUMBERED: Final = re.compile(r"^\s*(\d+)(?:\t|[:-](?=\s|$)|\|)\s?")
_NUMBERED_SHARE: Final = 0.6  # of the lines, for a file shown with the numbers of its lines
_EDGE_CHARS: Final = 120  # of the first and the last line
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
            shown = clipped(text, MAX_LINE)
            cost = len(shown) // 4 + 2 if shown.isascii() else cost_of(shown) + 1
            self.passages.append(Passage(order << 20, order, shown, cost, {}, PLAIN, count=count))
        self.plain = {}
        return before


def rows_of(text: str) -> list[str]:
    """The lines that hold anything, without their indents; a line end that is written out ends one too."""
    if text.count("\\n") > 2 * text.count("\n") + 2:
        text = text.replace("\\n", "\n")
    return [shown for row in text.splitlines() if (shown := row.strip())]


def read_rows(rows: Sequence[str]) -> Read:
    """The passages of a text's lines."""
    looked_at = rows if len(rows) <= MAX_LINES else [*rows[:MAX_LINES], rows[-1]]
    numbered = [1 for row in rows if row[0].isdigit() and _NUMBERED.match(row)]
    is_numbered = len(numbered) > _NUMBERED_SHARE * len(rows)
    reader = _RowReader(len(rows) - 1)
    for order, row in enumerate(looked_at):
        match = _NUMBERED.match(row) if is_numbered else None
        line, number = (row, "") if match is None else (row[match.end() :], match[1])
        reader.read(line, order if order < MAX_LINES else len(rows) - 1, number)
    return Read(reader.passages, len(rows), plain=reader.plain)


class _RowReader:
    """Reads the lines of one text, one after the other; equal ones that are shown whole are one passage."""

    def __init__(self, last: int) -> None:
        self.passages: list[Passage] = []
        self.plain: dict[str, list[int]] = {}
        self._edges = (0, last)
        self._seen: dict[str, Passage] = {}

    def read(self, line: str, order: int, number: str) -> None:
        """Adds the passages of one line; `number` is the one that a file's line stands under."""
        row = row_of(line)
        text, is_order, failed, cost, values, pieces = row
        if is_order:
            return
        known = self._seen.get(text)
        if known is not None and not number:
            known.count += 1
            return
        first = len(self.passages)
        if failed or (order in self._edges and not is_sentence(text)):
            self._telling(row, order)
        elif pieces:
            self._apart(pieces, order)
        elif values:
            self._whole(Passage(order << 20, order, text, cost, values))
        elif text and number:
            shown = clipped(text, MAX_LINE)
            self.passages.append(Passage(order << 20, order, shown, cost_of(shown) + 1, {}, PLAIN))
        elif text:
            self.plain.setdefault(text, [order, 0])[1] += 1
        if number:
            self._seen.clear()
            for passage in self.passages[first:]:
                _number(passage, number)

    def _apart(self, pieces: Iterable[Piece], order: int) -> None:
        place = order << 20
        self.passages += [Passage(place + start, order, text, cost, values) for start, text, cost, values in pieces]

    def _telling(self, row: Row, order: int) -> None:
        """A line that tells of a failure, the first or the last."""
        is_edge = order in self._edges
        shown = clipped(row.text, MAX_LINE if row.failed or not row.pieces else _EDGE_CHARS)
        bonus = PLAIN + (FAILURE if row.failed else 0.0) + (EDGE if is_edge else 0.0)
        is_known = bool(row.values) and shown == row.text
        cost, values = (row.cost, row.values) if is_known else (cost_of(shown) + 1, values_of(shown))
        self._whole(Passage(order << 20, order, shown, cost, values, bonus, is_edge=is_edge))
        if shown != row.text:
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
