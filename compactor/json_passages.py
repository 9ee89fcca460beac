"""read(text): a tool result as passages. JSON gives one per value under its key, grouped by record."""

from __future__ import annotations

import re
from contextlib import suppress
from functools import lru_cache
from typing import Any, Final, NamedTuple

import orjson

from compactor.json_values import is_array, is_object
from compactor.passages import FAILURE, PLAIN, Passage, Read, read_rows, rows_of
from compactor.rows import MAX_LINE, cost_of, order_and_failure, words_told
from compactor.tokens import json_text
from compactor.words import values_of_words
from compactor.worth import Sort

_CODE_KEY: Final = re.compile(r"\S*\d{3,}\S*")
_HOLDING: Final[tuple[type, ...]] = (dict, list, str)  # what may hold other values: a text may be JSON
_LONGEST_KEY: Final = 80
_LONGEST_PATH: Final = 160
_FIELDS: Final = 20_000  # remembered: tools repeat themselves


class _Leaf(NamedTuple):
    """A value with its record (`path`), what the record is called, and its key."""

    path: str
    head: str
    key: str
    value: Any


class _Field(NamedTuple):
    """What a value says under its key; shared, never changed."""

    values: dict[str, Sort]
    cost: int
    bonus: float


def read(text: str) -> Read:
    """The passages of a text."""
    value = _parsed(text)
    if is_object(value) or is_array(value):
        with suppress(RecursionError):  # nested about as deep as Python goes: its own lines serve
            leaves: list[_Leaf] = []
            _gather(value, "", "", "", False, leaves)
            return Read(_of_leaves(leaves), 0, True)
    return read_rows(rows_of(text))


def _parsed(text: str) -> Any:
    if text.lstrip()[:1] not in ("{", "["):
        return None
    try:
        return orjson.loads(text.encode("utf-8", "replace"))
    except ValueError:
        return None


def _of_leaves(leaves: list[_Leaf]) -> list[Passage]:
    told = [
        (place, leaf, " ".join((leaf.value if isinstance(leaf.value, str) else json_text(leaf.value)).split()))
        for place, leaf in enumerate(leaves)
        if not (leaf.value is None or leaf.value is False or leaf.value in ("", [], {}))
    ]
    groups: dict[str, int] = {}
    passages: list[Passage] = []
    for place, (path, head, key, value), shown in told:
        group = groups.setdefault(path, len(groups))
        if len(shown) > MAX_LINE:
            inside = read_rows(rows_of(value if isinstance(value, str) else shown))
            inside.with_plain()
            for inner in inside.passages:
                inner.place, inner.group, inner.head, inner.key, inner.is_part = place, group, head, key, True
                passages.append(inner)
        elif (field := field_of(key, shown, not isinstance(value, bool))) is not None:
            passages.append(Passage(place, group, shown, field.cost, field.values, field.bonus, head, key))
    return passages


@lru_cache(maxsize=_FIELDS)
def field_of(key: str, shown: str, is_word: bool) -> _Field | None:
    """What a value says under its key, None for an order to the reader; `is_word`: it is more than yes or no."""
    told = words_told(shown)
    ordered, failed = order_and_failure(shown, told)
    if ordered:
        return None
    values = values_of_words(word for _, word in (*words_told(key), *told))
    plain = shown.lower()
    if is_word and len(plain) > 2:
        values.setdefault(plain, Sort.PHRASE if " " in plain else Sort.WORD)
    bonus = FAILURE if failed or "error" in key.lower() else PLAIN
    return _Field(values, cost_of(shown) + 1, bonus)


def _gather(value: Any, path: str, head: str, key: str, inside: bool, leaves: list[_Leaf]) -> None:
    """Each leaf in order.

    Objects in a list are records, and what they hold belongs to them; so are objects under keys that
    are codes.
    """
    if is_object(value):
        named = (head if inside or not key else f"{head}.{key}".lstrip("."))[-_LONGEST_KEY:]
        place = path if inside else named
        for name, item in value.items():
            if is_object(item) and item and _CODE_KEY.fullmatch(name):
                if name not in map(str, item.values()):
                    leaves.append(_Leaf(f"{place}[{name}]", named, "", name))
                _gather(item, f"{place}[{name}]"[-_LONGEST_PATH:], named, "", True, leaves)
            elif isinstance(item, _HOLDING):
                _gather(item, place, named, name, inside, leaves)
            else:
                leaves.append(_Leaf(place, named, name, item))
    elif is_array(value):
        for order, item in enumerate(value):
            if is_object(item) or is_array(item):
                listed = f"{head}.{key}".strip(".")[-_LONGEST_KEY:]
                _gather(item, f"{path}.{key}[{order}]"[-_LONGEST_PATH:], listed, "", True, leaves)
            else:
                leaves.append(_Leaf(path, head, key, item))
    elif isinstance(value, str) and (inner := _parsed(value)) is not None:
        _gather(inner, path, head, key, inside, leaves)
    else:
        leaves.append(_Leaf(path, head, key, value))
