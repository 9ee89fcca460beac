"""extract(text): a shortened tool result without a model; the same text always gives the same lines.

What is shown is chosen by the worth of the values that stand nowhere else, over the tokens it takes:
`key = value` of records, lines that tell of a failure, values with the word before them, the first and
the last line. Several results share their tokens, so that those with more to tell get more.
"""

from __future__ import annotations

import heapq
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Final

from compactor.passages import EDGE, FAILURE, Passage, Read, cost_of, read
from compactor.tokens import Encode, count_text
from compactor.wording import Wording
from compactor.worth import IN_JSON, IN_TEXT, PROTECTED, Sort, key_factor, values_of

_HIDDEN: Final = 20  # lines; of fewer, the size in the header says enough
_MARK: Final = 6  # tokens of the mark that counts them
_CROWD: Final = 4  # values of one sort in a text; of more, each is worth less
_CROWDED: Final = 0.4
_OFTEN: Final = 2  # results that begin or end alike
_SPREAD: Final = 80  # tokens of a record-like result after which more of it is worth less
_FAILURES: Final = 0.4  # of the tokens for lines that tell of a failure, before anything else
_SMALLEST_PART: Final = 12  # tokens of such a line when it does not fit whole
_COUNTED: Final = re.compile(r"[a-z]+\d{1,2}")  # `step3`: a word and its number, no code
_ROUNDS: Final = 4  # the guess of tokens is corrected by counting so often


@dataclass(frozen=True, slots=True)
class Source:
    """One result to be shortened to `most` tokens; `least` of them are its own before the rest is shared."""

    text: str
    most: int
    wording: Wording
    least: int = 0


def extract(text: str, *, budget: int, encode: Encode, wording: Wording, known: frozenset[str] = frozenset()) -> str:
    """What of `text` is worth at most `budget` tokens; never empty for a text that has any line.

    `known` are values that stand in what is kept (`known_values`): they need not be shown again.
    """
    rows = [" ".join(row.split()) for row in text.splitlines() if row.strip()]
    whole = "\n".join(rows)
    if len(whole) <= 8 * budget and text.lstrip()[:1] not in ("{", "[") and count_text(whole, encode) <= budget:
        return whole
    body = extracts([Source(text, budget, wording)], total=budget, encode=encode, known=known)[0]
    return body if body or not rows else _cut(rows[0], budget, encode)


def extracts(
    sources: Sequence[Source], *, total: int, encode: Encode, known: frozenset[str] = frozenset()
) -> list[str]:
    """What of several results is worth `total` tokens together; a body is empty where nothing is."""
    choice = _Choice([_Part(read(source.text), source.most, source.least) for source in sources], known)
    room, bodies = float(total), [""] * len(sources)
    for _ in range(_ROUNDS):
        used = choice.fill(room)
        bodies = [_body(part, source.wording) for part, source in zip(choice.parts, sources, strict=True)]
        counted = [count_text(body, encode) for body in bodies]
        over = choice.correct(counted)
        if sum(counted) <= total and not over and (sum(counted) > 0.97 * total or used < 0.9 * room):
            return bodies
        room = used * 0.985 * total / max(1, sum(counted)) if used else room
    return _within(choice.parts, sources, total, encode)


def missing(text: str, summary: str, *, budget: int, encode: Encode, wording: Wording, known: frozenset[str]) -> str:
    """What a summary of `text` may not lose and lost: failures, codes, paths, addresses, days, amounts of money.

    At most `budget` tokens; empty when the summary or what is kept (`known`) holds them all.
    """
    whole = read(text)
    told = summary.lower()
    passages = [kept for passage in whole.passages if (kept := _protected(passage, told)) is not None]
    if not passages:
        return ""
    part = _Part(Read(passages, 0, whole.is_json), budget)
    _Choice([part], known | values_of(summary).keys()).fill(budget)
    return _within([part], [Source(text, budget, wording)], budget, encode)[0]


def _protected(passage: Passage, told: str) -> Passage | None:
    """The passage with its protected values alone; None when it has none and tells of no failure."""
    is_id = passage.key.lower().endswith("id")
    values = {
        value: sort
        for value, sort in passage.values.items()
        if (sort in PROTECTED and not _COUNTED.fullmatch(value)) or (sort is Sort.LARGE and is_id)
    }
    failed = passage.bonus >= FAILURE and passage.text.lower() not in told
    return replace(passage, values=values, bonus=FAILURE if failed else 0.0) if values or failed else None


