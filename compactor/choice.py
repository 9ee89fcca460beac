"""Which passages of several results are shown: the most telling for their tokens first.

The worth of a passage is that of its values which stand nowhere else yet; its tokens are guessed, and
the guess is corrected by counting what is chosen. Every passage waits in the queue of its result by a
worth that was true once, and is looked at anew when it comes first: what was chosen meanwhile may have
told its values already.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import chain
from typing import Final

from compactor.passages import EDGE, FAILURE, Passage, Read
from compactor.rows import cost_of
from compactor.words import values_of
from compactor.worth import IN_JSON, IN_TEXT, Sort, key_factor

_CROWD: Final = 4  # values of one sort in a text; of more, each is worth less
_CROWDED: Final = 0.4
_OFTEN: Final = 2  # results that begin or end alike
_SPREAD: Final = 80  # tokens of a record-like result after which more of it is worth less
_STEEP: Final = 1.6
_FAILURES: Final = 0.4  # of the tokens for lines that tell of a failure, before anything else
_SMALLEST_PART: Final = 12  # tokens of such a line when it does not fit whole
_FIRST: Final = 0.8  # of the tokens are filled before the guess is corrected by counting
_FULL: Final = 0.98  # of the tokens: close enough
_ROUNDS: Final = 2  # of counting
_MISSES: Final = 30  # passages in a row that do not fit any more
_ROOM: Final = 3  # tokens in which nothing fits

Count = Callable[[int], int]
_Entry = tuple[float, int]  # minus the worth over the tokens, and the passage's place in its result
_key_cost: Final = lru_cache(maxsize=4_096)(cost_of)
_key_factor: Final = lru_cache(maxsize=4_096)(key_factor)


@dataclass(slots=True)
class Part:
    """One result of which at most `most` tokens are chosen, `least` of them before the rest is shared.

    `rate`: how many tokens a guessed one turned out to be.
    """

    read: Read
    most: int
    least: int = 0
    rate: float = 1.0
    chosen: list[Passage] = field(default_factory=list[Passage])
    spent: float = 0.0
    spread: float = 1.0  # how much of its worth more of this result has
    worth: dict[str, float] = field(default_factory=dict[str, float])
    taken: set[int] = field(default_factory=set[int])
    _opened: set[object] = field(default_factory=set[object])
    _costs: list[float] = field(default_factory=list[float])

    @property
    def left(self) -> float:
        """Tokens that it may still take."""
        return self.most - self.spent * self.rate

    def cost(self, passage: Passage) -> int:
        """Guessed tokens of a passage beside what is chosen already."""
        cost, opened = passage.cost, self._opened
        if not self.read.is_json:
            return cost + (passage.group in opened)
        if passage.group not in opened:
            cost += 2 if ("", passage.head) in opened else _key_cost(passage.head) + 2
        if (passage.head, passage.key) not in opened:
            cost += _key_cost(passage.key) + 1
        return cost

    def take(self, order: int, passage: Passage, cost: float) -> None:
        self.taken.add(order)
        self.chosen.append(passage)
        self._costs.append(cost)
        self.spent += cost
        self._opened.add(passage.group)
        if self.read.is_json:
            self._respread()
            self._opened.update((("", passage.head), (passage.head, passage.key)))

    def drop(self, tokens: float) -> float:
        """Drops what was taken last, for at least so many tokens, as far as is guessed; returns what it took."""
        dropped = 0.0
        while self.chosen and dropped < tokens:
            self.chosen.pop()
            cost = self._costs.pop()
            self.spent -= cost
            dropped += cost * self.rate
        if self.read.is_json:
            self._respread()
        return dropped

    def _respread(self) -> None:
        self.spread = (1 + self.spent / _SPREAD) ** -_STEEP


def choose(parts: Sequence[Part], *, total: int, known: frozenset[str], count: Count) -> None:
    """Chooses passages of all parts for at most `total` tokens; `count(number)` those of what is chosen of one.

    `known` are values that need not be shown.
    """
    choice = _Choice(parts, known)
    choice.begin(total)
    for _ in range(_ROUNDS):
        counted = choice.counted(count)
        if counted >= _FULL * total or not choice.fill(total - counted):
            break
    while (counted := choice.counted(count)) > total:
        choice.drop(counted - total)


class _Choice:
    """The queues of several results, and what is chosen of them."""

    def __init__(self, parts: Sequence[Part], known: frozenset[str]) -> None:
        self._parts = parts
        self._seen = set(known)
        self._takes: list[Part] = []
        everywhere = Counter(chain.from_iterable(passage.values for part in parts for passage in part.read.passages))
        _discount(parts)
        for part in parts:
            part.worth = _worth(part.read, everywhere, known)
        self._queues = [_Queue(part, self._entries(part, 0)) for part in parts]

    def begin(self, total: int) -> None:
        """Takes the least of every result, what tells of failures, and the best, while the tokens are but guessed."""
        used = sum(self._take([queue], queue.part.least) for queue in self._queues if queue.part.least)
        failures = [queue.failures() for queue in self._queues]
        used += self._take(failures, _FAILURES * total - used)
        self._take(self._queues, _FIRST * total - used, most=total - used)

    def fill(self, room: float) -> float:
        """Takes passages for so many more tokens; returns what they take."""
        return self._take(self._queues, room)

    def counted(self, count: Count) -> int:
        """Tokens of what is chosen; from them the guesses learn. What makes a part too large is dropped."""
        tokens = [count(number) for number in range(len(self._parts))]
        for number, part in enumerate(self._parts):
            if part.spent:
                part.rate = tokens[number] / part.spent
            while tokens[number] > part.most:
                part.drop(tokens[number] - part.most)
                tokens[number] = count(number)
        return sum(tokens)

    def drop(self, tokens: int) -> None:
        """Drops what was taken last, for so many tokens."""
        dropped = 0.0
        while dropped < tokens:
            part = self._takes.pop()
            dropped += part.drop(1)

    def _entries(self, part: Part, first: int) -> list[_Entry]:
        """The queue's entries of a part's passages from one on."""
        entries: list[_Entry] = []
        worth, seen, is_json = part.worth, self._seen, part.read.is_json
        for order in range(first, len(part.read.passages)):
            passage = part.read.passages[order]
            if is_json:
                gain, cost = self._ratio(part, passage), 1
            else:  # what `_ratio` does, for the many lines of a text
                gain, cost = passage.bonus, passage.cost
                for value in passage.values:
                    if value not in seen:
                        gain += worth[value]
            if gain > 0:
                entries.append((-gain / cost, order))
        return entries

    def _add_plain(self, queue: _Queue) -> bool:
        """Puts the plain lines of a result into its queue, which is empty; whether there are any."""
        if queue.is_whole and queue.part.read.plain:
            queue.entries += self._entries(queue.part, queue.part.read.with_plain())
            heapq.heapify(queue.entries)
        return bool(queue.entries)

    def _take(self, queues: Sequence[_Queue], room: float, *, most: float = 0) -> float:
        """Takes the best passages of some queues, as far as the tokens go; returns what they take.

        The last one may go beyond `room`, up to `most`.
        """
        first = [
            (queue.best(), number) for number, queue in enumerate(queues) if queue.entries or self._add_plain(queue)
        ]
        heapq.heapify(first)
        aside: list[tuple[_Queue, _Entry]] = []
        used, end = 0.0, max(room, most)
        while first and room - used >= _ROOM and len(aside) < _MISSES:
            _, number = heapq.heappop(first)
            queue = queues[number]
            part = queue.part
            entry = self._fresh(queue, first[0][0] if first else 0.0)
            if entry is not None:
                tokens = self._fit(part, entry[1], min(end - used, part.left))
                used += tokens
                if not tokens:
                    aside.append((queue, entry))
            if part.left >= _ROOM and (queue.entries or self._add_plain(queue)):
                heapq.heappush(first, (queue.best(), number))
        for queue, entry in aside:
            heapq.heappush(queue.entries, entry)
        return used

    def _fresh(self, queue: _Queue, other: float) -> _Entry | None:
        """Takes the first entry out of a queue if it is still the best: of all queues, `other` being the next one's."""
        part = queue.part
        _, order = heapq.heappop(queue.entries)
        if order in part.taken:
            return None
        ratio = self._ratio(part, part.read.passages[order])
        if ratio <= 0:
            return None
        entry = -ratio, order
        if (queue.entries and entry > queue.entries[0]) or entry[0] * part.spread > other < 0:
            heapq.heappush(queue.entries, entry)
            return None
        return entry

    def _fit(self, part: Part, order: int, left: float) -> float:
        """Takes a passage if it fits into what is left; returns its tokens, 0 when it does not."""
        passage = part.read.passages[order]
        cost: float = part.cost(passage)
        tokens = cost * part.rate
        if tokens > left and passage.bonus >= FAILURE and left >= _SMALLEST_PART:
            passage = _beginning(passage, left / tokens)
            cost, tokens = left / part.rate, left
        if tokens > left:
            return 0
        part.take(order, passage, cost)
        self._takes.append(part)
        self._seen.update(passage.values)
        return tokens

    def _ratio(self, part: Part, passage: Passage) -> float:
        """The worth of what a passage adds, over its tokens."""
        worth, seen = part.worth, self._seen
        gain = passage.bonus
        for value in passage.values:
            if value not in seen:
                gain += worth[value]
        if not gain:
            return 0.0
        if part.read.is_json:
            gain *= _key_factor(passage.key)
        return gain / part.cost(passage)


