"""Identifiers of a text, and whether another text holds them: what a summary may not invent.

Judged are addresses of every kind, paths and file names, days, numbers and amounts, and words that
mix letters with digits. Words without a digit are a model's own and are not judged. Everything is
linear in the texts: a result may be megabytes long and written by anybody.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Final

# Full-width forms, as Chinese text writes digits, letters and punctuation, and what is the same in ASCII.
_NARROW: Final = {0xFF01 + shift: 0x21 + shift for shift in range(94)} | {0x3000: " ", 0x00A0: " ", 0x202F: " "}
_MONTHS: Final = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_MONTH: Final = rf"({'|'.join(_MONTHS)})[a-z]{{0,6}}\.?"
_DAY: Final = re.compile(
    r"(?<![a-z0-9])(?:"
    r"(\d{4})([-/.])(\d{1,2})\2(\d{1,2})"
    r"|(\d{4}) ?年 ?(\d{1,2}) ?月 ?(\d{1,2})(?= ?[日号])"
    rf"|{_MONTH} (\d{{1,2}})(?:st|nd|rd|th)?,? (\d{{4}})"
    rf"|(\d{{1,2}})(?:st|nd|rd|th)? {_MONTH},? (\d{{4}})"
    r")(?![a-z0-9])",
    re.ASCII,
)
_TIME_MARK: Final = re.compile(r"(?<=\d)t(?=\d\d:\d\d)", re.ASCII)
_URL: Final = re.compile(r"(?<![a-z0-9])[a-z][a-z0-9+.-]{1,12}://[a-z0-9._~:/?#@!$&*+=%-]+")
_CHUNK: Final = re.compile(r"(?:[a-z0-9_~./\\$€£¥#@:+%-]|(?<=\d),(?=\d))+", re.ASCII)
_NUMBER: Final = re.compile(r"\d+(?:[.,]\d+)*", re.ASCII)
_RUN: Final = re.compile(r"[a-z0-9]+")
_EMAIL: Final = re.compile(r"[a-z0-9_.+%-]+@[a-z0-9-]+(?:\.[a-z0-9-]+)*\.[a-z]{2,}")
_WITH_UNIT: Final = re.compile(r"(\d+(?:[.,]\d+)*)-?[a-z]{1,4}|(\d{1,2})-[a-z-]+", re.ASCII)
_HEX: Final = re.compile(r"[0-9a-f]{7,}")
_FILE: Final = re.compile(
    r".*[a-z0-9_]\.(?:py|js|ts|tsx|jsx|json|ya?ml|toml|ini|cfg|md|rst|txt|csv|log|html?|css|java|go|rs|cc?|h|cpp|sh"
    r"|sql|xml|pdf|png|jpe?g|gif|xlsx?|docx?|zip|gz|tar|lock)"
)
_EDGES: Final = "_~./\\$€£¥#@:+%-,"
_ESCAPE: Final = re.compile(r"\\(?:u([0-9a-fA-F]{4})|([nrtbf\"\\/]))")
_NESTED: Final = 2  # strings of JSON inside each other
_MONEY: Final = re.compile(r"[$€£¥%]")
# Names of formats and techniques that a summary may describe data by.
_COMMON: Final = frozenset({
    "base64", "utf-8", "utf8", "utf-16", "ascii85", "sha1", "sha-1", "sha256", "sha-256", "md5", "ipv4", "ipv6",
    "http2", "mp3", "mp4", "h264", "oauth2", "html5", "css3", "es6", "iso-8859-1", "iso8601", "iso-8601", "latin-1",
    "x86", "x64", "k8s", "python2", "python3",
})  # fmt: skip


class Kind(StrEnum):
    """What an identifier is."""

    URL = "url"
    EMAIL = "email"
    PATH = "path"
    DAY = "day"
    CODE = "code"
    NUMBER = "number"


@dataclass(frozen=True, slots=True)
class Identifier:
    """One identifier in its plain spelling: lower case, ASCII forms, no edges of punctuation."""

    text: str
    kind: Kind
    amount: bool = False

    @property
    def is_small(self) -> bool:
        """Whether it is a bare integer under 100, which may be a count."""
        return self.kind is Kind.NUMBER and not self.amount and self.text.isdigit() and len(_plain(self.text)) <= 2

    @property
    def is_count(self) -> bool:
        """Whether it is a bare integer."""
        return self.kind is Kind.NUMBER and not self.amount and self.text.replace(",", "").isdigit()


def find(text: str) -> Iterator[Identifier]:
    """The identifiers of a text; days and URLs first, the others in order."""
    rest = _lower(text)
    for match in _DAY.finditer(rest):
        if day := _day(match):
            yield Identifier(day, Kind.DAY)
    rest = _DAY.sub(lambda match: " " if _day(match) else match[0], rest)
    for match in _URL.finditer(rest):
        yield Identifier(match[0].strip(_EDGES + "!?&*="), Kind.URL)
    for match in _CHUNK.finditer(_URL.sub(" ", rest)):
        money = _MONEY.search(match[0]) is not None
        for part in match[0].split(":"):
            yield from _of_chunk(part, money)


class Known:
    """The texts that a summary is made from; made once, asked for each identifier."""

    def __init__(self, *texts: str) -> None:
        self._text = "\n".join(_lower(spelled) for text in texts for spelled in _spellings(text))

    def missing(self, text: str) -> Iterator[Identifier]:
        """The different identifiers of `text` that the known texts do not hold."""
        return (found for found in dict.fromkeys(find(text)) if not self.holds(found))

    def holds(self, found: Identifier) -> bool:
        """Whether an identifier occurs here, in this or a trivially equal spelling."""
        if found.kind is Kind.DAY:
            return found.text in self._days
        if found.kind is Kind.NUMBER:
            return self._has_number(found.text)
        return self._has_words(found)

    def _has_number(self, text: str) -> bool:
        return _plain(text) in self._numbers or (
            "," in text and all(_plain(part) in self._numbers for part in text.split(","))
        )

    def _has_words(self, found: Identifier) -> bool:
        if _apart(found.text) in self._apart:
            return True
        if _HEX.fullmatch(found.text):  # the beginning of a long hash, as people shorten them
            return f"\0{found.text}" in self._apart
        runs = _RUN.findall(found.text)
        if found.kind is not Kind.CODE or len(runs) > 3 or all(map(str.isdigit, runs)):
            return False
        # `order-48213` of an "Order #48213": the same runs side by side
        return re.search("[^a-z0-9\0]{1,3}".join(f"\0{run}\0" for run in runs), self._apart) is not None

    @cached_property
    def _apart(self) -> str:
        return _apart(self._text)

    @cached_property
    def _days(self) -> frozenset[str]:
        return frozenset(filter(None, map(_day, _DAY.finditer(self._text))))

    @cached_property
    def _numbers(self) -> frozenset[str]:
        found: set[str] = set()
        for text in set(_NUMBER.findall(self._text)):
            found.add(_plain(text))
            if "," in text:
                found.update(map(_plain, text.split(",")))
                found.add(_plain(text.replace(",", ".")))
        return frozenset(found)


def _of_chunk(chunk: str, money: bool) -> Iterator[Identifier]:
    """The identifiers of a run of characters without spaces and colons."""
    core = chunk.strip(_EDGES)
    if not core:
        return
    if "@" in core:
        if _EMAIL.fullmatch(core):
            yield Identifier(core, Kind.EMAIL)
            return
        parts = core.split("@")
    elif "/" in core or "\\" in core:
        parts = re.split(r"[/\\]", core)
        if _is_path(chunk, parts):
            yield Identifier(core, Kind.PATH)
            return
    elif chunk.startswith(("/", "./", "~/", "../")) and not core[0].isdigit():
        yield Identifier(core, Kind.PATH)
        return
    else:
        parts = re.split(r"[,#$€£¥%~]", core) if re.search(r"[a-z#$€£¥%~]", core) else [core]
    for part in parts:
        yield from _of_word(part.strip(_EDGES), money)


def _is_path(chunk: str, parts: list[str]) -> bool:
    """A place in a file system, and not `and/or`, `km/h` or `1/2/3`."""
    if not any(re.search("[a-z]", part) for part in parts):
        return False
    if chunk.startswith(("/", "./", "~/", "../", "\\")) or _FILE.fullmatch(parts[-1]):
        return True
    return len(parts) > 2 and any(re.search(r"[0-9._-]", part) for part in parts)


def _of_word(word: str, money: bool) -> Iterator[Identifier]:
    has_digit = re.search(r"\d", word, re.ASCII) is not None
    if not re.search("[a-z]", word):
        for number in re.split(r"[-+_]", word):
            if number.count(".") > 1:
                yield Identifier(number.strip(_EDGES), Kind.CODE)
            elif number:
                yield Identifier(number.strip(_EDGES), Kind.NUMBER, money)
    elif _FILE.fullmatch(word):
        yield Identifier(word, Kind.PATH)
    elif has_digit and (match := _WITH_UNIT.fullmatch(word)) and (match[1] or match[2]).count(".") < 2:
        yield Identifier(match[1] or match[2], Kind.NUMBER, money)
    elif has_digit and len(word) > 2 and word not in _COMMON:
        yield Identifier(word, Kind.CODE)


def _spellings(text: str) -> Iterator[str]:
    """A text, and what it says if it is JSON, or holds JSON in a string of JSON: there a line's end is no letter."""
    yield text
    for _ in range(_NESTED):
        said = _ESCAPE.sub(_said, text) if "\\" in text else text
        if said == text:
            return
        yield said
        text = said


