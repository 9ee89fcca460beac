"""What a tool returned, as text; never raises."""

from __future__ import annotations

import dataclasses
import json
from contextlib import suppress
from typing import Any, Final

from compactor.json_values import is_array, is_object

_DEEPEST: Final = 250  # levels of what is rewritten for JSON


def result_text(value: Any) -> str:
    """Text as it is, everything else as `json.dumps(value, ensure_ascii=False)` writes it.

    What JSON does not know stands as its own data (SDK objects, dataclasses, sets, bytes as UTF-8) or
    as its `str()`; as the name of its type where that says nothing.
    """
    if isinstance(value, str):
        return str.__str__(value)  # of a subclass its text, whatever it says of itself
    plain = _plain(value)
    if isinstance(plain, str):
        return plain
    for rewrite in (False, True):
        with suppress(Exception):  # a tool's objects may raise anything
            return json.dumps(_rewritten(plain, 0) if rewrite else plain, ensure_ascii=False, default=_plain)
    return type(value).__name__


def _plain(value: Any) -> Any:
    """A value of another kind as what JSON knows; text when there is nothing better."""
    known: Any = value
    if value is None or isinstance(value, (str, int, float, dict, list, tuple)):
        return known
    try:
        return _data_of(value)
    except Exception:  # noqa: BLE001 # why: whatever the object raises
        return type(value).__name__


def _data_of(value: Any) -> Any:
    given: Any = value  # the checks below say less of it than they know
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(given).decode("utf-8", "replace")
    dump = getattr(value, "model_dump", None)
    if callable(dump) and not isinstance(value, type):
        return dump(mode="json", exclude_unset=True)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if isinstance(value, (set, frozenset)):
        return sorted(given, key=str)
    if is_object(value):
        return dict(value)
    said = str(given)
    if not said or " at 0x" in said:  # an address says nothing, and never repeats
        return str(type(given).__name__)
    return said


def _rewritten(value: Any, depth: int) -> Any:
    """The value with keys as text, and what cannot be written at all as the name of its type."""
    plain = _plain(value)
    if depth > _DEEPEST:
        return type(value).__name__
    if is_object(plain):
        return {_key(key): _rewritten(item, depth + 1) for key, item in plain.items()}
    if is_array(plain):
        return [_rewritten(item, depth + 1) for item in plain]
    if isinstance(plain, int) and not isinstance(plain, bool):
        return plain if plain.bit_length() < 14_000 else type(value).__name__  # Python writes 4,300 digits
    return plain


def _key(key: Any) -> Any:
    return key if key is None or isinstance(key, (str, int, float)) else str(_plain(key))
