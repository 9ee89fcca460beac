"""Outcomes as the JSON that the audit keeps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from compactor.models import Code, Outcome


def to_json(outcome: Outcome) -> dict[str, Any]:
    """An outcome as the JSON that the audit keeps."""
    return {**asdict(outcome), "saved": outcome.saved}


def from_json(row: Mapping[str, Any]) -> Outcome:
    """Reads an audit row; fields of a newer release are passed over."""
    known: dict[str, Any] = {name: row[name] for name in Outcome.__dataclass_fields__ if name in row}
    known["outcome"], known["positions"] = Code(known["outcome"]), tuple(known.get("positions", ()))
    return Outcome(**known)
