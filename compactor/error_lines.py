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
# A word in lower case, and the texts that are meant when a line holds it.
_STEMS: Final[Mapping[str, tuple[str, ...]]] = {
    **{word: (word,) for word in ("traceback", "failed", "failure", "fatal", "panic", "denied", "refused")},
    "found": ("not found",), "such": ("no such",), "time": ("time out",), "timed": ("timed out",),
    "timeout": ("timeout",), "timedout": ("timedout",),
}  # fmt: skip
_ENDS: Final = ("error", "exception")  # also at the end of a name
_CHINESE: Final = ("错误", "失败", "异常", "拒绝")
_CODE_LINE: Final = re.compile(
    r"(?:raise|except|def|class|import|from|if|elif|else|return|assert|try|catch|throw|for|while|with|self\.|@|#|//|\*|<)"
    r"(?![\w-]*:? *\d)(?:\W|$)"
)


def failure_stems(word: str) -> tuple[str, ...]:
    """Texts in lower case, of which a line with this word (letters in lower case) holds one where it tells of one."""
    return _ENDS if word.endswith(_ENDS) else _STEMS.get(word, ())


def may_be_failure(low: str, stems: Iterable[str]) -> bool:
    """Whether a line in lower case can tell of a failure; `stems` are those of all its words of ASCII letters."""
    return any(map(low.__contains__, stems)) or (not low.isascii() and any(map(low.__contains__, _CHINESE)))


def is_failure(line: str) -> bool:
    """Whether a line tells of a failure; a line of code that deals with one does not."""
    return ERROR.search(line) is not None and not _CODE_LINE.match(line)
