"""Views that come back: what stood in their place in the history, proven by writing their sentences again.

No text is trusted as a mark of ours: it must be, to the letter, what the view would write there.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
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
_LEFT_OUT: Final = tuple(
    re.compile(re.escape(words.left_out).replace(r"\{id\}", r"m(\d{1,15})")) for words in _LANGUAGES
)


@dataclass(frozen=True, slots=True)
class Region:
    """Rows `first` to `end` (exclusive) of a list stand for these messages of the history, by index."""

    first: int
    end: int
    places: Sequence[int]


def expand(live: Sequence[Message], rows: Sequence[Encoded]) -> list[Region]:
    """The regions of a list that are a view of ours, in order; none overlap."""
    suspects = [
        i for i, row in enumerate(rows) if row.value.get("role") in RESULT_ROLES and _is_ours(text_of(row.value))
    ]
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
        self.by_position = {message.position: index for index, message in enumerate(live)}
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
        if (left_out := _left_out(text)) is not None:
            places = self._step_of(left_out, first)
        else:
            places = next((found for gap in self._gaps(first, end) if (found := self._written(gap, text))), None)
        return None if places is None else Region(first, end, places)

    def _step_of(self, position: int, first: int) -> Sequence[int] | None:
        """The step whose result at `position` a row says was left out."""
        step = self.history.step_of.get(self.by_position.get(position, -1))
        return None if step is None or step.start not in self._at(first) else step.indexes

    def _gaps(self, first: int, end: int) -> Iterator[list[Step]]:
        """Runs of stored steps that the carrier at row `first` may stand for, the likeliest ones first."""
        for after in self._at(end) if end < len(self.rows) else [len(self.live)]:
            for before in self._at(first - 1) if first > 0 else [-1]:
                gap = [step for step in self.history.steps if before < step.start < after]
                carrier = carrier_of(gap)
                if carrier is None:
                    continue
                # Of a list that had lost messages before, the gap begins later than what is stored would say.
                for start in range(gap.index(carrier) + 1):
                    if carrier.start in self._at(first):
                        yield gap[start:]
            yield from self._headless(first, after)

    def _headless(self, first: int, after: int) -> Iterator[list[Step]]:
        for start in self._at(first) if first == 0 else ():
            yield [step for step in self.history.steps if start <= step.start < after]

    def _written(self, gap: Sequence[Step], text: str) -> Sequence[int] | None:
        """The messages that a sentence stands for, when a view would write it over this gap or a part of it."""
        if any(self._sentence(gap, words) == text for words in _LANGUAGES):
            return sorted(index for step in gap for index in step.indexes)
        for part in _parts(gap, lambda step: self._is_named(step, text)):
            if any(self._sentence(part, words) == text for words in _LANGUAGES):
                return sorted(index for step in part for index in step.indexes)
        return None

    def _is_named(self, step: Step, text: str) -> bool:
        ids = {int(found) for found in re.findall(r"\bm(\d{1,15})\b", text)}
        return bool(step.answered) and {self.live[index].position for index in step.answered} <= ids

    def _at(self, row: int) -> list[int]:
        return self.indexes.get(self.rows[row].own, [])

    def _sentence(self, gap: Sequence[Step], words: Wording) -> str:
        return gap_sentence(gap, lambda index: self.live[index].position, words)


def _parts(gap: Sequence[Step], is_named: Callable[[Step], bool]) -> Iterator[list[Step]]:
    """What of a gap a list that lacked other messages may have had: the named steps, with texts between and behind."""
    named = [step for step in gap if is_named(step)]
    if not named:
        return
    first, last = gap.index(named[0]), gap.index(named[-1])
    yield named
    inner = [step for step in gap[first : last + 1] if step in named or not step.answered]
    behind = list(takewhile(lambda step: not step.answered, gap[last + 1 :]))
    for end in range(len(behind) + 1):
        yield inner + behind[:end]


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


def _is_ours(text: str) -> bool:
    return any(opening.match(text) for opening in _OPENINGS) or _left_out(text) is not None


def _left_out(text: str) -> int | None:
    """The position that a row names when it is, to the letter, our note on a result left out."""
    found = next((match for note in _LEFT_OUT if (match := note.fullmatch(text))), None)
    return None if found is None else int(found[1])
