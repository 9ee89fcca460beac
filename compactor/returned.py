"""Views that come back: what stood in their place in the history, proven by writing their sentences again.

No text is trusted as a mark of ours: it must be, to the letter, what the view would write there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from compactor.carriers import carrier_of, gap_sentence
from compactor.formats.openai import RESULT_ROLES, text_of
from compactor.history import Step, read_history
from compactor.models import Kind, Message, recall_id
from compactor.records import Encoded
from compactor.wording import CHINESE, ENGLISH, Wording

_LANGUAGES: Final = (ENGLISH, CHINESE)
_OPENINGS: Final = tuple(
    re.compile(re.escape(words.gap).replace(r"\{messages\}", r"\d+").split(r"\{")[0]) for words in _LANGUAGES
)


@dataclass(frozen=True, slots=True)
class Region:
    """Rows `first` to `end` (exclusive) of a list stand for these messages of the history, by index."""

    first: int
    end: int
    places: range


def expand(live: Sequence[Message], rows: Sequence[Encoded]) -> list[Region]:
    """The regions of a list that are a view of ours, in order; none overlap."""
    suspects = [i for i, row in enumerate(rows) if row.value.get("role") in RESULT_ROLES and _opens(text_of(row.value))]
    if not suspects:
        return []
    finder = _Finder(live, rows)
    found: list[Region] = []
    for suspect in suspects:
        region = finder.region(suspect)
        if region is not None and not (found and region.first < found[-1].end):
            found.append(region)
    return found


class _Finder:
    """Looks for gaps between the stored messages that stand around a sentence."""

    def __init__(self, live: Sequence[Message], rows: Sequence[Encoded]) -> None:
        self.live, self.rows = live, rows
        self.history = read_history([message.value for message in live])
        self.indexes: dict[bytes, list[int]] = {}
        for index, message in enumerate(live):
            for name in {message.own, message.shown}:
                self.indexes.setdefault(name, []).append(index)

    def region(self, suspect: int) -> Region | None:
        if self.rows[suspect].own in self.indexes:  # a stored message of that text
            return None
        first, end = suspect, suspect + 1
        while first > 0 and self.rows[first].value.get("role") in RESULT_ROLES:
            first -= 1
        while end < len(self.rows) and self.rows[end].value.get("role") in RESULT_ROLES:
            end += 1
        text = text_of(self.rows[suspect].value)
        for before, after in self._bounds(first, end):
            gap = [step for step in self.history.steps if before < step.start < after]
            carrier = carrier_of(gap)
            carried = carrier is not None and carrier.start in self._at(first)
            if carried and any(self._sentence(gap, words) == text for words in _LANGUAGES):
                return Region(first, end, range(before + 1, after))
        return None

    def _bounds(self, first: int, end: int) -> Iterator[tuple[int, int]]:
        for after in self._at(end) if end < len(self.rows) else [len(self.live)]:
            for before in self._at(first - 1) if first > 0 else [-1]:
                if before < after:
                    yield before, after

    def _at(self, row: int) -> list[int]:
        return self.indexes.get(self.rows[row].own, [])

    def _sentence(self, gap: Sequence[Step], words: Wording) -> str:
        return gap_sentence(gap, lambda index: self.live[index].position, words)


def is_shortened(value: Mapping[str, Any], message: Message) -> bool:
    """Whether a row is a stored result as a view had cut it: its beginning, our mark, its end.

    Of a result that was replaced since, the beginning cannot be compared; its place and mark decide.
    """
    stored = message.value
    if value.get("role") not in RESULT_ROLES or stored.get("role") not in RESULT_ROLES:
        return False
    if value.get("tool_call_id") != stored.get("tool_call_id") or value.get("name") != stored.get("name"):
        return False
    text = text_of(value)
    return any(_is_cut(text, text_of(stored), message, words) for words in _LANGUAGES)


def _is_cut(text: str, original: str, message: Message, words: Wording) -> bool:
    mark = re.escape(words.cut.format(cut=0, id=recall_id(message.position))).replace("0", r"\d+", 1)
    found = re.search(mark, text)
    if found is None:
        return False
    if message.kind is not Kind.ORIGINAL:
        return True
    head = text[: found.start()].rstrip("\n")
    note = words.media.format(count=0).replace("0", "", 1)
    if head.partition("\n")[0].endswith(note.strip()) and not original.startswith(head):
        head = head.partition("\n")[2]
    return original.startswith(head) and original.endswith(text[found.end() :].lstrip("\n"))


def _opens(text: str) -> bool:
    return any(opening.match(text) for opening in _OPENINGS)
