"""Personal data as numbered placeholders on the way to a model, and back from the source afterwards.

Mail addresses, telephone numbers, bank cards, account and identity numbers (with their checksums),
and what the operator's own patterns name. Names and postal addresses have no shape: they are not
found. The bot's own context keeps every value.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Final, NamedTuple

_KINDS: Final = "PERSONAL|EMAIL|PHONE|CARD|IDENTITY|IBAN"
_PLACEHOLDER: Final = re.compile(rf"\[({_KINDS})_(\d{{1,9}})\]")
# What a model makes of one when it does not copy: other brackets, another case, another number.
_BENT: Final = re.compile(
    rf"[\[(<{{⟦【]\W{{0,3}}(?i:{_KINDS})[\W_]{{0,3}}\d{{1,9}}\W{{0,2}}[\])>}}⟧】]|\b(?:{_KINDS})[\W_]{{0,3}}\d{{1,9}}\b"
)
_LOCAL_PART: Final = re.compile(r"[A-Za-z0-9._%+-]{1,64}\Z")
_DOMAIN: Final = re.compile(r"(?:[A-Za-z0-9-]{1,63}\.){1,8}[A-Za-z]{2,24}(?![A-Za-z0-9])")
_ESCAPE: Final = re.compile(r"\\[nrt](?!@)")  # a line's end inside a JSON string: its letter is no part of a name
_ALNUM: Final = re.compile(r"[A-Z0-9]")
_WEIGHTS: Final = (7, 9, 10, 5, 8, 4, 2, 1, 6, 3, 7, 9, 10, 5, 8, 4, 2)
_CARD_MAKERS: Final = re.compile(
    r"4(?:\d{12}|\d{15}|\d{18})|5[1-5]\d{14}|2(?:22[1-9]|2[3-9]\d|[3-6]\d\d|7[01]\d|720)\d{12}|3[47]\d{13}"
    r"|(?:6011|64[4-9]\d|65\d\d)\d{12}|62\d{14,17}|35(?:2[89]|[3-8]\d)\d{12}|3(?:0[0-5]|[68]\d)\d{11}|220[0-4]\d{12}"
)
_IBAN_LENGTHS: Final = {
    code: length
    for length, codes in {
        15: "NO", 16: "BE", 18: "DK FO FI GL NL SD", 19: "MK SI", 20: "AT BA EE KZ LT LU XK", 21: "CH HR LI LV",
        22: "BG BH CR DE GB GE IE ME RS VA", 23: "AE GI IL IQ TL", 24: "AD CZ ES MD PK RO SA SE SK TN VG",
        25: "LY PT ST", 26: "IS TR", 27: "FR GR IT MC MR SM BI DJ", 28: "AL AZ BY CY DO GT HU LB NI PL SV",
        29: "BR EG PS QA UA", 30: "JO KW MU", 31: "MT SC", 32: "LC", 33: "RU",
    }.items()
    for code in codes.split()
}  # fmt: skip


def _is_card(digits: str) -> bool:
    """A number of a card maker's range whose Luhn sum is right."""
    if not _CARD_MAKERS.fullmatch(digits):
        return False
    doubled = [int(d) * (1 + order % 2) for order, d in enumerate(reversed(digits))]
    return sum(n - 9 if n > 9 else n for n in doubled) % 10 == 0


def _is_resident(number: str) -> bool:
    """A Chinese resident identity number: a day of birth, and ISO 7064 MOD 11-2."""
    try:
        born = date(int(number[6:10]), int(number[10:12]), int(number[12:14]))
    except ValueError:
        return False
    check = sum(int(digit) * weight for digit, weight in zip(number, _WEIGHTS, strict=False)) % 11
    return born.year >= 1850 and "10X98765432"[check] == number[17].upper()


def _has_phone_length(text: str) -> bool:
    return 8 <= sum(map(str.isdigit, text)) <= 15


