"""Answers as JSON, written straight from what the library gives."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import Any, Final, cast

import orjson
from starlette.responses import Response

_OPTIONS: Final = orjson.OPT_PASSTHROUGH_DATACLASS


def answer(value: Any, status: int = 200) -> Response:
    """A JSON answer; numbers that JSON or 64 bits do not hold are written as the store keeps them."""
    return Response(written(value), status, media_type="application/json")


def written(value: Any) -> bytes:
    """JSON bytes by orjson; by the standard module for NaN, integers beyond 64 bits and lone surrogates."""
    if all_finite((value,)):
        try:
            return orjson.dumps(value, option=_OPTIONS)
        except TypeError:
            pass
    return json.dumps(value, separators=(",", ":")).encode("ascii")


def all_finite(values: Iterable[Any]) -> bool:
    """Whether no float among JSON values is infinite or NaN, which orjson would write as null."""
    waiting: list[Iterable[Any]] = [values]
    while waiting:
        for value in waiting.pop():
            kind: type[Any] = value.__class__
            if kind is str or kind is int or value is None:
                continue
            if isinstance(value, dict):
                waiting.append(cast("dict[str, Any]", value).values())
            elif isinstance(value, (list, tuple)):
                waiting.append(cast("Iterable[Any]", value))
            elif isinstance(value, float) and not math.isfinite(value):
                return False
    return True


def shown(value: Any) -> dict[str, Any]:
    """A value of the library as an object: its fields, and the figures it computes from them."""
    return {name: getattr(value, name) for name in names_of(type(value))}


def names_of(kind: Any) -> tuple[str, ...]:
    """The public fields and properties of a frozen value's class."""
    members: Mapping[str, Any] = kind.__dict__
    computed = [name for name, member in members.items() if isinstance(member, property)]
    return (*(field.name for field in fields(kind)), *computed)
