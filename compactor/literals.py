"""Python values as `repr` writes them: what many tools print instead of JSON."""

from __future__ import annotations

import ast
import json
import math
import re
from typing import Any, Final

from compactor.json_values import is_array, is_object

LONGEST: Final = 100_000  # characters; reading one takes about twenty times as long as JSON
MAX_DEPTH: Final = 40  # levels
_NO_LITERAL: Final = re.compile(
    r"\\[^abfnrtvxuUN'\"\\]"
)  # escapes that repr never writes, and that would give a warning


def json_of_literal(text: str) -> str | None:
    """The JSON of a Python dict or list as `repr` writes it; None for anything else.

    Only values that JSON has, so that the way back is exact: `repr` of the value is the text again.
    """
    text = text.strip()
    if text[:1] not in ("{", "[") or len(text) > LONGEST or _NO_LITERAL.search(text):
        return None
    try:
        value = ast.literal_eval(text)
        if not _is_plain(value, 0) or repr(value) != text:
            return None
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return None
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _is_plain(value: Any, depth: int) -> bool:
    if depth > MAX_DEPTH:
        return False
    if is_object(value):
        return all(isinstance(key, str) and _is_plain(item, depth + 1) for key, item in value.items())
    if is_array(value):
        return isinstance(value, list) and all(_is_plain(item, depth + 1) for item in value)
    return value is None or isinstance(value, (str, bool, int)) or (isinstance(value, float) and math.isfinite(value))
