"""redact(*texts): secrets out of what a model is given and out of what replaces a result.

Found are keys and tokens by their makers' shapes, private keys, what stands behind the name of a
secret (`password: …`, `"api_key": "…"`, `Authorization: …`, cookies), and passwords in addresses. The
same value gets the same mark in all texts of a call, also where it stands without its name. Linear
in the texts, which may be megabytes long and written by anybody.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from compactor.secret_names import named_secrets
from compactor.secret_shapes import shaped_secrets

REDACTION_VERSION: Final = 1
MARK: Final = re.compile(r"\[SECRET_(\d{1,9})\]")
_ROUNDS: Final = 3  # what a mark leaves beside it may look like a secret in turn
_MOST_ELSEWHERE: Final = 200  # different values that are looked for where they stand without a name
_LONGEST: Final = 512  # characters of a value that is looked for elsewhere
_PLAIN_WORD: Final = re.compile(r"[^\W\d_]{1,11}|\d{1,7}")

Span = tuple[int, int]


def redact(*texts: str) -> tuple[str, ...]:
    """The texts with each secret replaced by a numbered mark, `[SECRET_1]`; never raises."""
    marks = _Marks()
    hidden = list(texts)
    for _ in range(_ROUNDS):
        found = [list(_merged(_secrets(text))) for text in hidden]
        if not any(found):
            break
        marks.avoid(texts)
        hidden = [_replaced(text, spans, marks) for text, spans in zip(hidden, found, strict=True)]
    return tuple(marks.elsewhere(text) for text in hidden)


def _secrets(text: str) -> Iterator[Span]:
    yield from shaped_secrets(text)
    yield from named_secrets(text)


def _merged(spans: Iterable[Span]) -> Iterator[Span]:
    """Spans in order; those that overlap are one."""
    last: Span | None = None
    for start, end in sorted(spans):
        if last is not None and start < last[1]:
            last = last[0], max(last[1], end)
            continue
        if last is not None:
            yield last
        last = start, end
    if last is not None:
        yield last


def _replaced(text: str, spans: Iterable[Span], marks: _Marks) -> str:
    parts: list[str] = []
    at = 0
    for start, end in spans:
        parts += [text[at:start], marks.of(text[start:end])]
        at = end
    return "".join([*parts, text[at:]])


class _Marks:
    """The numbered marks of one call."""

    def __init__(self) -> None:
        self._of: dict[str, str] = {}
        self._before = 0

    def avoid(self, texts: Iterable[str]) -> None:
        """Numbers go on behind those that the texts hold already."""
        if not self._of:
            self._before = max((int(match[1]) for text in texts for match in MARK.finditer(text)), default=0)

    def of(self, value: str) -> str:
        """The mark of a value; what was cut around an older mark is one secret with it."""
        return self._of.setdefault(value, f"[SECRET_{self._before + len(self._of) + 1}]")

    def elsewhere(self, text: str) -> str:
        """The text without known values that stand in it on their own; plain words are left, they say other things."""
        telling = (value for value in self._of if 6 <= len(value) <= _LONGEST and not _PLAIN_WORD.fullmatch(value))
        for value, _ in zip(sorted(telling, key=len, reverse=True), range(_MOST_ELSEWHERE), strict=False):
            if value in text:
                text = re.sub(rf"(?<!\w){re.escape(value)}(?!\w)", self._of[value], text)
        return text
