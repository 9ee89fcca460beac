"""Text in a shorter form that holds the same lines.

A line that begins with `@` and a number is a mark: `@3= line` stands for three such lines, and after
`@4: prefix` the next four lines begin with that prefix. After `@30# 120` the next thirty lines are
numbered from 120 on; every tenth of these numbers still stands in its line.

Kept is each line but for colour codes of terminals and white space at its end.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from os.path import commonprefix
from typing import Final

TENTH: Final = 10  # every line whose number is a multiple of it keeps that number
_MARK: Final = re.compile(r"^@\d", re.MULTILINE)
_COLOUR: Final = re.compile(r"\x1b\[[\d;]*m")
_NUMBERED: Final = re.compile(r"( {0,8})(\d{1,7})(?!\d)")
_LEAST_NUMBERED: Final = 6  # lines
_PIECE: Final = re.compile(r"[^\W\d_]+|\d{1,3}|[^\w\s]+")
_LEAST_PIECES: Final = 3  # a shorter prefix is not worth a mark
_MARK_PIECES: Final = 4  # what a mark costs
_LOOK_AHEAD: Final = 2  # lines that a prefix may cost before it pays
_BORDER: Final = re.compile(r".*[\s/:,|=(\[-]", re.DOTALL)


def condense_lines(text: str) -> str | None:
    """The shorter form of a text; None for one that holds lines like our marks."""
    plain = shown_lines(text)
    if _MARK.search(plain):
        return None
    return "\n".join(_numbered(plain.split("\n")))


def shown_lines(text: str) -> str:
    """The text without colour codes and white space at the ends of lines: what is kept of it."""
    return "\n".join(line.rstrip() for line in _COLOUR.sub("", text).split("\n"))


def _numbered(lines: Sequence[str]) -> Iterator[str]:
    """Runs of numbered lines under one mark, the lines between them grouped."""
    start = place = 0
    while place < len(lines):
        end = _numbers_end(lines, place)
        if end - place < _LEAST_NUMBERED:
            place += 1
            continue
        yield from _repeated(lines[start:place])
        yield from _under_number(lines[place:end])
        start = place = end
    yield from _repeated(lines[start:])


def _numbers_end(lines: Sequence[str], start: int) -> int:
    first = _NUMBERED.match(lines[start])
    if first is None or first[2][0] == "0":
        return start
    number, end = int(first[2]), start
    width = len(first[0])
    while end < len(lines) and lines[end].startswith(f"{number:>{width}}" if first[1] else str(number)):
        match = _NUMBERED.match(lines[end])
        if match is None or match[2] != str(number):
            break
        number, end = number + 1, end + 1
    return end


def _under_number(lines: Sequence[str]) -> Iterator[str]:
    first = _NUMBERED.match(lines[0])
    assert first is not None
    yield f"@{len(lines)}#{first[0]}"
    for number, line in enumerate(lines, int(first[2])):
        match = _NUMBERED.match(line)
        assert match is not None
        yield line if number % TENTH == 0 else line[match.end() :]


def _repeated(lines: Sequence[str]) -> Iterator[str]:
    """Runs of one line as that line with a count, the lines between them grouped by their beginnings."""
    start = place = 0
    while place < len(lines):
        end = place + 1
        while end < len(lines) and lines[end] == lines[place]:
            end += 1
        if (end - place - 1) * (len(lines[place]) + 1) > _MARK_PIECES:
            yield from _grouped(lines[start:place])
            yield f"@{end - place}= {lines[place]}".rstrip()
            start = end
        place = end
    yield from _grouped(lines[start:])


def _grouped(lines: Sequence[str]) -> Iterator[str]:
    place = 0
    while place < len(lines):
        prefix, count = _group(lines, place)
        if count > 1:
            yield f"@{count}: {prefix}"
            yield from (line[len(prefix) :] for line in lines[place : place + count])
        else:
            yield lines[place]
        place += count


def _group(lines: Sequence[str], start: int) -> tuple[str, int]:
    """The prefix that spares most from a line on, and how many lines begin with it."""
    best, gain = ("", 1), 0
    prefix, pieces = lines[start], -1
    for end in range(start + 1, len(lines)):
        if pieces < 0 or not lines[end].startswith(prefix):
            prefix = _cut(commonprefix([prefix, lines[end]]))  # noqa: RUF071 # why: by characters is what is meant
            pieces = len(_PIECE.findall(prefix))
        spared = (end - start) * pieces - _MARK_PIECES
        if pieces < _LEAST_PIECES or (spared < gain and end - start > _LOOK_AHEAD):
            break
        if spared > gain:
            best, gain = (prefix, end - start + 1), spared
    return best


def _cut(prefix: str) -> str:
    """A prefix up to the last place where a word ends."""
    border = _BORDER.match(prefix)
    return border[0] if border else ""
