"""Lines of a tool's output that tell of a failure, as extracts see them.

They are few, so that they are looked for by literal words first: one of these stands in whatever ERROR finds.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

ERROR: Final = re.compile(
    r"(?i)\b(?:error|exception|traceback|failed|failure|fatal|panic|denied|refused|not found|no such|timed? ?out)\b"
    r"|[a-z](?:Error|Exception)\b|错误|失败|异常|拒绝"
)
# Runs of letters in lower case, and the texts of which a line holds one where its run tells of a failure.
FAILURE_STEMS: Final[Mapping[str, tuple[str, ...]]] = {
    **{word: (word,) for word in ("traceback", "failed", "failure", "fatal", "panic", "denied", "refused")},
    "found": ("not found",), "such": ("no such",), "time": ("time out",), "timed": ("timed out",),
    "timeout": ("timeout",), "timedout": ("timedout",),
}  # fmt: skip
FAILURE_ENDS: Final = ("error", "exception")  # of a run
_CHINESE: Final = ("错误", "失败", "异常", "拒绝")
_CODE_LINE: Final = re.compile(
    r"(?:raise|except|def|class|import|from|if|elif|else|return|assert|try|catch|throw|for|while|with|self\.|@|#|//|\*|<)"
    r"(?![\w-]*:? *\d)(?:\W|$)"
)


def may_be_failure(low: str, stems: Iterable[str]) -> bool:
    """Whether a line in lower case can tell of a failure; `stems` are those of all its words of ASCII letters."""
    return any(map(low.__contains__, stems)) or (not low.isascii() and any(map(low.__contains__, _CHINESE)))


def is_failure(line: str) -> bool:
    """Whether a line tells of a failure; a line of code that deals with one does not."""
    return ERROR.search(line) is not None and not _CODE_LINE.match(line)
