"""The values of a text that later calls are likely to need, and what each sort of them is worth.

A value is what nobody can guess: an address, a path, a day, an amount, a code that mixes letters and
digits, a name written as in code. The weights follow how often recorded agents used values of a sort
later on. Words are read once a process: tool output repeats itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from enum import IntEnum
from functools import lru_cache
from typing import Final


class Sort(IntEnum):
    """What a value is, as far as its worth depends on it."""

    URL = 0
    EMAIL = 1
    PATH = 2
    FILE = 3
    DAY = 4
    TIME = 5
    MONEY = 6
    NUMBER = 7  # three to five digits
    LARGE = 8  # six digits and more
    DECIMAL = 9  # at most two digits of a fraction
    PRECISE = 10
    CODE = 11
    NAME = 12
    FAULT = 13
    WORD = 14  # the whole of a value in JSON
    PHRASE = 15
    LINE = 16  # the number of a line, where a file is shown with them
    ROUND_LINE = 17  # a tenth one: where agents begin and end when they ask for a part


# What a summary may not lose: what cannot be had again without asking the tool.
PROTECTED: Final = frozenset({Sort.URL, Sort.EMAIL, Sort.PATH, Sort.DAY, Sort.MONEY, Sort.CODE, Sort.FAULT})

Weights = Mapping[int, tuple[float, float, float]]  # of a value that occurs once, twice, more often

IN_JSON: Final[Weights] = {
    Sort.URL: (1, 1, 1), Sort.EMAIL: (1, 1, 1), Sort.PATH: (6, 6, 6), Sort.FILE: (3, 3, 3),
    Sort.DAY: (1.2, 2.5, 1.5), Sort.TIME: (0.8, 0.8, 1.5), Sort.MONEY: (2, 2, 2), Sort.NUMBER: (2, 2.5, 2),
    Sort.LARGE: (2, 3.5, 3), Sort.DECIMAL: (1.7, 1.7, 1.7), Sort.PRECISE: (0.3, 0.3, 0.3), Sort.CODE: (3, 4, 5),
    Sort.NAME: (3, 4, 3.5), Sort.FAULT: (3, 3, 3), Sort.WORD: (1.5, 0.5, 1.2), Sort.PHRASE: (2.8, 1.7, 2.4),
    Sort.LINE: (0.1, 0.1, 0.1), Sort.ROUND_LINE: (0.2, 0.2, 0.2),
}  # fmt: skip
IN_TEXT: Final[Weights] = {
    Sort.URL: (0.3, 2, 4), Sort.EMAIL: (0.3, 0.3, 0.3), Sort.PATH: (0.4, 0.8, 0.8), Sort.FILE: (0.1, 0.2, 0.2),
    Sort.DAY: (0.3, 0.3, 0.3), Sort.TIME: (0.3, 0.3, 0.3), Sort.MONEY: (1, 1, 1), Sort.NUMBER: (0.7, 1.4, 1.2),
    Sort.LARGE: (0.2, 0.8, 0.6), Sort.DECIMAL: (1.2, 1.2, 1.2), Sort.PRECISE: (0.2, 0.2, 0.2),
    Sort.CODE: (0.3, 0.9, 1.3), Sort.NAME: (0.6, 1, 1.5), Sort.FAULT: (1.3, 1.3, 1.3), Sort.WORD: (1, 1, 1),
    Sort.PHRASE: (1, 1, 1), Sort.LINE: (0.15, 0.15, 0.15), Sort.ROUND_LINE: (0.3, 0.3, 0.3),
}  # fmt: skip
_WANTED: Final = re.compile(r"(?i)(?:name|title|price|total|amount|balance|id)")
_SELDOM: Final = re.compile(
    r"(?i)address|street|zip|postal|city|country|^state$|province|phone|birth|^dob$|created|updated|modified"
)

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
_LONGEST: Final = 300  # characters of a value
_WORDS: Final = 200_000  # remembered; about 40 MB at most

Values = tuple[tuple[str, Sort], ...]


def values_of(text: str) -> dict[str, Sort]:
    """The different values of a text, in lower case and in order."""
    return values_of_words(CHUNK.findall(text))


def values_of_words(words: Iterable[str]) -> dict[str, Sort]:
    """The different values of words that CHUNK finds, in lower case and in order."""
    found: dict[str, Sort] = {}
    for values in filter(None, map(values_of_word, words)):
        for value, sort in values:
            found.setdefault(value, sort)
    return found


def known_values(texts: Iterable[str]) -> frozenset[str]:
    """The values that stand in texts, and the file names of their paths."""
    found: set[str] = set()
    for chunk in {chunk for text in texts for chunk in CHUNK.findall(text)}:
        for value, sort in values_of_word(chunk):
            found.add(value)
            if sort is Sort.PATH:
                found.add(value.rpartition("/")[2])
    return frozenset(found)


def key_factor(key: str) -> float:
    """How much more a value under a JSON key is worth; parts of a postal address, say, are seldom asked for."""
    if _WANTED.fullmatch(key):
        return 1.75
    return 0.3 if _SELDOM.search(key) else 1.0


@lru_cache(maxsize=_WORDS)
def values_of_word(chunk: str) -> Values:
    """The values of a run of characters without spaces."""
    core = chunk.strip(_EDGES)
    if not 3 <= len(core) <= _LONGEST or (core.isalpha() and core[1:].islower()):  # a word of a language
        return ()
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
    if _NUMBER.fullmatch(part):
        return _of_number(part.replace(",", "").rstrip("%"))
    if _FILE.fullmatch(part):
        return ((part.lower(), Sort.FILE),)
    if _DOTTED.fullmatch(part):
        return ((part.lower(), Sort.CODE),)
    if "." in part:
        return tuple(found for inner in part.split(".") for found in _of_part(inner))
    if _FAULT.fullmatch(part):
        return ((part.lower(), Sort.FAULT),)
    if _NAME.fullmatch(part):
        return ((part.lower(), Sort.NAME),)
    if _CODE.fullmatch(part):
        return ((part.lower(), Sort.CODE),)
    if "-" in part:
        return tuple(found for inner in part.split("-") for found in _of_part(inner))
    return ()


def _of_number(plain: str) -> Values:
    if plain[0] in "$€£¥":
        return ((plain, Sort.MONEY),)
    whole, dot, fraction = plain.partition(".")
    if dot:
        return ((plain, Sort.DECIMAL if len(fraction) <= 2 else Sort.PRECISE),)
    if len(whole) > 2:
        return ((plain, Sort.LARGE if len(whole) > 5 else Sort.NUMBER),)
    return ()
