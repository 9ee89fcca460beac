"""The way back from a condensed text: written from the description of the form, not from the code that writes it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from compactor.json_values import is_array, is_object

_BLOCK = re.compile(r"@(\d+)(: | as text: )(.*)", re.DOTALL)
_ATOM = re.compile(r"-?\d[\d.eE+-]*|null|true|false|@\d+")
_WORDS: dict[str, Any] = {"null": None, "true": True, "false": False}
_MISSING = object()


@dataclass(frozen=True)
class Spelled:
    """A number as it is spelled."""

    text: str


@dataclass(frozen=True)
class Nested:
    """A string that itself holds JSON, by its value."""

    value: Any


@dataclass
class _Column:
    path: tuple[str, ...]
    text: bool = False
    same: str | None = None


@dataclass
class _Block:
    kind: str
    head: str
    lines: list[str] = field(default_factory=list[str])


def source_value(text: str) -> Any:
    """What the original JSON holds: spelled numbers, nested JSON by its value. Raises ValueError."""
    return _nested(_loads(text))


def _loads(text: str) -> Any:
    return json.loads(text, parse_float=Spelled, parse_int=Spelled, parse_constant=_refused, object_pairs_hook=_unique)


def _refused(_constant: str) -> Any:
    raise ValueError


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(dict(pairs)) != len(pairs):
        raise ValueError
    return dict(pairs)


def _nested(value: Any) -> Any:
    if is_object(value):
        return {key: _nested(item) for key, item in value.items()}
    if is_array(value):
        return [_nested(item) for item in value]
    if isinstance(value, str) and len(value) >= 40 and value.lstrip()[:1] in ("{", "["):
        try:
            return Nested(_nested(found)) if (found := _loads(value)) else value
        except (ValueError, RecursionError):
            return value
    return value


def _string(text: str, at: int) -> tuple[str, int]:
    """The JSON string at a place, and where it ends."""
    assert text[at] == '"'
    value, end = json.JSONDecoder().raw_decode(text, at)
    return str(value), end


def read_tables(text: str) -> Any:
    """The JSON value of a text in the form of json_tables."""
    first, *rest = text.split("\n")
    blocks: dict[str, _Block] = {}
    block: _Block | None = None
    for line in rest:
        if match := _BLOCK.fullmatch(line):
            block = blocks[match[1]] = _Block(match[2], match[3])
        else:
            assert block is not None
            block.lines.append(line)
    return _Reader(blocks).whole(first)


class _Reader:
    def __init__(self, blocks: dict[str, _Block]) -> None:
        self.blocks = blocks

    def whole(self, text: str) -> Any:
        value, end = self.value(text, 0)
        assert end == len(text), text[end:]
        return value

    def value(self, text: str, at: int) -> tuple[Any, int]:
        if text[at] == '"':
            return _string(text, at)
        if text[at] == "[":
            return self._array(text, at + 1)
        if text[at] == "{":
            return self._object(text, at + 1)
        match = _ATOM.match(text, at)
        assert match is not None, text[at : at + 50]
        return self._atom(match[0]), match.end()

    def _atom(self, text: str) -> Any:
        if text in _WORDS:
            return _WORDS[text]
        return self._block(self.blocks[text[1:]]) if text[0] == "@" else Spelled(text)

    def _array(self, text: str, at: int) -> tuple[list[Any], int]:
        found: list[Any] = []
        while text[at] != "]":
            item, at = self.value(text, at + (text[at] == ","))
            found.append(item)
        return found, at + 1

    def _object(self, text: str, at: int) -> tuple[dict[str, Any], int]:
        found: dict[str, Any] = {}
        while text[at] != "}":
            key, at = _string(text, at + (text[at] == ","))
            assert text[at] == ":"
            found[key], at = self.value(text, at + 1)
        return found, at + 1

    def _block(self, block: _Block) -> Any:
        if block.kind == " as text: ":
            assert not block.lines
            return Nested(self.whole(block.head))
        head = self.blocks[block.head[4:]].head if block.head.startswith("as @") else block.head
        columns = list(self._columns(head))
        keyed = head[0] == "*"
        groups: list[list[Any]] = [[]]
        keys: list[str] = []
        for line in block.lines:
            if line == "--":
                groups.append([])
                continue
            key, row = self._row(line, columns, keyed=keyed)
            keys.append(key)
            groups[-1].append(row)
        if keyed:
            return dict(zip(keys, groups[0], strict=True))
        return groups if len(groups) > 1 else groups[0]

    def _columns(self, head: str) -> Iterator[_Column]:
        at = 0
        while at < len(head):
            path: list[str] = []
            while True:
                if head[at] == '"':
                    part, at = _string(head, at)
                else:
                    match = re.compile(r'[^.,="]+').match(head, at)
                    assert match is not None
                    part, at = match[0], match.end()
                path.append(part)
                if head[at : at + 1] != ".":
                    break
                at += 1
            column = _Column(tuple(path))
            if head[at : at + 1] == '"':
                column.text, at = True, at + 1
            if head[at : at + 1] == "=":
                end = self._cell_end(head, at + 1)
                column.same, at = head[at + 1 : end], end
            yield column
            assert head[at : at + 1] in ("", ","), head[at:]
            at += 1

    def _cell_end(self, text: str, at: int) -> int:
        if text[at : at + 1] and text[at] in '"[{':
            return self.value(text, at)[1]
        comma = text.find(",", at)
        return len(text) if comma < 0 else comma

    def _row(self, line: str, columns: Sequence[_Column], *, keyed: bool) -> tuple[str, dict[str, Any]]:
        at = 0
        key = ""
        row: dict[str, Any] = {}
        for place, column in enumerate(columns):
            cell, text = column.same, column.text
            if cell is None:
                end = self._cell_end(line, at)
                cell, at = line[at:end], end + 1
            value = key if column.same == "*" else self._cell(cell, text=text)
            if keyed and place == 0:
                key = value
            elif value is not _MISSING:
                inner = row
                for part in column.path[:-1]:
                    inner = inner.setdefault(part, {})
                inner[column.path[-1]] = value
        assert at == len(line) + 1, line
        return key, row

    def _cell(self, cell: str, *, text: bool) -> Any:
        if not cell:
            return _MISSING
        if text and cell[0] != '"':
            return cell
        if cell[0] in '"[{@' or cell in _WORDS or re.fullmatch(r"-?\d+(\.\d+)?([eE][+-]?\d+)?", cell):
            return self.whole(cell)
        return cell


def read_lines(text: str) -> list[str]:
    """The lines of a text in the form of line_groups."""
    lines = text.split("\n")
    return list(_read(lines))


def _read(lines: list[str]) -> Iterator[str]:
    at = 0
    while at < len(lines):
        mark = re.match(r"@(\d+)([=:#]) ?", lines[at]) if lines[at][:1] == "@" else None
        if mark is None or not mark[2]:
            yield lines[at]
            at += 1
            continue
        count, rest = int(mark[1]), lines[at][mark.end(2) :]
        at += 1
        if mark[2] == "=":
            yield from [rest[1:]] * count
        elif mark[2] == ":":
            yield from (rest[1:] + line for line in lines[at : at + count])
            at += count
        else:
            start = int(rest)
            for number, line in enumerate(lines[at : at + count], start):
                padded = f"{number:>{len(rest)}}" if rest[0] == " " else str(number)
                yield line if number % 10 == 0 else padded + line
            at += count
