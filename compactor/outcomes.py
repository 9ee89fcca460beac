"""Outcomes as the JSON that the audit keeps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, Final

from compactor.json_values import is_array
from compactor.models import Code, Outcome

_DEFAULTS: Final = {
    name: value for name, value in asdict(Outcome(Code.UNKNOWN)).items() if name not in ("outcome", "positions")
}


def to_json(outcome: Outcome) -> dict[str, Any]:
    """An outcome as the JSON that the audit keeps."""
    return {**asdict(outcome), "saved": outcome.saved}


def from_json(row: Mapping[str, Any]) -> Outcome:
    """Reads an audit row; fields of a newer release, or damaged from outside, are passed over."""
    known: dict[str, Any] = {
        name: row[name] for name, default in _DEFAULTS.items() if name in row and _is_like(row[name], default)
    }
    positions = row.get("positions", ())
    if is_array(positions) and all(_is_like(position, 0) for position in positions):
        known["positions"] = tuple(positions)
    return Outcome(Code(row.get("outcome", Code.UNKNOWN)), **known)


def _is_like(value: object, default: object) -> bool:
    """Whether a value has the type of its default; a whole number will do for a fraction."""
    return type(value) is type(default) or (isinstance(default, float) and type(value) is int)
