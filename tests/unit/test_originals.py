"""The whole conversation as it was pushed, straight from the records: what stands there, and what cannot be told."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from compactor.archive import compress
from compactor.commands.read import Rows
from compactor.exceptions import SessionDamagedError
from compactor.models import Kind
from compactor.records import KEPT, PINNED, SOFT, Record, encode_message
from compactor.restoring import originals_of
from tests.unit.chat import result, user


def record(message: Any, kind: Kind = Kind.ORIGINAL, flags: int = 0) -> Record:
    encoded = encode_message(message)
    return Record(encoded.flags | flags, kind, (1, 1), 1, encoded.own, encoded.own, b"c" * 16, encoded.text)


def rows(*records: Record, **archive: Record) -> Rows:
    """A history that begins at position 10; the archive by name: `m12`."""
    kept = {int(name[1:]): compress(original.pack()) for name, original in archive.items()}
    return Rows(10, [each.pack() for each in records], kept)


@pytest.mark.parametrize("flags", [0, PINNED, SOFT, KEPT])
def test_an_original_is_told_whatever_flags_it_carries(flags: int) -> None:
    assert originals_of(rows(record(user("a")), record(user("b"), flags=flags))) == [user("a"), user("b")]


def test_what_only_the_standard_reader_takes_is_told_too() -> None:
    told = originals_of(rows(record({"role": "user", "content": math.inf}), record({"role": "user", "n": 2**70})))
    assert told == [{"role": "user", "content": math.inf}, {"role": "user", "n": 2**70}]


def test_a_replaced_message_comes_from_the_archive_and_a_tombstone_tells_nothing() -> None:
    gone = replace(record(user("gone")), kind=Kind.TOMBSTONE, text=b"")
    stored = rows(record(user("a")), record(result("c", "short"), Kind.SUMMARY), gone, m11=record(result("c", "long")))
    assert originals_of(stored) == [user("a"), result("c", "long")]


def test_of_an_original_that_is_no_more_stays_what_took_its_place() -> None:
    assert originals_of(rows(record(result("c", "short"), Kind.SUMMARY))) == [result("c", "short")]


@pytest.mark.parametrize("text", [b"", b"{", b"[1]", b"null", b'"role"', b"\xff"])
def test_an_original_that_is_no_message_is_named_as_damaged(text: bytes) -> None:
    with pytest.raises(SessionDamagedError, match="damaged outside"):
        originals_of(rows(record(user("a")), replace(record(user("b")), text=text)))


@pytest.mark.parametrize("row", [b"", b"\x01\x00\x00", b"\x02" + record(user("a")).pack()[1:], b"foreign"])
def test_a_record_that_cannot_be_read_is_named_by_its_place(row: bytes) -> None:
    with pytest.raises(SessionDamagedError, match="m11"):
        originals_of(Rows(10, [record(user("a")).pack(), row], {}))


def test_each_caller_gets_values_of_its_own() -> None:
    parts = {"role": "user", "content": [{"type": "text", "text": "a"}]}
    stored = rows(record(parts), record(parts, flags=PINNED), record(user("short"), Kind.SUMMARY), m12=record(parts))
    for message in originals_of(stored):
        message["content"][0]["text"] = "changed"
    assert originals_of(stored) == [parts] * 3