def head_and_tail(text: str, *, chars: int, mark: str) -> str:
    """The first and last characters of a text around a mark, `chars` in all; surrogates stay whole."""
    head, tail = chars - chars // 2, chars // 2
    return f"{text[:head]}\n{mark}\n{text[len(text) - tail :] if tail else ''}".rstrip("\n")


@dataclass(slots=True)
class _Part:
    """One result while passages are chosen; `scale` corrects the guess of its tokens."""

    read: Read
    most: int
    least: int = 0
    scale: float = 1.0
    chosen: list[Passage] = field(default_factory=list[Passage])
    spent: float = 0.0
    opened: set[object] = field(default_factory=set[object])

    def clear(self) -> None:
        self.chosen, self.spent, self.opened = [], 0.0, set()

    def cost(self, passage: Passage) -> int:
        """Guessed tokens of a passage beside what is chosen already."""
        cost = passage.cost
        if not self.read.is_json:
            return cost + (1 if passage.group in self.opened else 0)
        if passage.group not in self.opened:
            cost += 2 if ("", passage.head) in self.opened else cost_of(passage.head) + 2
        if (passage.head, passage.key) not in self.opened:
            cost += cost_of(passage.key) + 1
        return cost

    def take(self, passage: Passage, cost: float) -> None:
        self.chosen.append(passage)
        self.spent += cost
        self.opened.update((passage.group, ("", passage.head), (passage.head, passage.key)))


class _Choice:
    """Chooses passages of several results, the most telling for their tokens first."""

    def __init__(self, parts: list[_Part], known: frozenset[str]) -> None:
        self.parts, self._known = parts, known
        self._seen: set[str] = set()
        self._taken: set[tuple[int, int]] = set()
        everywhere = Counter(value for part in parts for passage in part.read.passages for value in passage.values)
        _discount(parts)
        self._worth = [_worth(part.read, everywhere, known) for part in parts]

    def fill(self, room: float) -> float:
        """Takes passages for `room` guessed tokens; returns what they take."""
        self._seen, self._taken = set(self._known), set()
        for part in self.parts:
            part.clear()
        everything = range(len(self.parts))
        used = sum(self._take([number], part.least) for number, part in enumerate(self.parts) if part.least)
        used += self._take(everything, room * _FAILURES - used, failures=True)
        return used + self._take(everything, room - used)

    def _take(self, numbers: Iterable[int], room: float, *, failures: bool = False) -> float:
        """Takes passages of some results, as far as the guessed tokens go; returns what they take."""
        heap = [
            (-ratio, number, order)
            for number in numbers
            for order, passage in enumerate(self.parts[number].read.passages)
            if (not failures or passage.bonus >= FAILURE)
            and (number, order) not in self._taken
            and (ratio := self._ratio(number, passage)[0]) > 0
        ]
        heapq.heapify(heap)
        used = 0.0
        while heap and used < room:
            _, number, order = heapq.heappop(heap)
            part = self.parts[number]
            passage = part.read.passages[order]
            ratio, cost = self._ratio(number, passage)
            left = min(room - used, part.most * part.scale - part.spent)
            if ratio <= 0:
                continue
            if heap and -ratio > heap[0][0]:
                heapq.heappush(heap, (-ratio, number, order))
                continue
            if cost > left and passage.bonus >= FAILURE and left >= _SMALLEST_PART:
                passage, cost = _beginning(passage, left / cost), left
            if cost <= left:
                part.take(passage, cost)
                self._taken.add((number, order))
                self._seen.update(passage.values)
                used += cost
        return used

    def correct(self, counted: Sequence[int]) -> bool:
        """Learns how far the guesses were off; whether any result takes more than it may."""
        over = False
        for part, tokens in zip(self.parts, counted, strict=True):
            if tokens > part.most:
                part.scale *= 0.97 * part.most / tokens * part.spent / (part.most * part.scale)
                over = True
        return over

    def _ratio(self, number: int, passage: Passage) -> tuple[float, float]:
        """The worth of what a passage adds, over its tokens; and these."""
        part, worth, seen = self.parts[number], self._worth[number], self._seen
        gain = passage.bonus
        for value in passage.values:
            if value not in seen:
                gain += worth[value]
        cost = part.cost(passage)
        if part.read.is_json:
            gain *= key_factor(passage.key) / (1 + part.spent / _SPREAD) ** 1.6
        return gain / cost, cost


