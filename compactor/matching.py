"""match(history, rows): what a caller's own list is to the stored history.

Messages are compared by fingerprint: a row is a stored message when it equals its original or its
replacement. In this order a list is taken for: the history or a beginning of it; the same with new
messages behind it; one that lost messages on the way (trimmed heads, left-out middles), likewise;
and else a branch: what is stored behind the fork leaves the history. The latest user message that
came with a list may come back in other words.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from compactor.folded import folds_among, row_of, with_told
from compactor.formats.openai import media_of, text_of
from compactor.history import read_history
from compactor.models import Kind, Message
from compactor.records import Encoded
from compactor.repair import is_closing, open_calls, repair
from compactor.returned import Region, cut_position, expand, is_shortened, ours_among

_WHOLE: Final = 12  # characters that are no accident when they stand in another text
_REPEATED: Final = 3  # messages of a history's beginning that new ones may repeat at its end, word for word
_ENOUGH: Final = 0.5  # of the shorter text, shared at its ends


@dataclass(frozen=True, slots=True)
class Match:
    """How the items of a list stand to the history: its rows, and what a view among them had left out.

    `places[i]` is the index in the history of item i, or None for a message to be stored; those are
    the last ones. `branch` is the index from which the history is left, `reword` the item whose
    stored words are to change, `own_words` those that are sent as the caller has them; `closed` says
    that an earlier answer had closed calls among the rows, which are open in the history. With `gaps`
    the list lacks some of the history before its new messages.
    """

    items: tuple[Encoded, ...]
    places: tuple[int | None, ...]
    branch: int | None = None
    reword: int | None = None
    own_words: frozenset[int] = frozenset()
    closed: bool = False
    gaps: bool = False

    @property
    def stored(self) -> int:
        """How many items are in the history already."""
        return next((index for index, place in enumerate(self.places) if place is None), len(self.places))

    @property
    def changes(self) -> bool:
        return self.stored < len(self.items) or self.reword is not None


def match(
    history: Sequence[Message], rows: Sequence[Encoded], *, lead: int = 0, sent: Collection[bytes] = frozenset()
) -> Match:
    """Places each row; `lead` stored messages are the system text and compared with nothing.

    `sent` are fingerprints of results that this process handed out cut short.
    """
    live = [i for i in range(lead, len(history)) if history[i].kind is not Kind.TOMBSTONE]
    shown = [history[i] for i in live]
    said = without_closings(history, shown, rows)
    closed = len(said) < len(rows)
    found = _matched(history, live, with_told(shown, said), sent)
    if not all(item.text for item in found.items[found.stored :]):
        # A fold leaves the history, or left it: its text is all that the list has. Those before it stay what they are.
        said = [*found.items[: found.stored], *(item for item in found.items[found.stored :] if item.text)]
        found = _matched(history, live, said, sent)
    return replace(found, closed=closed or found.closed)


def _matched(
    history: Sequence[Message], live: Sequence[int], rows: Sequence[Encoded], sent: Collection[bytes]
) -> Match:
    regions, closed = _regions([history[i] for i in live], rows)
    matcher = _Matcher(history, live, *_items(history, live, rows, regions), sent)
    return replace(matcher.beginning() or matcher.with_gaps() or matcher.branch(), closed=closed)


def without_closings(history: Sequence[Message], live: Sequence[Message], rows: Sequence[Encoded]) -> Sequence[Encoded]:
    """The rows without results of ours that closed, in an earlier answer alone, a call that is open in the history."""
    if not any(is_closing(row.value) for row in rows):
        return rows
    steps = read_history([message.value for message in live]).steps
    waiting = {(live[step.start].own, call.id) for step in steps if step.open for call in open_calls(step)}
    stored = {message.own for message in history}  # by close_open_calls
    said: list[Encoded] = []
    asked = b""
    for row in rows:
        if row.value.get("role") == "assistant":
            asked = row.own
        name = row.value.get("tool_call_id")
        closes = (asked, name if isinstance(name, str) else None) in waiting
        if not (closes and is_closing(row.value) and row.own not in stored):
            said.append(row)
    return said


def _items(
    history: Sequence[Message], live: Sequence[int], rows: Sequence[Encoded], regions: Sequence[Region]
) -> tuple[list[Encoded], list[int | None]]:
    """The rows, where a view of ours stands among them with what it had left out (by index into `live`)."""
    items: list[Encoded] = []
    known: list[int | None] = []
    start = 0
    for region in regions:
        items += rows[start : region.first]
        known += [None] * (region.first - start)
        items += [row_of(history[live[k]]) for k in region.places]
        known += region.places
        start = region.end
    return [*items, *rows[start:]], [*known, *[None] * (len(rows) - start)]


def _regions(live: Sequence[Message], rows: Sequence[Encoded], *, whole: bool = False) -> tuple[Sequence[Region], bool]:
    """The regions of a list that are a view of ours, and whether what they hide had calls that the answer closed."""
    regions = expand(live, rows, whole=whole)
    mended = repair(live, len).messages if ours_among(rows) else live
    if mended is live:
        return regions, False
    places = {id(message): place for place, message in enumerate(live)}
    names = [places.get(id(message)) for message in mended]  # None for what closes a call
    hidden = expand(mended, rows, whole=whole)
    closed = [
        replace(region, places=sorted(place for k in region.places if (place := names[k]) is not None))
        for region in hidden
    ]
    if sum(len(region.places) for region in closed) <= sum(len(region.places) for region in regions):
        return regions, False
    return closed, any(names[k] is None for region in hidden for k in region.places)


def expanded(messages: Sequence[Message], rows: Sequence[Encoded]) -> list[Encoded]:
    """The rows, with what a view of these messages had left out or cut as it was.

    What folds tell of is not among them: it stands behind its fold wherever the list is matched. So a sentence over a
    part of a fold stays, since the rest of it stands in the list already.
    """
    folds = [frozenset(fold.indexes) for fold in folds_among([message.kind for message in messages])]
    whole = with_told(messages, rows)
    told = {id(row) for row in whole} - {id(row) for row in rows}
    found, _ = _regions(messages, whole, whole=True)
    regions = [region for region in found if not any(_parts(region, fold) for fold in folds)]
    items = _items(messages, range(len(messages)), whole, regions)[0]
    places = {message.position: message for message in messages if not message.folded}
    pictured = [message for message in places.values() if media_of(message.value)]
    known = {message.own for message in messages}
    kept = [row for row in items if row.text and id(row) not in told]
    return [row if row.own in known else _uncut(places, pictured, row) for row in kept]


def _uncut(places: Mapping[int, Message], pictured: Sequence[Message], row: Encoded) -> Encoded:
    """The message that a row is when a view had cut it, else the row; one that lost its media alone tells no place."""
    position = cut_position(row.value)
    likely = pictured if position is None else [places[position]] if position in places else []
    return next((row_of(message) for message in likely if is_shortened(row.value, message)), row)


def _parts(region: Region, fold: frozenset[int]) -> bool:
    """Whether a region holds some messages of a fold, and not all."""
    return 0 < len(fold.intersection(region.places)) < len(fold)


@dataclass(slots=True)
class _Matcher:
    history: Sequence[Message]
    live: Sequence[int]
    items: Sequence[Encoded]
    known: Sequence[int | None]
    sent: Collection[bytes] = frozenset()
    soft: int = -1
    walked: int = 0
    owns: frozenset[bytes] = frozenset()
    is_older: bool = False

    def __post_init__(self) -> None:
        self.owns = frozenset(self.history[index].own for index in self.live)
        users = [k for k, index in enumerate(self.live) if self.history[index].value.get("role") == "user"]
        self.soft = users[-1] if users and self.history[self.live[users[-1]]].soft else -1
        # Behind the latest question in other words no question of before can stand.
        self.is_older = any(row.value.get("role") == "user" and row.own in self.owns for row in self.items[1:])

    def same(self, i: int, k: int) -> bool:
        """Whether item i is the live message k."""
        known, row = self.known[i], self.items[i]
        if known is not None:
            return known == k
        message = self.history[self.live[k]]
        if row.own in message.names:
            return True
        if message.kind is Kind.CORRUPT:
            return self._stands_in(i, k)
        return is_shortened(row.value, message, sent=self.sent)

    def _stands_in(self, i: int, k: int) -> bool:
        """Whether item i may be the record k that cannot be read: what follows both is the same."""
        if i + 1 >= len(self.items) or k + 1 >= len(self.live):
            return False
        return self.history[self.live[k + 1]].kind is not Kind.CORRUPT and self.same(i + 1, k + 1)

    def rewords(self, i: int, k: int) -> bool:
        """Whether item i is the live user message k in other words of its caller."""
        row = self.items[i]
        if k != self.soft or self.known[i] is not None or row.value.get("role") != "user":
            return False
        follows = not self.is_older if i == 0 else k > 0 and self.same(i - 1, k - 1)
        if not follows or row.own in self.owns:
            return False
        if not similar(text_of(self.history[self.live[k]].value), text_of(row.value)):
            return False
        ends = i + 1 == len(self.items) or k + 1 == len(self.live)
        return ends or self.same(i + 1, k + 1)

    def beginning(self) -> Match | None:
        """The history from its first message on: a beginning of it, all of it, or more."""
        while self.walked < min(len(self.items), len(self.live)):
            if not (self.same(self.walked, self.walked) or self.rewords(self.walked, self.walked)):
                return None
            self.walked += 1
        return self._found({i: i for i in range(self.walked)})

    def with_gaps(self) -> Match | None:
        """Some messages of the history in order: up to its last one with new ones behind, or none new."""
        if not self.live:
            return None
        # What begins as the history does is no new end of it because it comes past a message like the last one.
        for end in range(self._in_order_before_last(), max(0, self.walked - _REPEATED - 1), -1):
            if self.same(end - 1, len(self.live) - 1) or self.rewords(end - 1, len(self.live) - 1):
                places = self._backwards(end)
                if places is not None:
                    return replace(self._found(places), gaps=True)
        places = self._backwards(len(self.items))
        return None if places is None else self._found(places)

    def _in_order_before_last(self) -> int:
        """How many items can end at the last live message at most: the others stand in order before it."""
        i = 0
        for k in range(len(self.live) - 1):
            if i < len(self.items) and (self.same(i, k) or self.rewords(i, k)):
                i += 1
        return min(i + 1, len(self.items))

    def _backwards(self, end: int) -> dict[int, int] | None:
        """Places for the first `end` items, each as late as possible."""
        places: dict[int, int] = {}
        k = len(self.live) - 1
        for i in range(end - 1, -1, -1):
            while k >= 0 and not (self.same(i, k) or self.rewords(i, k)):
                k -= 1
            if k < 0:
                return None
            places[i] = k
            k -= 1
        return places

    def branch(self) -> Match:
        """The longest common beginning, or run, of both; what is stored behind it is left."""
        start, length = 0, self.walked
        if not length:
            length, start = self._longest_run()
        found = self._found({i: start + i for i in range(length)})
        after = start + length
        return replace(found, branch=self.live[after] if after < len(self.live) else None, gaps=start > 0)

    def _longest_run(self) -> tuple[int, int]:
        """The longest beginning of the items that stands in one piece in the history, the latest such: length, start.

        Each message is looked at a constant number of times (Knuth, Morris and Pratt), however often texts repeat.
        """
        names = [row.own if known is None else known for row, known in zip(self.items, self.known, strict=True)]
        shorter = _overlaps(names)
        best, length = (0, 0), 0
        for k in range(len(self.live)):
            while length and (length == len(names) or not self.same(length, k)):
                length = shorter[length - 1]
            length += bool(names) and self.same(length, k)
            best = max(best, (length, k + 1 - length) if length else best)
        return best

    def _found(self, places: Mapping[int, int]) -> Match:
        """The match with these places; messages in other words are stored anew unless the list is stale."""
        other = [i for i, k in places.items() if not self.same(i, k)]
        unreadable = [i for i, k in places.items() if self.history[self.live[k]].kind is Kind.CORRUPT]
        settles = [
            i for i in other if places[i] == len(self.live) - 1 or (i + 1 in places and places[i + 1] == places[i] + 1)
        ]
        return Match(
            items=tuple(self.items),
            places=tuple(self.live[places[i]] if i in places else None for i in range(len(self.items))),
            reword=settles[0] if settles else None,
            own_words=frozenset([*other, *unreadable]),
        )


def _overlaps(names: Sequence[object]) -> list[int]:
    """For each beginning of a list: how long its longest proper end is that is a beginning as well."""
    found = [0] * len(names)
    length = 0
    for i in range(1, len(names)):
        while length and names[i] != names[length]:
            length = found[length - 1]
        length += names[i] == names[length]
        found[i] = length
    return found


def similar(one: str, other: str) -> bool:
    """Whether two texts may be one message with other surroundings: retrieved text, a reminder.

    They share their first or last line, or more than half of the shorter one at their ends, or the longer one holds
    all of the other.
    """
    if not one or not other:
        return False
    if _line(one, first=True) == _line(other, first=True) or _line(one, first=False) == _line(other, first=False):
        return True
    shorter, longer = sorted((one.strip(), other.strip()), key=len)
    if len(shorter) >= _WHOLE and shorter in longer:
        return True
    ahead = _shared(one, other)
    behind = _shared(one[ahead:][::-1], other[ahead:][::-1])
    return ahead + behind > _ENOUGH * min(len(one), len(other))


def _shared(one: str, other: str) -> int:
    """How many characters two texts begin with alike."""
    return next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def _line(text: str, *, first: bool) -> str:
    lines = text.strip().splitlines()
    return lines[0 if first else -1] if lines else ""