def _digits(text: str) -> str:
    return re.sub(r"[ -]", "", text)


class _Shape(NamedTuple):
    kind: str
    pattern: re.Pattern[str]
    check: Callable[[str], bool] = lambda _text: True


def _shape(kind: str, pattern: str, check: Callable[[str], bool] = lambda _text: True) -> _Shape:
    return _Shape(kind, re.compile(pattern, re.ASCII), check)


def _lead(beside: str) -> str:
    """What stands before a number: nothing that it may be a part of; the n of a JSON string's line end is none."""
    return rf"(?:(?<![\w{beside}])|(?<=\\[nrt]))"


_NUMBERS: Final = (
    _shape("IDENTITY", rf"{_lead('.')}\d{{17}}[\dXx](?!\w)", _is_resident),
    _shape("CARD", rf"{_lead('.+')}\d{{13,19}}(?!\w)", _is_card),
    _shape(
        "CARD", rf"{_lead('.')}\d{{4}}([ -])\d{{4}}\1\d{{4}}\1\d{{1,7}}(?!\w)", lambda text: _is_card(_digits(text))
    ),
    _shape("CARD", rf"{_lead('.')}3\d{{3}}([ -])\d{{6}}\1\d{{4,5}}(?!\w)", lambda text: _is_card(_digits(text))),
    _shape("IDENTITY", rf"{_lead('-')}(?!000|666|9)\d{{3}}-(?!00)\d{{2}}-(?!0000)\d{{4}}(?![\w-])"),
    _shape("PHONE", rf"{_lead('.')}(?:\+?86[ -]?)?1[3-9]\d(?:\d{{8}}|([ -])\d{{4}}\1\d{{4}})(?!\w)"),
    _shape("PHONE", rf"{_lead('.')}\+\d{{1,3}}(?:[ .-]?\(\d{{1,5}}\))?(?:[ .-]?\d){{5,12}}(?!\w)", _has_phone_length),
    _shape("PHONE", rf"{_lead('.+-')}(?:1[ .-])?(?:\(\d{{3}}\) ?|\d{{3}}[ .-])\d{{3}}[.-]\d{{4}}(?![\w-])"),
    _shape("PHONE", rf"{_lead('.+-')}0\d{{2,3}}-\d{{7,8}}(?![\w-])"),
)
_IBAN: Final = re.compile(r"(?:(?<![A-Za-z0-9])|(?<=\\[nrt]))[A-Z]{2}\d{2}(?: ?[A-Z0-9]){11,30}", re.ASCII)


@dataclass(frozen=True, slots=True)
class PersonalValues:
    """The values behind the placeholders of one request."""

    values: Mapping[str, str] = field(default_factory=dict[str, str])

    def put_back(self, text: str) -> str:
        """The text with its placeholders' values; what is no placeholder of this request stays as it is."""
        if not self.values:
            return text
        return _PLACEHOLDER.sub(lambda match: self.values.get(match[0], match[0]), text)

    def strange(self, text: str, source: str) -> Iterator[str]:
        """Bent and invented placeholders in what a model wrote, its true ones put back; `source` may hold some."""
        if self.values:
            known = source.lower()
            yield from (match[0] for match in _BENT.finditer(text) if match[0].lower() not in known)


