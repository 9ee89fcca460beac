"""Answers as JSON, written straight from what the library gives."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from itertools import chain
from typing import Any, Final

import orjson
from starlette.responses import Response

from compactor.frozen import FrozenDict, FrozenList

MANY: Final = 5_000
_PLAIN: Final[frozenset[type]] = frozenset({str, int, bool, type(None)})
_OBJECTS: Final[tuple[Any, ...]] = (dict, FrozenDict)
_ARRAYS: Final[tuple[Any, ...]] = (list, FrozenList, tuple)
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
    level: list[Any] = [[value]]
    while level:
        inner: list[Any] = list(
            chain.from_iterable(each.values() if type(each) in _OBJECTS else each for each in level)
        )
        if _PLAIN.issuperset(map(type, inner)):
            return True
        others: list[Any] = [each for each in inner if type(each) not in _PLAIN]
        level = [each for each in others if type(each) in _OBJECTS or type(each) in _ARRAYS]
        if len(level) < len(others) and not all(map(math.isfinite, (x for x in others if isinstance(x, float)))):
            return False
    return True


def shown(value: Any) -> dict[str, Any]:
    """A value of the library as an object: its fields, and the figures it computes from them."""
    found = {name: getattr(value, name) for name in names_of(type(value))}
    return {name: shown(each) if is_dataclass(each) else each for name, each in found.items()}


def names_of(kind: Any) -> tuple[str, ...]:
    """The public fields and properties of a frozen value's class."""
    members: Mapping[str, Any] = kind.__dict__
    computed = [name for name, member in members.items() if isinstance(member, property)]
    return (*(field.name for field in fields(kind)), *computed)
