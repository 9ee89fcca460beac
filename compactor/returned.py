"""Views that come back: what stood in their place in the history, proven by writing their sentences again.

No text is trusted as a mark of ours: it must be, to the letter, what the view would write there.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, islice
from typing import Any, Final

from compactor.carriers import carrier_of, gap_sentence
from compactor.extract import head_and_tail
from compactor.formats.openai import RESULT_ROLES, media_of, text_of
from compactor.history import Step, read_history
from compactor.models import Message, recall_id
from compactor.records import Encoded, fingerprint
from compactor.wording import CHINESE, ENGLISH, Wording

_LANGUAGES: Final = (ENGLISH, CHINESE)
_OPENINGS: Final = tuple(
    re.compile(re.escape(words.gap).replace(r"\{messages\}", r"(\d{1,15})").split(r"\{")[0]) for words in _LANGUAGES
)
_LEFT_OUT: Final = tuple(
    re.compile(re.escape(words.left_out).replace(r"\{id\}", r"m(\d{1,15})")) for words in _LANGUAGES
)
_CUTS: Final = {
    words: re.compile(re.escape(words.cut).replace(r"\{cut\}", r"(\d{1,15})").replace(r"\{id\}", r"(m\d{1,15})"))
    for words in _LANGUAGES
}
_MEDIA: Final = tuple(
    re.compile(re.escape(words.media).replace(r"\{count\}", r"\d+") + r"(\n|$)") for words in _LANGUAGES
)
_BEFORE_IDS: Final = tuple(words.gap.partition("{tools}")[2].partition("{ids}")[0] for words in _LANGUAGES)
_NEAREST: Final = 3  # places of a repeated message
_TRIES: Final = 64  # rows of one step's results that are looked at as ours
_WRITTEN: Final = 32  # steps written in sentences, for each step of the history


@dataclass(frozen=True, slots=True)
class Region:
    """Rows `first` to `end` (exclusive) of a list stand for these messages of the history, by index."""

    first: int
    end: int
    places: Sequence[int]


def ours_among(rows: Sequence[Encoded]) -> list[int]:
    """The rows that may be a view's words in the place of a result."""
    return [i for i, row in enumerate(rows) if row.value.get("role") in RESULT_ROLES and _is_ours(text_of(row.value))]


def expand(live: Sequence[Message], rows: Sequence[Encoded], *, whole: bool = False) -> list[Region]:
    """The regions of a list that are a view of ours, in order; none overlap.

    With `whole`, none stands in the place of a sentence without what the sentence tells of: a step of which a note says
    that a result was left out stays as it is when the history has not all of the gap that it carries.
    """
    suspects = ours_among(rows)
    if not suspects:
        return []
    finder = _Finder(live, rows)
    found: list[Region] = []
    before, end = 0, 0  # stored messages that the rows up to `end` stand for
    for first, stop, ours in _steps(finder, suspects):
        before += finder.known(end, first)
        end = first
        sentences = [row for row in ours if finder.tells_of_gap(row)] if whole else []
        tries = (sentences or ours)[:_TRIES]
        region = next(filter(None, (finder.region(row, first, stop, before) for row in tries)), None)
        if region is not None:
            found.append(region)
            before, end = before + len(region.places), region.end
    return found


def _steps(finder: _Finder, suspects: Sequence[int]) -> Iterator[tuple[int, int, list[int]]]:
    """The rows of each step, from a call to behind its results, and the suspects among them.

    The sentence over a gap comes first: beside it, notes on single results name the carrier alone.
    """
    start = 0
    while start < len(suspects):
        first, stop = finder.around(suspects[start])
        behind = bisect_left(suspects, stop, lo=start)
        ours = suspects[start:behind]
        yield first, stop, sorted(ours, key=lambda row: _left_out(text_of(finder.rows[row].value)) is not None)
        start = behind