class _Queue:
    """What of a part waits to be chosen."""

    __slots__ = ("entries", "is_whole", "part")

    def __init__(self, part: Part, entries: list[_Entry], *, is_whole: bool = True) -> None:
        self.part, self.entries, self.is_whole = part, entries, is_whole
        heapq.heapify(entries)

    def best(self) -> float:
        """Minus the worth of the first over its tokens, as far as is known."""
        return self.entries[0][0] * self.part.spread

    def failures(self) -> _Queue:
        """A queue of those that tell of a failure."""
        passages = self.part.read.passages
        failures = [entry for entry in self.entries if passages[entry[1]].bonus >= FAILURE]
        return _Queue(self.part, failures, is_whole=False)


def _beginning(passage: Passage, share: float) -> Passage:
    """The first part of a line that does not fit whole."""
    text = f"{passage.text[: max(1, int(len(passage.text) * share) - 2)]}…"
    return replace(passage, text=text, values=values_of(text))


def _discount(parts: Sequence[Part]) -> None:
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
    crowd = Counter([sort for value, sort in sorts.items() if value not in known])
    in_text = {sort: max(0.25, crowd[sort] / _CROWD) ** -_CROWDED for sort in set(sorts.values())}
    worth: dict[str, float] = {}
    for value, sort in sorts.items():
        times = everywhere[value]
        place = times - 1 if times < 3 else 2
        worth[value] = IN_JSON[sort][place] if value in fields else IN_TEXT[sort][place] * in_text[sort]
    return worth
