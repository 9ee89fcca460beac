"""The words of a text: the values in them that later calls are likely to need, and what they may begin.

A value is what nobody can guess: an address, a path, a day, an amount, a code that mixes letters and
digits, a name written as in code. Words are read once a process: tool output repeats itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, NamedTuple

from compactor.error_lines import FAILURE_ENDS, FAILURE_STEMS
from compactor.orders import ORDER_STEMS
from compactor.worth import Sort

# Long enough words are kept apart by spaces and quotes alone; a thousands separator stays inside.
CHUNK: Final = re.compile(r"[$€£¥]?\d{1,3}(?:,\d{3})+(?!\d)(?:\.\d+)?|[A-Za-z0-9_$€£¥#~./@:+%-]{3,}", re.ASCII)
_EDGES: Final = "./:+-#~%_@"
_EMAIL: Final = re.compile(r"[\w.+%-]+@[\w-]+(?:\.[\w-]+)+", re.ASCII)
_DAY: Final = re.compile(r"\d{4}-\d\d-\d\d(?:T[\d:.]+Z?)?", re.ASCII)
_TIME: Final = re.compile(r"\d{1,2}:\d\d(?::\d\d)?", re.ASCII)
_NUMBER: Final = re.compile(r"[$€£¥]?\d[\d,]*(?:\.\d+)?%?", re.ASCII)
_DOTTED: Final = re.compile(r"v?\d+(?:\.\d+){2,}", re.ASCII)
_FILE: Final = re.compile(
    r"[\w-][\w.-]*\.(?:py|pyi|js|ts|tsx|jsx|md|rst|json|ya?ml|toml|txt|cfg|ini|sh|c|h|cpp|go|rs|java|csv|log|html?|xml|sql)"
)
_CODE: Final = re.compile(r"(?=[\w-]*\d)(?=[\w-]*[A-Za-z])[A-Za-z0-9][\w-]{3,}", re.ASCII)
_NAME: Final = re.compile(
    r"_*[A-Za-z]+[A-Za-z0-9]*(?:_+[A-Za-z0-9]+)+|[a-z]+(?:[A-Z][a-z0-9]*)+|[A-Z][a-z0-9]+(?:[A-Z][a-z0-9]+)+"
)
_FAULT: Final = re.compile(r"[A-Z]\w*(?:Error|Exception|Warning|Failure)")
_PARTS: Final = re.compile(r"[:/@+%~#]+")
_LETTERS: Final = re.compile(r"[a-z]+")
_LONGEST: Final = 300  # characters of a value
_MOST: Final = 200_000  # words remembered; about 40 MB at most

Values = tuple[tuple[str, Sort], ...]


class Word(NamedTuple):
    """A word that says something: its values, and the literal texts that a line with an order or a failure holds."""

    values: Values
    orders: tuple[str, ...]
    failures: tuple[str, ...]
    is_mark: bool  # has any of these texts


class _Words(dict[str, Word | None]):
    """What is known of the words that were read; None of one that says nothing."""

    def __missing__(self, chunk: str) -> Word | None:
        is_plain = chunk.isalpha()
        values = () if is_plain and chunk[1:].islower() else _values(chunk)  # nothing in a word of a language
        orders: set[str] = set()
        failures: set[str] = set()
        low = chunk.lower()
        for run in (low,) if is_plain else _LETTERS.findall(low):
            if run in ORDER_STEMS:
                orders.update(ORDER_STEMS[run])
            if run in FAILURE_STEMS or run.endswith(FAILURE_ENDS):
                failures.update(FAILURE_STEMS.get(run, FAILURE_ENDS))
        is_mark = bool(orders or failures)
        word = Word(values, tuple(orders), tuple(failures), is_mark) if values or is_mark else None
        if len(chunk) <= _LONGEST:
            if len(self) >= _MOST:
                self.clear()
            self[chunk] = word
        return word


known_words: Final = _Words()
word_of: Final = known_words.__getitem__


def values_of(text: str) -> dict[str, Sort]:
    """The different values of a text, in lower case and in order."""
    return values_of_words(filter(None, map(word_of, CHUNK.findall(text))))


def values_of_words(words: Iterable[Word]) -> dict[str, Sort]:
    """The different values of words, in lower case and in order."""
    found: dict[str, Sort] = {}
    for word in words:
        for value, sort in word.values:
            found.setdefault(value, sort)
    return found


def known_values(texts: Iterable[str]) -> frozenset[str]:
    """The values that stand in texts, and the file names of their paths."""
    found: set[str] = set()
    for word in filter(None, map(word_of, {chunk for text in texts for chunk in CHUNK.findall(text)})):
        for value, sort in word.values:
            found.add(value)
            if sort is Sort.PATH:
                found.add(value.rpartition("/")[2])
    return frozenset(found)


def _values(chunk: str) -> Values:
    """The values of a run of characters without spaces."""
    core = chunk.strip(_EDGES)
    if not 3 <= len(core) <= _LONGEST or (core.isalpha() and core[1:].islower()):  # a word of a language
        return ()
    if core.isidentifier():
        return _of_name(core)
    if core.isdecimal():
        return _of_number(core)
    if "://" in core:
        return ((core.lower(), Sort.URL),)
    if "@" in core and _EMAIL.fullmatch(core):
        return ((core.lower(), Sort.EMAIL),)
    if _DAY.fullmatch(core):
        return ((core.lower(), Sort.DAY),)
    if _TIME.fullmatch(core):
        return ((core, Sort.TIME),)
    if "/" in core and _is_path(core):
        return ((core.partition(":")[0].lower(), Sort.PATH),)
    return tuple(found for part in _PARTS.split(core) for found in _of_part(part.strip(".-")))


def _is_path(core: str) -> bool:
    parts = core.split("/")
    return sum(1 for part in parts if any(map(str.isalpha, part))) > 1 or _FILE.fullmatch(parts[-1]) is not None


def _of_part(part: str) -> Values:
    """The values of a run that holds neither `/`, `@` nor `:`."""
    if len(part) < 2:
        return ()
    if part.isidentifier():
        return _of_name(part)
    if _NUMBER.fullmatch(part):
        return _of_number(part.replace(",", "").rstrip("%"))
    if "." in part:
        if _FILE.fullmatch(part):
            return ((part.lower(), Sort.FILE),)
        if _DOTTED.fullmatch(part):
            return ((part.lower(), Sort.CODE),)
        return tuple(found for inner in part.split(".") for found in _of_part(inner))
    if _CODE.fullmatch(part):
        return ((part.lower(), Sort.CODE),)
    return tuple(found for inner in part.split("-") for found in _of_part(inner)) if "-" in part else ()


def _of_name(name: str) -> Values:
    """The value of a run of letters, digits and `_` that begins with no digit."""
    if _FAULT.fullmatch(name):
        return ((name.lower(), Sort.FAULT),)
    if _NAME.fullmatch(name):
        return ((name.lower(), Sort.NAME),)
    return ((name.lower(), Sort.CODE),) if _CODE.fullmatch(name) else ()


def _of_number(plain: str) -> Values:
    if plain[0] in "$€£¥":
        return ((plain, Sort.MONEY),)
    whole, dot, fraction = plain.partition(".")
    if dot:
        return ((plain, Sort.DECIMAL if len(fraction) <= 2 else Sort.PRECISE),)
    if len(whole) > 2:
        return ((plain, Sort.LARGE if len(whole) > 5 else Sort.NUMBER),)
    return ()