class PersonalData:
    """Finds personal data; `patterns` are the operator's regular expressions for data of his own."""

    def __init__(self, patterns: Iterable[str] = ()) -> None:
        self._own = tuple(_Shape("PERSONAL", re.compile(pattern)) for pattern in patterns)

    def hide(self, *texts: str) -> tuple[tuple[str, ...], PersonalValues]:
        """The texts with placeholders, and what they stand for; the same value has the same number in all of them."""
        spans = [self._spans(text) for text in texts]
        if not any(spans):
            return texts, PersonalValues()
        numbers = _Numbers(texts)
        hidden = tuple(numbers.replaced(text, found) for text, found in zip(texts, spans, strict=True))
        return hidden, PersonalValues(numbers.values)

    def _spans(self, text: str) -> list[tuple[int, int, str]]:
        """What to replace, in order, without overlaps; what is found first goes before."""
        taken: list[tuple[int, int, str]] = []
        for shape in self._own:
            taken += _free(((*match.span(), shape.kind) for match in shape.pattern.finditer(text) if match[0]), taken)
        taken += _free(_mails(text), taken)
        if _ANY_DIGITS.search(text):
            for shape in _NUMBERS:
                matches = (match for match in shape.pattern.finditer(text) if shape.check(match[0]))
                taken += _free(((*match.span(), shape.kind) for match in matches), taken)
            taken += _free(_ibans(text), taken)
        return sorted(taken)


_ANY_DIGITS: Final = re.compile(r"\d[\d ().-]{5}")


def _free(found: Iterable[tuple[int, int, str]], taken: Sequence[tuple[int, int, str]]) -> list[tuple[int, int, str]]:
    """What overlaps nothing that is taken; both are without overlaps among themselves."""
    if not taken:
        return list(found)
    free: list[tuple[int, int, str]] = []
    held = iter(sorted(taken))
    now = next(held, None)
    for start, end, kind in found:
        while now is not None and now[1] <= start:
            now = next(held, None)
        if now is None or end <= now[0]:
            free.append((start, end, kind))
    return free


def _mails(text: str) -> Iterator[tuple[int, int, str]]:
    last = 0
    at = text.find("@")
    while at >= 0:
        local = _LOCAL_PART.search(text[max(last, at - 64) : at])
        domain = _DOMAIN.match(text, at + 1)
        if local is not None and domain is not None:
            start = at - len(local[0])
            is_escape = start > last and _ESCAPE.match(text, start - 1) is not None
            last = domain.end()
            yield start + is_escape, last, "EMAIL"
        at = text.find("@", at + 1 if domain is None else domain.end())


def _ibans(text: str) -> Iterator[tuple[int, int, str]]:
    """Account numbers of the length that their country has, with the right remainder."""
    at = 0
    while (match := _IBAN.search(text, at)) is not None:
        end = _iban_end(match)
        if end:
            yield match.start(), end, "IBAN"
        at = end or match.start() + 4


def _iban_end(match: re.Match[str]) -> int:
    """Where the account number ends that a match begins with; 0 when it is none."""
    length = _IBAN_LENGTHS.get(match[0][:2], 0)
    places = [place.end() for place in _ALNUM.finditer(match[0])]
    if not length or len(places) < length:
        return 0
    end = places[length - 1]
    number = match[0][:end].replace(" ", "")
    is_right = int("".join(str(int(char, 36)) for char in number[4:] + number[:4])) % 97 == 1
    return (
        match.start() + end
        if is_right and not match.string[match.start() + end : match.start() + end + 1].isalnum()
        else 0
    )


class _Numbers:
    """The numbered placeholders of one request, behind the numbers that its texts hold already."""

    def __init__(self, texts: Iterable[str]) -> None:
        self.values: dict[str, str] = {}
        self._of: dict[tuple[str, str], str] = {}
        self._last: dict[str, int] = {}
        for text in texts:
            for match in _PLACEHOLDER.finditer(text):
                self._last[match[1]] = max(self._last.get(match[1], 0), int(match[2]))

    def replaced(self, text: str, spans: Sequence[tuple[int, int, str]]) -> str:
        parts: list[str] = []
        at = 0
        for start, end, kind in spans:
            parts += [text[at:start], self._placeholder(kind, text[start:end])]
            at = end
        return "".join([*parts, text[at:]])

    def _placeholder(self, kind: str, value: str) -> str:
        known = self._of.get((kind, value))
        if known is None:
            self._last[kind] = self._last.get(kind, 0) + 1
            known = self._of[kind, value] = f"[{kind}_{self._last[kind]}]"
            self.values[known] = value
        return known
