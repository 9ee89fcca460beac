"""Views that come back: what stood in their place in the history, proven by writing their sentences again.

No text is trusted as a mark of ours: it must be, to the letter, what the view would write there.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from itertools import accumulate, takewhile
from typing import Any, Final

from compactor.carriers import carrier_of, gap_sentence
from compactor.extract import head_and_tail
from compactor.formats.openai import RESULT_ROLES, media_of, text_of
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
_BEFORE_IDS: Final = tuple(words.gap.partition("{tools}")[2].partition("{ids}")[0] for words in _LANGUAGES)
_NEAREST: Final = 3  # places of a repeated message


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
    before, end = 0, 0  # stored messages that the rows up to `end` stand for
    for suspect in suspects:
        region = finder.region(suspect)
        if region is None or region.first < end:
            continue
        before += finder.known(end, region.first)
        end = region.first
        # A copy of a sentence stands behind what it names: in a loop, its call is the same to the letter.
        if before <= region.places[0]:
            found.append(region)
            before, end = before + len(region.places), region.end
    return found


class _Finder:
    """Looks for gaps between the stored messages that stand around a sentence."""

    def __init__(self, live: Sequence[Message], rows: Sequence[Encoded]) -> None:
        self.live, self.rows = live, rows
        self.history = read_history([message.value for message in live])
        self.starts = [step.start for step in self.history.steps]
        self.turn = list(accumulate(int(index not in self.history.step_of) for index in range(len(live))))
        self.by_position = {message.position: index for index, message in enumerate(live)}
        self.indexes: dict[bytes, list[int]] = {}
        for index, message in enumerate(live):
            for name in {message.own, message.shown}:
                self.indexes.setdefault(name, []).append(index)

    def known(self, first: int, end: int) -> int:
        """How many of these rows are stored messages."""
        return sum(1 for row in self.rows[first:end] if row.own in self.indexes)

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
            gaps = self._gaps(first, end, _ids(text))
            places = next((found for gap in gaps if (found := self._written(gap, text))), None)
        if places is None:
            return None
        region = self._spanning(first, end, places)
        return region if suspect < region.end else None

    def _spanning(self, first: int, end: int, places: Sequence[int]) -> Region:
        """The region with what else stands among its results: late answers to other calls; nothing new is covered."""
        members = set(places)
        for row in range(first + 1, end):
            known = [index for index in self._at(row) if index > places[0]]
            if not known and not _is_ours(text_of(self.rows[row].value)):
                return Region(first, row, sorted(members))
            if known and members.isdisjoint(known):
                members.add(known[0])
        return Region(first, end, sorted(members))

    def _step_of(self, position: int, first: int) -> Sequence[int] | None:
        """The step whose result at `position` a row says was left out."""
        step = self.history.step_of.get(self.by_position.get(position, -1))
        return None if step is None or step.start not in self._at(first) else self._members([step])

    def _gaps(self, first: int, end: int, ids: Sequence[int]) -> Iterator[list[Step]]:
        """Runs of stored steps that the carrier at row `first` may stand for, the likeliest ones first.

        The sentence names results of the first and the last step. Where the rows around it stand more
        than once in the history (a loop), only the places nearest to those steps are looked at.
        """
        named = [self.history.step_of.get(self.by_position.get(position, -1)) for position in (*ids[:1], *ids[-1:])]
        opening, closing = named or (None, None)
        if opening is None or closing is None:
            return
        befores = self._befores(first, opening)
        for after in self._afters(end, closing):
            for before in befores:
                gap = self._between(before, after)
                carrier = carrier_of(gap)
                if carrier is None:
                    continue
                # Of a list that had lost messages before, the gap begins later than what is stored would say.
                for start in range(gap.index(carrier) + 1):
                    if carrier.start in self._at(first):
                        yield gap[start:]

    def _befores(self, first: int, opening: Step) -> list[int]:
        """What may stand in front of a gap; of a row in other words, and at the head of a list, any step may follow."""
        known = self._at(first - 1) if first > 0 else []
        if known:
            return known[: bisect_left(known, opening.start)][-_NEAREST:][::-1]
        order = bisect_left(self.starts, opening.start)
        nearest = [step.start - 1 for step in reversed(self.history.steps[max(0, order + 1 - _NEAREST) : order + 1])]
        return nearest if first > 0 else [*nearest, -1]

    def _afters(self, end: int, closing: Step) -> list[int]:
        """What may stand behind a gap, likewise."""
        if end == len(self.rows):
            return [len(self.live)]
        known = self._at(end)
        if known:
            return known[bisect_right(known, closing.start) :][:_NEAREST]
        order = bisect_left(self.starts, closing.start)
        following = self.history.steps[order + 1 : order + 1 + _NEAREST]
        return [*(step.start for step in following), len(self.live)]

    def _between(self, before: int, after: int) -> list[Step]:
        """The steps that begin behind one message and in front of another."""
        return list(self.history.steps[bisect_right(self.starts, before) : bisect_left(self.starts, after)])

    def _written(self, gap: Sequence[Step], text: str) -> Sequence[int] | None:
        """The messages that a sentence stands for, when a view would write it over this gap or a part of it."""
        if any(self._sentence(gap, words) == text for words in _LANGUAGES):
            return self._members(gap)
        ids = set(_ids(text))
        for part in _parts(gap, lambda step: self._is_named(step, ids)):
            if any(self._sentence(part, words) == text for words in _LANGUAGES):
                return self._members(part)
        return None

    def _members(self, steps: Sequence[Step]) -> list[int]:
        """The messages of steps, but for second answers behind a later user message: they stand in another place."""
        return sorted(
            index
            for step in steps
            for index in step.indexes
            if self.turn[index] == self.turn[step.start] or index not in step.orphans
        )

    def _is_named(self, step: Step, ids: AbstractSet[int]) -> bool:
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
    """Whether a row is a stored result as a view had cut it: to the letter what the view would write.

    Of a result that was replaced since, the text cannot be compared; its place and mark decide.
    """
    stored = message.value
    if value.get("role") not in RESULT_ROLES or stored.get("role") not in RESULT_ROLES:
        return False
    if value.get("tool_call_id") != stored.get("tool_call_id") or value.get("name") != stored.get("name"):
        return False
    text = text_of(value)
    return any(_is_cut(text, stored, message, words) for words in _LANGUAGES)


def _is_cut(text: str, stored: Mapping[str, Any], message: Message, words: Wording) -> bool:
    prefix, _, rest = words.cut.partition("{cut}")
    mark = re.escape(prefix) + r"(\d{1,15})" + re.escape(rest.format(id=recall_id(message.position)))
    found = list(re.finditer(mark, text)) if prefix in text else []
    if message.kind is not Kind.ORIGINAL:
        return bool(found) or _notes_media(text, words)
    original, media = text_of(stored), media_of(stored)
    note = words.media.format(count=media) + "\n" if media else ""
    if media and text == (note + original).rstrip("\n"):
        return True
    return any(
        text == (note + head_and_tail(original, chars=len(original) - int(cut[1]), mark=cut[0])).rstrip("\n")
        for cut in found
        if int(cut[1]) <= len(original)
    )


def _notes_media(text: str, words: Wording) -> bool:
    ahead, _, behind = words.media.partition("{count}")
    return re.match(re.escape(ahead) + r"\d+" + re.escape(behind) + "(\n|$)", text) is not None


def _ids(text: str) -> list[int]:
    """The positions that a sentence of ours names; tools may have names like ours."""
    ends = [text.rpartition(before)[2] for before in _BEFORE_IDS if before in text]
    return [int(found) for found in re.findall(r"m(\d{1,15})", ends[0])] if ends else []


def _is_ours(text: str) -> bool:
    return any(opening.match(text) for opening in _OPENINGS) or _left_out(text) is not None


def _left_out(text: str) -> int | None:
    """The position that a row names when it is, to the letter, our note on a result left out."""
    found = next((match for note in _LEFT_OUT if (match := note.fullmatch(text))), None)
    return None if found is None else int(found[1])
