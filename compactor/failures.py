"""Which line of a tool's output tells of a failure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

import orjson

from compactor.json_values import is_array, is_object
from compactor.orders import is_order

MAX_LINE: Final = 200  # characters of such a line that are shown
_FAILURE: Final = re.compile(
    r"(?i)\b(?:\w*(?:error|exception)|traceback|failed|failure|fatal|panic|denied|refused|not found|timed? ?out)\b"
    r"|\b(?i:no such)\b|错误|失败|异常|拒绝|超时"
)


def failure_line(text: str) -> str:
    """The last line that tells of a failure, where programs say what went wrong; empty when none does.

    An order to the reader that poses as one is none.
    """
    for match in reversed(list(_FAILURE.finditer(text))):
        line = _line_around(text, match.start())
        if not is_order(line, excused=_FAILURE):
            return line
    return ""


def tells_of_failure(text: str) -> bool:
    """Whether any line of a text does."""
    return _FAILURE.search(text) is not None


def failure_lines(text: str) -> list[str]:
    """Every different line that tells of a failure, whole; of a JSON text every such value under its name."""
    return list(dict.fromkeys(line for line in _lines(text) if tells_of_failure(line)))


def _lines(text: str) -> Iterator[str]:
    try:
        whole: Any = orjson.loads(text.encode("utf-8", "replace")) if text.lstrip()[:1] in ("{", "[") else None
    except ValueError:
        whole = None
    if whole is None:
        yield from filter(None, map(str.strip, text.splitlines()))
        return
    waiting: list[tuple[str, Any]] = [("", whole)]
    while waiting:
        name, value = waiting.pop()
        if is_object(value):
            waiting += reversed([(str(key), item) for key, item in value.items()])
        elif is_array(value):
            waiting += reversed([(name, item) for item in value])
        elif value:
            shown = value if isinstance(value, str) else orjson.dumps(value).decode()
            for row in filter(None, map(str.strip, shown.splitlines())):
                yield f"{name}: {row}" if name else row


def _line_around(text: str, place: int) -> str:
    start = max(text.rfind("\n", 0, place) + 1, place - MAX_LINE // 2)
    end = text.find("\n", place, start + MAX_LINE)
    return text[start : end if end >= 0 else start + MAX_LINE].strip()
