"""A line of a text: what it says, read once a process, since agents read the same files again.

Short lines are shown whole, and of long ones the values with the word before them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from itertools import chain
from typing import Final, NamedTuple

from compactor.error_lines import ERROR, is_failure, may_be_failure
from compactor.orders import is_order, may_be_order
from compactor.words import CHUNK, Word, word_of
from compactor.worth import Sort

MAX_LINE: Final = 240  # characters of one line
_PIECE: Final = re.compile(r"[A-Za-z]{1,8}|\d{1,3}|[^\s\w]{1,3}|_|[^\x00-\x7f]")
_LABEL_BACKWARDS: Final = re.compile(r"[^\w]{0,4}[\"']?[A-Za-z\u4e00-\u9fff]{2,}")
_BESIDE: Final = 4  # characters that a piece costs beside its own; when pieces take more, the line is shown whole
_WHOLE: Final = 32  # characters of a line that is shown whole
_NEAR: Final = 6  # characters between two values that are shown together
_TOGETHER: Final = 40  # characters of such a group
_LABEL_CHARS: Final = 24
_TURNED: Final = re.compile("[\u0130\u212a]")  # letters that are of ASCII in lower case, and part words
_ROWS: Final = 10_000  # remembered

Told = Sequence[tuple[str, Word]]  # words of a line that say something


class Piece(NamedTuple):
    """Values of a line that are shown together, where they begin, and their guessed tokens."""

    start: int
    text: str
    cost: int
    values: dict[str, Sort]


class Row(NamedTuple):
    """What a line says: its values where it is worth showing whole, else its pieces; neither for a plain one.

    `text` has single spaces. Of an order nothing else is known.
    """

    text: str
    is_order: bool = False
    failed: bool = False
    cost: int = 0
    values: dict[str, Sort] = {}  # noqa: RUF012 # why: never changed
    pieces: tuple[Piece, ...] = ()


def row_of(line: str) -> Row:
    """What a line says."""
    return _known_row(line) if len(line) <= 2 * MAX_LINE else _row(line)


def cost_of(text: str) -> int:
    """Tokens of a text, guessed from its runs of letters, digits and signs."""
    return len(_PIECE.findall(text))


def clipped(text: str, chars: int) -> str:
    """The first two thirds and the last third of a text that is longer than `chars`."""
    return text if len(text) <= chars else f"{text[: chars * 2 // 3]} … {text[-(chars // 3) :]}"


def words_told(text: str) -> Told:
    """The words of a text that say something."""
    words = CHUNK.findall(text)
    return [(chunk, word) for chunk, word in zip(words, map(word_of, words), strict=True) if word is not None]


def order_and_failure(text: str, told: Told) -> tuple[bool, bool]:
    """Whether a line with single spaces is an order to its reader, and whether it tells of a failure."""
    if not text.isascii() and _TURNED.search(text):
        return is_order(text, excused=ERROR), is_failure(text)
    low = text.lower()
    marks = [word for _, word in told if word.is_mark]
    orders = {stem for word in marks for stem in word.orders}
    failures = {stem for word in marks for stem in word.failures}
    ordered = may_be_order(low, orders) and is_order(text, excused=ERROR)
    return ordered, may_be_failure(low, failures) and is_failure(text)


def _row(line: str) -> Row:
    text = " ".join(line.split())
    told = words_told(text)
    ordered, failed = order_and_failure(text, told)
    if ordered:
        return Row(text, True)
    told = [pair for pair in told if pair[1].values]
    if not told:
        return Row(text, failed=failed)
    if len(text) > _WHOLE:
        spans = _spans(text, told)
        if len(text) > MAX_LINE or sum([end - start + _BESIDE for start, end, _ in spans]) < len(text):
            return Row(text, failed=failed, pieces=tuple([_piece(text, *span) for span in spans]))
    values = dict(chain.from_iterable(word.values for _, word in told))
    return Row(text, False, failed, cost_of(text) + 1, values)


_known_row: Final = lru_cache(maxsize=_ROWS)(_row)
forget_rows: Final = _known_row.cache_clear


def _spans(row: str, told: Told) -> list[tuple[int, int, dict[str, Sort]]]:
    """Where values of a line stand, near ones together, each with the word before it; and these values."""
    spans: list[tuple[int, int, dict[str, Sort]]] = []
    start = end = -1
    values: dict[str, Sort] = {}
    at = 0
    for chunk, word in told:
        begin = row.find(chunk, at)
        at = begin + len(chunk)
        if start >= 0:
            if begin - end <= _NEAR and end - start < _TOGETHER:
                end = at
                values.update(word.values)
                continue
            spans.append((start, end, values))
        label = _LABEL_BACKWARDS.match(row[max(0, end, begin - _LABEL_CHARS) : begin][::-1])
        start, end, values = begin - label.end() if label else begin, at, dict(word.values)
    spans.append((start, end, values))
    return spans


def _piece(row: str, start: int, end: int, values: dict[str, Sort]) -> Piece:
    text = clipped(row[start:end], MAX_LINE)
    return Piece(start, text, cost_of(text) + 1, values)