def _said(escape: re.Match[str]) -> str:
    code, char = escape.groups()
    return chr(int(code, 16)) if code else char if char in '"\\/' else " "


def _lower(text: str) -> str:
    """The text in lower case and ASCII forms; the T of an ISO time becomes a space."""
    return _TIME_MARK.sub(" ", text.translate(_NARROW).lower())


def _apart(text: str) -> str:
    """The text with a mark around each run of letters and digits, so that `in` finds whole runs only."""
    return _RUN.sub("\0\\g<0>\0", text)


def _plain(number: str) -> str:
    """A number without thousands separators, leading zeros and trailing zeros of its fraction."""
    whole, _, fraction = number.replace(",", "").partition(".")
    fraction = fraction.rstrip("0")
    whole = whole.lstrip("0") or "0"
    return f"{whole}.{fraction}" if fraction else whole


def _day(match: re.Match[str]) -> str:
    """A day as YYYY-MM-DD; empty when the figures are none."""
    iso_year, _, iso_month, iso_day, year, month, day, name, first, first_year, second, other, second_year = (
        match.groups()
    )
    named = name or other
    found = (
        iso_year or year or first_year or second_year,
        iso_month or month or str(_MONTHS.index(named) + 1),
        iso_day or day or first or second,
    )
    if not (1 <= int(found[1]) <= 12 and 1 <= int(found[2]) <= 31):
        return ""
    return f"{int(found[0]):04}-{int(found[1]):02}-{int(found[2]):02}"
