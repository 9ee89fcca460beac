"""Outcomes as the JSON that the audit keeps; of a draft that was not swapped in; what a session waits for after one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any, Final

from compactor.bills import Bill
from compactor.claims import Held
from compactor.json_values import is_array, is_object
from compactor.models import Code, Outcome

_NESTED: Final = ("outcome", "positions", "bill")
_DEFAULTS: Final = {name: value for name, value in asdict(Outcome(Code.UNKNOWN)).items() if name not in _NESTED}
_MOST_WHOLE: Final = 2**53  # beyond it a fraction has no place for every whole number
_AMOUNTS: Final = ("spent", "rewrite", "step_before", "step_after")


def to_json(outcome: Outcome) -> dict[str, Any]:
    """An outcome as the JSON that the audit keeps, with the figures that it computes."""
    found = outcome.bill
    bill = None if found is None else {**asdict(found), "saved": found.saved, "net": found.net}
    return {**asdict(outcome), "saved": outcome.saved, "bill": bill}


def from_json(row: Mapping[str, Any]) -> Outcome:
    """Reads an audit row; fields of a newer release, or damaged from outside, are passed over."""
    known: dict[str, Any] = {
        name: row[name] for name, default in _DEFAULTS.items() if name in row and _is_like(row[name], default)
    }
    positions = row.get("positions", ())
    if is_array(positions) and all(_is_like(position, 0) for position in positions):
        known["positions"] = tuple(positions)
    return Outcome(Code(row.get("outcome", Code.UNKNOWN)), **known, bill=_bill(row.get("bill")))


def _bill(row: Any) -> Bill | None:
    """The bill of a row; an older release wrote none."""
    if not is_object(row):
        return None
    amounts: dict[str, Any] = {name: row[name] for name in _AMOUNTS if _is_like(row.get(name), 0)}
    steps, payback = row.get("steps"), row.get("payback")
    return Bill(
        **amounts,
        steps=steps if isinstance(steps, int) and _is_like(steps, 0) else 0,
        payback=float(payback) if isinstance(payback, (int, float)) and _is_like(payback, 0.0) else None,
        cold=row.get("cold") is True,
    )


def _is_like(value: object, default: object) -> bool:
    """Whether a value has the type of its default; a whole number will do for a fraction."""
    return type(value) is type(default) or (
        isinstance(default, float) and type(value) is int and abs(value) <= _MOST_WHOLE
    )


def unapplied(outcome: Outcome) -> Outcome:
    """The account of a draft that was not swapped in: what was spent, and nothing replaced."""
    return replace(
        outcome,
        after=outcome.before,
        items=0,
        by_pointer=0,
        by_condensed=0,
        by_model=0,
        by_extract=0,
        by_arguments=0,
        by_fold=0,
        positions=(),
        reached=False,
    )


def held_after(code: Code) -> str:
    """Why a session waits after a run that ended so; empty where nothing holds it."""
    reasons = {
        Code.NO_GAIN: Held.NO_GAIN,
        Code.EXHAUSTED: Held.EXHAUSTED,
        Code.SUMMARIZER_FAILED: Held.SUMMARIZER_FAILED,
        Code.STALE: Held.BACKOFF,
        Code.SHADOW: Held.SHADOW,
    }
    return reasons.get(code, "")