class _Finder:
    """Looks for gaps between the stored messages that stand around a sentence."""

    def __init__(self, live: Sequence[Message], rows: Sequence[Encoded]) -> None:
        self.live, self.rows = live, rows
        self.history = read_history([message.value for message in live])
        steps = self.history.steps
        sizes = [len(step.indexes) for step in steps]
        self.starts = [step.start for step in steps]
        self.carriers = [order for order, step in enumerate(steps) if carrier_of([step])]
        self.sizes = list(
            accumulate(sizes, initial=0)
        )  # messages of the steps before one, and of those without results
        self.silent = list(
            accumulate((0 if step.order_of else size for step, size in zip(steps, sizes, strict=True)), initial=0)
        )
        self.left = _WRITTEN * len(steps)
        self.turn = list(accumulate(int(index not in self.history.step_of) for index in range(len(live))))
        self.by_position = {message.position: index for index, message in enumerate(live)}
        self.indexes: dict[bytes, list[int]] = {}
        for index, message in enumerate(live):
            for name in {*message.names}:
                self.indexes.setdefault(name, []).append(index)

    def known(self, first: int, end: int) -> int:
        """How many of these rows are stored messages."""
        return sum(1 for row in self.rows[first:end] if row.own in self.indexes)

    def around(self, suspect: int) -> tuple[int, int]:
        """The rows of the step whose result a row is: from the row in front of its results to behind them."""
        first, stop = suspect, suspect + 1
        while first > 0 and self.rows[first].value.get("role") in RESULT_ROLES:
            first -= 1
        while stop < len(self.rows) and self.rows[stop].value.get("role") in RESULT_ROLES:
            stop += 1
        return first, stop

    def region(self, suspect: int, first: int, stop: int, before: int) -> Region | None:
        """What a row stands for in the history, behind its first `before` messages.

        A copy of a sentence stands behind what it names: in a loop, its call is the same to the letter.
        """
        if self.rows[suspect].own in self.indexes:  # a stored message of that text
            return None
        text = text_of(self.rows[suspect].value)
        left_out = _left_out(text)
        gap = self._gap(first, stop, text, before) if left_out is None else self._step_of(left_out, first, before)
        if not gap:
            return None
        region = self._spanning(first, stop, self._members(gap))
        return region if suspect < region.end else None

    def tells_of_gap(self, row: int) -> bool:
        """Whether a row is a sentence over a gap, and not a stored message of that text."""
        return self.rows[row].own not in self.indexes and _left_out(text_of(self.rows[row].value)) is None

    def _spanning(self, first: int, end: int, places: Sequence[int]) -> Region:
        """The region with what else stands among its results: late answers to other calls; nothing new is covered."""
        members = set(places)
        for row in range(first + 1, end):
            at = self._at(row)
            behind = bisect_right(at, places[0])
            if behind == len(at) and not _is_ours(text_of(self.rows[row].value)):
                return Region(first, row, sorted(members))
            if behind < len(at) and members.isdisjoint(at[k] for k in range(behind, len(at))):
                members.add(at[behind])
        return Region(first, end, sorted(members))

    def _step_of(self, position: int, first: int, before: int) -> Sequence[Step]:
        """The step whose result at `position` a row says was left out."""
        step = self.history.step_of.get(self.by_position.get(position, -1))
        return [step] if step is not None and step.start >= before and self._stands(first, step.start) else []

    def _gap(self, first: int, stop: int, text: str, before: int) -> Sequence[Step]:
        """The stored steps that a sentence at the carrier in row `first` stands for, the likeliest place first."""
        ids = _ids(text)
        for low, high in self._places(first, stop, ids):
            for gap in (self._whole(low, high, text), self._part(low, high, text, ids)):
                if gap and gap[0].start >= before and self._is_written(gap, text):
                    return gap
        return []

    def _places(self, first: int, stop: int, ids: Sequence[int]) -> Iterator[tuple[int, int]]:
        """Where the carrier at row `first` may stand in the history: the orders of the steps around it.

        The sentence names results of the first and the last step. Where the rows around it stand more
        than once in the history (a loop), only the places nearest to those steps are looked at.
        """
        named = [self.history.step_of.get(self.by_position.get(position, -1)) for position in (*ids[:1], *ids[-1:])]
        opening, closing = named or (None, None)
        if opening is None or closing is None:
            return
        befores = self._befores(first, opening)
        for after in self._afters(stop, closing):
            for before in befores:
                low, high = bisect_right(self.starts, before), bisect_left(self.starts, after)
                carrier = self._carrier(low)
                if carrier < high and self._stands(first, self.starts[carrier]):
                    yield low, high

    def _carrier(self, low: int) -> int:
        """The order of the step that would carry a gap from `low` on."""
        order = bisect_left(self.carriers, low)
        return self.carriers[order] if order < len(self.carriers) else len(self.starts)

    def _befores(self, first: int, opening: Step) -> list[int]:
        """What may stand in front of a gap; of a row in other words, and at the head of a list, any step may follow."""
        known = self._at(first - 1) if first > 0 else []
        if known:
            ahead = bisect_left(known, opening.start)
            return known[max(0, ahead - _NEAREST) : ahead][::-1]
        order = bisect_left(self.starts, opening.start)
        nearest = [step.start - 1 for step in reversed(self.history.steps[max(0, order + 1 - _NEAREST) : order + 1])]
        return nearest if first > 0 else [*nearest, -1]

    def _afters(self, end: int, closing: Step) -> list[int]:
        """What may stand behind a gap, likewise."""
        if end == len(self.rows):
            return [len(self.live)]
        known = self._at(end)
        if known:
            behind = bisect_right(known, closing.start)
            return known[behind : behind + _NEAREST]
        order = bisect_left(self.starts, closing.start)
        following = self.history.steps[order + 1 : order + 1 + _NEAREST]
        return [*(step.start for step in following), len(self.live)]

    def _whole(self, low: int, high: int, text: str) -> Sequence[Step]:
        """The steps up to `high` that hold as many messages as a sentence states.

        Of a list that had lost messages before, the gap begins later than what is stored would say.
        """
        start = _exactly(self.sizes, self.sizes[high] - _stated(text))
        return self.history.steps[start:high] if low <= start <= self._carrier(low) else []

    def _part(self, low: int, high: int, text: str, ids: Sequence[int]) -> Sequence[Step]:
        """What of a gap a list that lacked other messages may have had: the named steps, texts between and behind."""
        steps = {self.history.step_of.get(self.by_position.get(position, -1)) for position in ids}
        named = sorted(bisect_left(self.starts, step.start) for step in steps if step is not None)
        if None in steps or not low <= named[0] <= named[-1] < high:
            return []
        left = _stated(text) - sum(self.sizes[order + 1] - self.sizes[order] for order in named)
        if left == 0:
            return [self.history.steps[order] for order in named]
        following = named[-1] + 1
        left -= self.silent[following] - self.silent[named[0]]
        end = _exactly(self.sizes, self.sizes[following] + left)
        if not following <= end <= high or self.silent[end] - self.silent[following] != left:
            return []
        return [step for step in self.history.steps[named[0] : end] if step in steps or not step.order_of]

    def _is_written(self, gap: Sequence[Step], text: str) -> bool:
        """Whether a view would write this sentence over a gap; not looked at once too much was written in vain."""
        self.left -= len(gap)
        return self.left >= 0 and any(self._sentence(gap, words) == text for words in _LANGUAGES)

    def _members(self, steps: Sequence[Step]) -> list[int]:
        """The messages of steps, but for second answers behind a later user message: they stand in another place."""
        return sorted(
            index
            for step in steps
            for index in step.indexes
            if self.turn[index] == self.turn[step.start] or index not in step.orphans
        )

    def _stands(self, row: int, index: int) -> bool:
        """Whether a row is that stored message."""
        return self.rows[row].own in self.live[index].names

    def _at(self, row: int) -> list[int]:
        return self.indexes.get(self.rows[row].own, [])

    def _sentence(self, gap: Sequence[Step], words: Wording) -> str:
        return gap_sentence(gap, lambda index: self.live[index].position, words)


