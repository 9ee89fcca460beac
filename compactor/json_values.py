"""Type guards for values that came out of JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeGuard


def is_object(value: Any) -> TypeGuard[Mapping[str, Any]]:
    """A JSON object, in whatever mapping a caller keeps it."""
    return isinstance(value, Mapping)


def is_array(value: Any) -> TypeGuard[Sequence[Any]]:
    """A JSON array: a list or a tuple."""
    return isinstance(value, (list, tuple))