def _beginning(passage: Passage, share: float) -> Passage:
    """The first part of a line that does not fit whole."""
    text = f"{passage.text[: max(1, int(len(passage.text) * share) - 2)]}…"
    return replace(passage, text=text, values=values_of(text))


def _discount(parts: Sequence[_Part]) -> None:
    """A line that opens or ends every result of a tool tells nothing of any of them."""
    often = Counter(passage.text for part in parts for passage in part.read.passages if passage.is_edge)
    for part in parts:
        for passage in part.read.passages:
            if passage.is_edge and often[passage.text] > _OFTEN:
                passage.bonus -= EDGE


def _worth(whole: Read, everywhere: Counter[str], known: frozenset[str]) -> dict[str, float]:
    """What each value of a text is worth: by its sort, how often it occurs, and how many of its sort there are."""
    sorts: dict[str, Sort] = {}
    fields: set[str] = set()
    for passage in whole.passages:
        sorts.update(passage.values)
        if whole.is_json and not passage.is_part:
            fields.update(passage.values)
    crowd = Counter(sort for value, sort in sorts.items() if value not in known)
    return {
        value: IN_JSON[sort][times]
        if value in fields
        else IN_TEXT[sort][times] * max(0.25, crowd[sort] / _CROWD) ** -_CROWDED
        for value, sort in sorts.items()
        for times in (min(everywhere[value], 3) - 1,)
    }


def _within(parts: Sequence[_Part], sources: Sequence[Source], total: int, encode: Encode) -> list[str]:
    """The bodies after the least telling passages of those that are too large are gone."""
    bodies: list[str] = []
    left = total
    for part, source in zip(parts, sources, strict=True):
        body = _body(part, source.wording)
        while part.chosen and count_text(body, encode) > min(part.most, left):
            part.chosen = part.chosen[: len(part.chosen) * 9 // 10]
            body = _body(part, source.wording)
        left -= count_text(body, encode)
        bodies.append(body)
    return bodies


def _body(part: _Part, wording: Wording) -> str:
    if not part.chosen:
        return ""
    return _records(part.chosen) if part.read.is_json else _lines(part, wording)


def _records(chosen: Sequence[Passage]) -> str:
    """One line a record; of equal records in a row only the first names its keys."""
    lines: list[str] = []
    head, keys = "", [""]
    for _, group in groupby(sorted(chosen, key=lambda item: (item.group, item.place)), lambda item: item.group):
        fields = [(key, list(items)) for key, items in groupby(group, lambda item: item.key)]
        named = fields[0][1][0].head
        is_alike = named == head and keys == [key for key, _ in fields] and "" not in keys
        texts = [(" … " if items[0].is_part else ",").join(item.text for item in items) for _, items in fields]
        head_of_line = "" if not named else "- " if named == head and lines else f"{named}: "
        if is_alike:
            line = ", ".join(texts)
        else:
            line = " ".join(f"{key}={text}" if key else text for (key, _), text in zip(fields, texts, strict=True))
        lines.append(head_of_line + line)
        head, keys = named, [key for key, _ in fields]
    return "\n".join(lines)


def _lines(part: _Part, wording: Wording) -> str:
    """The chosen lines in order, and how many are hidden."""
    lines: list[str] = []
    shown = 0
    for _, group in groupby(sorted(part.chosen, key=lambda item: (item.group, item.place)), lambda item: item.group):
        items = list(group)
        count = max(item.count for item in items)
        shown += count
        line = " … ".join(item.text for item in items)
        lines.append(line if count == 1 else wording.lines_repeated.format(line=line, count=count))
    hidden = part.read.lines - shown
    if hidden > _HIDDEN:
        has_last = max(item.group for item in part.chosen) == part.read.lines - 1
        lines.insert(len(lines) - has_last, wording.lines_skipped.format(count=hidden))
    return "\n".join(lines)


def _cut(line: str, budget: int, encode: Encode) -> str:
    chars = max(1, 8 * budget)
    while chars > 1 and count_text(line[:chars], encode) > budget:
        chars //= 2
    return line[:chars]