def _exactly(sums: Sequence[int], wanted: int) -> int:
    """Where this sum stands among growing ones; -1 when it does not."""
    found = bisect_left(sums, wanted)
    return found if found < len(sums) and sums[found] == wanted else -1


def is_shortened(value: Mapping[str, Any], message: Message, *, sent: Collection[bytes] = frozenset()) -> bool:
    """Whether a row is a stored result as a view had cut it: to the letter what the view would write.

    Of a result that was replaced since, there is only what replaced it to compare, which may have been cut too: a
    cut of before is known by `sent`, the fingerprints of the cut results that this process handed out.
    """
    stored = message.value
    if value.get("role") not in RESULT_ROLES or stored.get("role") not in RESULT_ROLES:
        return False
    if value.get("tool_call_id") != stored.get("tool_call_id") or value.get("name") != stored.get("name"):
        return False
    text = text_of(value)
    if message.replaced and sent and _is_some_cut(text, message.position) and fingerprint(value) in sent:
        return True
    return any(_is_cut(text, stored, recall_id(message.position), words) for words in _LANGUAGES)


def _is_cut(text: str, stored: Mapping[str, Any], name: str, words: Wording) -> bool:
    original, media = text_of(stored), media_of(stored)
    note = words.media.format(count=media) + "\n" if media else ""
    if media and text == (note + original).rstrip("\n"):
        return True
    kept = len(original.rstrip("\n"))
    return any(
        text == (note + head_and_tail(original, chars=len(original) - int(mark[1]), mark=mark[0])).rstrip("\n")
        for mark in _CUTS[words].finditer(text)
        if mark[2] == name and _fits(mark, ahead=len(note), whole=len(original), kept=kept)
    )


