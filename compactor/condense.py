"""condense(text): a tool result in a shorter form that holds the same information.

JSON loses its spaces and repeated keys (see json_tables), text its repeated beginnings and lines
(see line_groups). What is no JSON, holds duplicate keys or is nested deeper than 40 levels is read
as text; what gains too little, and what carries a header of ours already, is left as it is. The same
text always gives the same form, in time linear in its length.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from compactor.json_tables import condense_json
from compactor.line_groups import condense_lines
from compactor.wording import carries_header

LARGEST_PART: Final = 0.9  # of its source by weight: a form that spares less is not worth a swap
_LEAST: Final = 200  # characters
_PIECE: Final = re.compile(r" ?[^\W\d_\u2e80-\uffff]{1,8}|[\u2e80-\uffff]|\d{1,3}| ?[^\w\s]{1,4}|_|\s+")


class Form(StrEnum):
    """How a condensed text is to be read."""

    JSON = "json"
    TABLES = "tables"
    LINES = "lines"


@dataclass(frozen=True, slots=True)
class Condensed:
    """A shorter text of the same information; `part` is its weight as a share of its source's."""

    text: str
    form: Form
    part: float


def condense(text: str) -> Condensed | None:
    """The shorter form of a text, or None when there is none that spares at least a tenth."""
    if len(text) < _LEAST or not text.strip() or carries_header(text) or not _can_be_sent(text):
        return None
    shorter = condense_json(text)
    if shorter is not None:
        form = Form.TABLES if "\n" in shorter else Form.JSON
    else:
        shorter, form = condense_lines(text), Form.LINES
    if shorter is None or len(shorter) >= len(text) or not _can_be_sent(shorter):
        return None
    part = _weight(shorter) / max(1, _weight(text))
    return Condensed(shorter, form, part) if part <= LARGEST_PART else None


def _can_be_sent(text: str) -> bool:
    """Whether no client would change the text: it holds neither NUL nor half a surrogate pair."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return "\0" not in text


def _weight(text: str) -> int:
    """About as many as tokens: words, digits by three, runs of signs and of spaces, wide characters."""
    return len(_PIECE.findall(text))
