"""extract(text): a shortened tool result without a model; the same text always gives the same lines.

What is shown is chosen by the worth of the values that stand nowhere else, over the tokens it takes:
`key = value` of records, lines that tell of a failure, values with the word before them, the first and
the last line. Several results share their tokens, so that those with more to tell get more.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from operator import attrgetter
from typing import Final

from compactor.choice import Part, choose
from compactor.json_passages import read
from compactor.passages import FAILURE, Passage, Read
from compactor.tokens import Encode, count_text
from compactor.wording import Wording
from compactor.words import values_of
from compactor.worth import PROTECTED, Sort

_GROUP: Final = attrgetter("group")
_PLACE: Final = attrgetter("group", "place")
_KEY: Final = attrgetter("key")
_HIDDEN: Final = 20  # lines; of fewer, the size in the header says enough
_COUNTED: Final = re.compile(r"[a-z]+\d{1,2}")  # `step3`: a word and its number, no code


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
    parts = [Part(read(source.text), source.most, source.least) for source in sources]
    return _chosen(parts, sources, total, encode, known)


def missing(text: str, summary: str, *, budget: int, encode: Encode, wording: Wording, known: frozenset[str]) -> str:
    """What a summary of `text` may not lose and lost: failures, codes, paths, addresses, days, amounts of money.

    At most `budget` tokens; empty when the summary or what is kept (`known`) holds them all.
    """
    whole = read(text)
    told = summary.lower()
    passages = [kept for passage in whole.passages if (kept := _protected(passage, told)) is not None]
    if not passages:
        return ""
    part = Part(Read(passages, 0, whole.is_json), budget)
    known |= values_of(summary).keys()
    return _chosen([part], [Source(text, budget, wording)], budget, encode, known)[0]


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


def _chosen(
    parts: list[Part], sources: Sequence[Source], total: int, encode: Encode, known: frozenset[str]
) -> list[str]:
    """The bodies of what is chosen of each part."""
    bodies = _Bodies(parts, sources, encode)
    choose(parts, total=total, known=known, count=bodies.count)
    return bodies.texts


class _Bodies:
    """What is chosen of each result, written and counted anew when it changed."""

    def __init__(self, parts: Sequence[Part], sources: Sequence[Source], encode: Encode) -> None:
        self._parts, self._sources, self._encode = parts, sources, encode
        self._counted = [(0, 0)] * len(parts)  # passages, tokens
        self.texts = [""] * len(parts)

    def count(self, number: int) -> int:
        """Tokens of what is chosen of one result."""
        part = self._parts[number]
        passages, tokens = self._counted[number]
        if passages != len(part.chosen):
            self.texts[number] = _body(part, self._sources[number].wording)
            tokens = count_text(self.texts[number], self._encode)
            self._counted[number] = len(part.chosen), tokens
        return tokens


def _body(part: Part, wording: Wording) -> str:
    if not part.chosen:
        return ""
    return _records(part.chosen) if part.read.is_json else _lines(part, wording)


def _records(chosen: Sequence[Passage]) -> str:
    """One line a record; of equal records in a row only the first names its keys."""
    lines: list[str] = []
    head, keys = "", [""]
    for _, group in groupby(sorted(chosen, key=_PLACE), _GROUP):
        items = list(group)
        named = items[0].head
        fields = [(key, _joined(list(same))) for key, same in groupby(items, _KEY)]
        names = [key for key, _ in fields]
        if named == head and keys == names and "" not in keys:
            line = ", ".join([text for _, text in fields])
        else:
            line = " ".join([f"{key}={text}" if key else text for key, text in fields])
        lines.append(("" if not named else "- " if named == head and lines else f"{named}: ") + line)
        head, keys = named, names
    return "\n".join(lines)


def _joined(items: Sequence[Passage]) -> str:
    """What is shown of one field of a record."""
    if len(items) == 1:
        return items[0].text
    return (" … " if items[0].is_part else ",").join([item.text for item in items])


def _lines(part: Part, wording: Wording) -> str:
    """The chosen lines in order, and how many are hidden."""
    lines: list[str] = []
    shown = 0
    for _, group in groupby(sorted(part.chosen, key=_PLACE), _GROUP):
        items = list(group)
        count = max([item.count for item in items])
        shown += count
        line = items[0].text if len(items) == 1 else " … ".join([item.text for item in items])
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
