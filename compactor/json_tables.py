"""JSON text in a shorter form that holds the same value: no spaces, and objects of one shape as rows of a table.

The first line is the value as JSON, in which `@1` stands for table 1 below it. A table begins with
`@1: ` and its columns, `@3: as @1` for the columns of another; `a.b` is the key b of the object under
a, `name=value` a column that holds this value in every row, `name"` one of texts only, and a first
column `*` holds the keys of an object of objects (`name=*`: the same as the key). An empty cell: the
row has no such key. A line `--` parts the rows of two arrays in an array. `@2 as text: ` begins a
string that itself holds JSON.

A dict or list as Python prints it is written as the JSON of its value.

Kept are the JSON value, the spelling of every number and the order of rows, not the order of keys;
a string that itself holds JSON is kept as that JSON value.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from json.encoder import encode_basestring  # the C encoder, which leaves letters as they are
from typing import Any, Final

from compactor.json_values import is_array, is_object
from compactor.literals import json_of_literal

MAX_DEPTH: Final = 40  # levels; deeper values are left as they are
_FILLED: Final = 0.6  # least share of cells that hold something
_LEAST_KEYS: Final = 24  # characters of keys that a table must spare
_NESTED: Final = 40  # characters; a shorter string is never read as JSON
_BARE: Final = re.compile(r"""(?!-?[\d.]|true$|false$|null$|--$|\*$)[^\s,"\\@\[{][^,"\\\x00-\x1f\x7f]*(?<!\s)""")
_PLAIN: Final = re.compile(r"""(?!--$|\*$)[^\s,"\\@\[{][^,"\\\x00-\x1f\x7f]*(?<!\s)""")
_DATED: Final = re.compile(r"\d{4}-\d\d-\d\d(?:[T ][\d:]+Z?)?|\d{1,2}:\d\d(?::\d\d)?(?:\+\d)?")
_NAME: Final = re.compile(r"[^\W\d]\w*(?:[ /$#-]\w+)*")
_SEPARATOR: Final = "--"

Path = tuple[str, ...]
Row = Mapping[str, Any]


class _Number(str):
    """A number as it was spelled."""

    __slots__ = ()


class _Unfit(ValueError):
    """A value that is left as it is: not JSON, duplicate keys, or nested too deep."""


def condense_json(text: str) -> str | None:
    """The shorter form of a JSON object or array, or of a Python one; None for anything else."""
    value = _parsed(text)
    if value is None and (literal := json_of_literal(text)) is not None:
        value = _parsed(literal)
    if value is None:
        return None
    writer = _Writer()
    try:
        first = writer.write(value, 0)
    except _Unfit:
        return None
    return "\n".join([first, *writer.blocks])


def _parsed(text: str) -> Any:
    start = text.lstrip()[:1]
    if start not in ("{", "["):
        return None
    try:
        return json.loads(
            text, parse_float=_Number, parse_int=_Number, parse_constant=_refuse, object_pairs_hook=_object
        )
    except (ValueError, RecursionError):
        return None


def _refuse(_constant: str) -> Any:
    raise _Unfit


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise _Unfit
    return found


class _Writer:
    """Writes one value; tables and nested texts gather in `blocks`, in the order of their numbers."""

    def __init__(self) -> None:
        self.blocks: list[str] = []
        self._heads: dict[str, int] = {}

    def write(self, value: Any, depth: int) -> str:
        if depth > MAX_DEPTH:
            raise _Unfit
        if isinstance(value, _Number):
            return value
        if isinstance(value, str):
            return self._text(value, depth)
        if is_object(value):
            return self._of_object(value, depth)
        if is_array(value):
            return self._of_array(value, depth)
        return "null" if value is None else "true" if value else "false"

    def _text(self, value: str, depth: int) -> str:
        nested = _parsed(value) if len(value) >= _NESTED else None
        if not nested:
            return encode_basestring(value)
        return self._block(lambda number: f"@{number} as text: {self.write(nested, depth + 1)}")

    def _of_object(self, value: Mapping[str, Any], depth: int) -> str:
        rows = list(value.values())
        columns = _table(rows) if len(rows) > 2 else None
        if columns is not None:
            return self._block(lambda number: self._written(number, columns, [rows], depth, list(value)))
        return "{" + ",".join(f"{encode_basestring(k)}:{self.write(v, depth + 1)}" for k, v in value.items()) + "}"

    def _of_array(self, value: Sequence[Any], depth: int) -> str:
        groups = value if all(is_array(group) and group for group in value) else [value]
        rows = [row for group in groups for row in group]
        columns = _table(rows) if len(rows) > 1 and len(value) > 1 else None
        if columns is not None:
            return self._block(lambda number: self._written(number, columns, groups, depth))
        return "[" + ",".join([self.write(item, depth + 1) for item in value]) + "]"

    def _block(self, write: Callable[[int], str]) -> str:
        """Gives a block its number before what it holds gets theirs."""
        number = len(self.blocks) + 1
        self.blocks.append("")
        self.blocks[number - 1] = write(number)
        return f"@{number}"

    def _written(
        self,
        number: int,
        columns: Sequence[Path],
        groups: Sequence[Sequence[Row]],
        depth: int,
        keys: Sequence[str] = (),
    ) -> str:
        rows = [row for group in groups for row in group]
        names, varying = self._named([(_name(path), [_at(row, path) for row in rows]) for path in columns], depth, keys)
        lines = list(map(",".join, zip(*varying, strict=True)))
        head = ",".join(names)
        known = self._heads.setdefault(head, number)
        return "\n".join([f"@{number}: {head if known == number else f'as @{known}'}", *_parted(lines, groups)])

    def _named(
        self, columns: Sequence[tuple[str, list[Any]]], depth: int, keys: Sequence[str]
    ) -> tuple[list[str], list[list[str]]]:
        """The names of all columns, and the cells of those that vary: one at least, so that no row is empty."""
        heads: list[str] = []
        varying: list[list[str]] = []
        key_texts = _texts(keys)
        if keys:
            varying = [key_texts or [_quoted(key) for key in keys]]
            heads = [_typed("*", varying[0])]
        for place, (name, values) in enumerate(columns, 1):
            texts = _texts(values)
            cells = texts or [self._cell(value, depth) for value in values]
            head = _typed(name, texts) if texts else name
            if keys and texts is not None and texts == key_texts:
                heads.append(f"{name}=*")
            elif cells[0] and len(set(cells)) == 1 and (varying or place < len(columns)):
                heads.append(f"{head}={cells[0]}")
            else:
                heads.append(head)
                varying.append(cells)
        return heads, varying

    def _cell(self, value: Any, depth: int) -> str:
        if value is _MISSING:
            return ""
        written = self.write(value, depth + 1)
        return value if written[:1] == '"' and _is_bare(value) else written


_MISSING: Final = object()


def _parted(lines: Sequence[str], groups: Sequence[Sequence[Row]]) -> Iterable[str]:
    start = 0
    for group in groups:
        if start:
            yield _SEPARATOR
        yield from lines[start : start + len(group)]
        start += len(group)


def _is_bare(text: str) -> bool:
    """Whether a text needs no quotes to be told from a number, a word of JSON or a mark."""
    return _BARE.fullmatch(text) is not None or _DATED.fullmatch(text) is not None


def _texts(values: Sequence[Any]) -> list[str] | None:
    """The cells of a column that holds nothing but plain texts."""
    if not all(value is _MISSING or _is_plain(value) for value in values):
        return None
    return ["" if value is _MISSING else value for value in values]


def _typed(name: str, texts: Sequence[str]) -> str:
    """The head of a column of plain texts: marked where one of them could be read as something else."""
    return name if all(not text or text[0] == '"' or _is_bare(text) for text in texts) else f'{name}"'


def _quoted(text: str) -> str:
    return text if _is_bare(text) else encode_basestring(text)


def _is_plain(value: Any) -> bool:
    """Whether a value is a text that can stand in a column of texts."""
    return isinstance(value, str) and not isinstance(value, _Number) and _PLAIN.fullmatch(value) is not None


def _name(path: Path) -> str:
    return ".".join(part if _NAME.fullmatch(part) else encode_basestring(part) for part in path)


def _at(row: Any, path: Path) -> Any:
    for part in path:
        row = row.get(part, _MISSING)
        if row is _MISSING:
            return _MISSING
    return row


def _table(rows: Sequence[Any]) -> list[Path] | None:
    """The columns of objects of one shape; None when they are none, or not worth a table."""
    if not all(is_object(row) and row for row in rows):
        return None
    found = _columns(rows, 0)
    if found is None:
        return None
    columns, _ = found
    spared = (len(rows) - 1) * sum(len(part) + 3 for path in columns for part in path)
    return columns if spared >= _LEAST_KEYS else None


def _columns(rows: Sequence[Row], depth: int) -> tuple[list[Path], int] | None:
    """Every path to a cell and how many cells are filled; None when too few of them are."""
    if depth > MAX_DEPTH:
        raise _Unfit
    values: dict[str, list[Any]] = {}
    for row in rows:
        for key, value in row.items():
            values.setdefault(key, []).append(value)
    columns: list[Path] = []
    filled = 0
    for key, present in values.items():
        objects = all(is_object(value) and value for value in present)
        inner = _columns(present, depth + 1) if objects else None
        columns += [(key,)] if inner is None else [(key, *path) for path in inner[0]]
        filled += len(present) if inner is None else inner[1]
    return (columns, filled) if filled >= _FILLED * len(rows) * len(columns) else None
