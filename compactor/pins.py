"""Pinned phrases: where a text holds one, and the line that carries it into what replaces the text."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

import orjson

from compactor.exceptions import ConfigurationError
from compactor.json_values import is_array, is_object
from compactor.models import recall_position

MOST_PHRASES: Final = 64
LONGEST_PHRASE: Final = 1_000  # characters
MOST_BYTES: Final = 16_384  # of all phrases of a session
_WHOLE_LINE: Final = 400  # characters; of a longer line what stands around the phrase
_AROUND: Final = 80  # characters on either side of it


def check_phrase(phrase: str) -> str:
    """Raises ConfigurationError for what is no text that could stand in a message again."""
    clean = phrase.encode("utf-8", "replace").decode() == phrase and "\0" not in phrase
    if not phrase.strip() or len(phrase) > LONGEST_PHRASE or not clean:
        raise ConfigurationError(
            f"pin: expected a phrase of 1-{LONGEST_PHRASE:,} characters of text, a recall id such as 'm12', or its "
            "number."
        )
    return phrase


def split_pins(given: Any) -> tuple[frozenset[int], tuple[str, ...]]:
    """The positions and the phrases of a list of pins. Raises ConfigurationError."""
    if not is_array(given):
        raise ConfigurationError("pins: expected a list of positions, recall ids such as 'm12', and phrases.")
    positions: set[int] = set()
    phrases: list[str] = []
    for pin in given:
        position = pinned_position(pin)
        if position is None:
            phrases.append(check_phrase(pin))
        else:
            positions.add(position)
    write_phrases(phrases)
    return frozenset(positions), tuple(dict.fromkeys(phrases))


def pinned_position(pin: Any) -> int | None:
    """The position that a pin names by its number or as a recall id; None for a phrase. Raises ConfigurationError."""
    if isinstance(pin, int) and not isinstance(pin, bool) and pin >= 0:
        return pin
    if not isinstance(pin, str):
        raise ConfigurationError("pin: expected a recall id such as 'm12', its number, or a phrase as text.")
    return recall_position(pin) if re.fullmatch(r"m\d+", pin) else None


def write_phrases(phrases: Sequence[str]) -> bytes:
    """The phrases as a session keeps them. Raises ConfigurationError when they are too many."""
    text = json.dumps(phrases, ensure_ascii=False, separators=(",", ":")).encode() if phrases else b""
    if len(phrases) > MOST_PHRASES or len(text) > MOST_BYTES:
        raise ConfigurationError(
            f"pin: a session keeps at most {MOST_PHRASES} phrases of {MOST_BYTES:,} bytes together; nothing was "
            "changed. Release one first (session.pins() lists them)."
        )
    return text


def read_phrases(kept: bytes | None) -> tuple[str, ...]:
    """The phrases that a session keeps; none where it keeps nothing that can be read."""
    try:
        listed: Any = orjson.loads(kept or b"[]")
    except ValueError:
        return ()
    return tuple(phrase for phrase in listed if isinstance(phrase, str) and phrase) if is_array(listed) else ()


def holds(text: str, phrase: str) -> bool:
    """Whether a text holds a phrase, also where its JSON writes it with escapes."""
    return phrase in text or any(phrase in value for value in _escaped(text))


def carried(text: str, phrases: Sequence[str]) -> list[str]:
    """A line of the text for each phrase that it holds: the whole line, or what of it stands around the phrase."""
    lines: list[str] = []
    for phrase in phrases:
        found = text if phrase in text else next((value for value in _escaped(text) if phrase in value), None)
        if found is None or any(phrase in line for line in lines):
            continue
        lines.append(_around(found, found.index(phrase), len(phrase)))
    return lines


def lost(source: str, text: str, phrases: Sequence[str]) -> bool:
    """Whether a text lacks a phrase of its source, for example one that was taken for a secret."""
    return any(phrase not in text and holds(source, phrase) for phrase in phrases)


def _around(text: str, place: int, length: int) -> str:
    """The line at a place, without its indent."""
    end = text.find("\n", place + length)
    start, end = text.rfind("\n", 0, place) + 1, len(text) if end < 0 else end
    if end - start > max(_WHOLE_LINE, length):
        start, end = max(start, place - _AROUND), min(end, place + length + _AROUND)
    before, after = text[start:place].lstrip(), text[place + length : end].rstrip()
    return f"{before}{text[place : place + length]}{after}"


def _escaped(text: str) -> Iterator[str]:
    """The texts inside a JSON text that holds escapes."""
    if "\\" not in text or text.lstrip()[:1] not in ("{", "[", '"'):
        return
    try:
        waiting: list[Any] = [orjson.loads(text.encode("utf-8", "replace"))]
    except ValueError:
        return
    while waiting:
        value = waiting.pop()
        if isinstance(value, str):
            yield value
        elif is_object(value):
            waiting += [*value, *value.values()]
        elif is_array(value):
            waiting += value
