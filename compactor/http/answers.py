"""Answers as JSON, written straight from what the library gives."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from itertools import chain
from operator import methodcaller
from typing import Any, Final

import orjson
from starlette.responses import Response

from compactor.frozen import FrozenDict, FrozenList

MANY: Final = 5_000
_PLAIN: Final[frozenset[type]] = frozenset({str, int, bool, type(None)})
_OBJECTS: Final[frozenset[Any]] = frozenset((dict, FrozenDict))
_ARRAYS: Final[frozenset[Any]] = frozenset((list, FrozenList, tuple))
_VALUES: Final = methodcaller("values")
_NESTED: Final = _OBJECTS | _ARRAYS
_OPTIONS: Final = orjson.OPT_PASSTHROUGH_DATACLASS


def answer(value: Any, status: int = 200) -> Response:
    """A JSON answer; numbers that JSON or 64 bits do not hold are written as the store keeps them."""
    return Response(written(value), status, media_type="application/json")


async def answer_of(messages: Sequence[Any], value: Any) -> Response:
    """A JSON answer that holds these messages; of many, it is written in a thread, so that others go on."""
    return await asyncio.to_thread(answer, value) if len(messages) > MANY else answer(value)


def written(value: Any) -> bytes:
    """JSON bytes by orjson; by the standard module for NaN, integers beyond 64 bits and lone surrogates."""
    if all_finite(value):
        try:
            return orjson.dumps(value, option=_OPTIONS)
        except TypeError:
            pass
    return json.dumps(value, separators=(",", ":")).encode("ascii")


def all_finite(value: Any) -> bool:
    """Whether no float in a JSON value is infinite or NaN, which orjson would write as null; level by level, in C."""
    level: list[Any] = [value]
    while level:
        kinds = set(map(type, level))
        if not kinds <= _NESTED and not all(math.isfinite(each) for each in level if isinstance(each, float)):
            return False
        objects: Iterable[Any] = chain.from_iterable(map(_VALUES, _of(level, kinds, _OBJECTS)))
        arrays: Iterable[Any] = chain.from_iterable(_of(level, kinds, _ARRAYS))
        level = [each for each in chain(objects, arrays) if type(each) not in _PLAIN]
    return True


def _of(level: list[Any], kinds: set[type], wanted: frozenset[Any]) -> list[Any]:
    """The values of these types; `kinds` are those of the level."""
    if kinds <= wanted:
        return level
    return [each for each in level if type(each) in wanted] if kinds & wanted else []


def shown(value: Any) -> dict[str, Any]:
    """A value of the library as an object: its fields, and the figures it computes from them."""
    found = {name: getattr(value, name) for name in names_of(type(value))}
    return {name: shown(each) if is_dataclass(each) else each for name, each in found.items()}


def names_of(kind: Any) -> tuple[str, ...]:
    """The public fields and properties of a frozen value's class."""
    members: Mapping[str, Any] = kind.__dict__
    computed = [name for name, member in members.items() if isinstance(member, property)]
    return (*(field.name for field in fields(kind)), *computed)
