"""Which line of a tool's output tells of a failure."""

from __future__ import annotations

import re
from typing import Final

MAX_LINE: Final = 200  # characters of such a line that are shown
_FAILURE: Final = re.compile(
    r"(?i)\b(?:\w*(?:error|exception)|traceback|failed|failure|fatal|panic|denied|refused|not found|timed? ?out)\b"
    r"|错误|失败|异常|拒绝|超时"
)


def failure_line(text: str) -> str:
    """The last line that tells of a failure, where programs say what went wrong; empty when none does."""
    found = ""
    for match in _FAILURE.finditer(text):
        found = _line_around(text, match.start())
    return found


def tells_of_failure(text: str) -> bool:
    """Whether any line of a text does."""
    return _FAILURE.search(text) is not None


def _line_around(text: str, place: int) -> str:
    start = max(text.rfind("\n", 0, place) + 1, place - MAX_LINE // 2)
    end = text.find("\n", place, start + MAX_LINE)
    return text[start : end if end >= 0 else start + MAX_LINE].strip()