def _fits(mark: re.Match[str], *, ahead: int, whole: int, kept: int) -> bool:
    """Whether a mark stands where its number says; `kept` counts a result's characters without the line ends behind."""
    chars = whole - int(mark[1])
    tail = chars // 2 - (whole - kept)
    behind = len(mark.string) - mark.end()
    return chars >= 0 and mark.start() == ahead + chars - chars // 2 + 1 and behind == (tail + 1 if tail > 0 else 0)


def _is_some_cut(text: str, position: int) -> bool:
    """Whether a text may be the head and the tail of some result, around one mark that names this position.

    The tail is as long as the head or one shorter, but for line ends at its end.
    """
    note = next((found for media in _MEDIA if (found := media.match(text))), None)
    marks = [mark for cut in _CUTS.values() for mark in islice(cut.finditer(text), 2)]
    if not marks:
        return note is not None
    mark = marks[0]
    head, tail = text[note.end() if note else 0 : mark.start()], text[mark.end() :]
    around = head.endswith("\n") and (not tail or tail.startswith("\n"))
    return len(marks) == 1 and mark[2] == recall_id(position) and around and len(tail) <= len(head)


def cut_position(value: Mapping[str, Any]) -> int | None:
    """The position that a row names when it may be a result as a view had cut it."""
    if value.get("role") not in RESULT_ROLES:
        return None
    mark = next((mark for cut in _CUTS.values() for mark in islice(cut.finditer(text_of(value)), 1)), None)
    return None if mark is None else int(mark[2][1:])


def is_cut_of(value: Mapping[str, Any], original: Mapping[str, Any], position: int) -> bool:
    """Whether a row is this result as a view had cut it, to the letter."""
    return any(_is_cut(text_of(value), original, recall_id(position), words) for words in _LANGUAGES)


def _ids(text: str) -> list[int]:
    """The positions that a sentence of ours names; tools may have names like ours."""
    ends = [text.rpartition(before)[2] for before in _BEFORE_IDS if before in text]
    return [int(found) for found in re.findall(r"m(\d{1,15})", ends[0])] if ends else []


def _stated(text: str) -> int:
    """How many messages a sentence of ours says are left out."""
    return next(int(found[1]) for opening in _OPENINGS if (found := opening.match(text)))


def _is_ours(text: str) -> bool:
    return any(opening.match(text) for opening in _OPENINGS) or _left_out(text) is not None


def _left_out(text: str) -> int | None:
    """The position that a row names when it is, to the letter, our note on a result left out."""
    found = next((match for note in _LEFT_OUT if (match := note.fullmatch(text))), None)
    return None if found is None else int(found[1])
