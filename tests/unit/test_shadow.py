"""What shadow runs keep: it comes back as it was, stands where nothing else changed, and is searched for values."""

from __future__ import annotations

import zlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compactor.models import Kind
from compactor.records import Record, encode_message
from compactor.shadow import Shadow, read_shadow
from compactor.stored_messages import read_messages

CALL: dict[str, Any] = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
CALLING = {"role": "assistant", "content": None, "tool_calls": [CALL]}
TEXT = "order_id: ORD-77431\ntracking: TRK-99812\n" + "a plain line of words\n" * 40


def original(value: Any) -> Record:
    return encode_message(value).whole()


def found(text: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": "c1", "content": text}


def drafted(record: Record, text: str) -> Record:
    return record.showing(encode_message(found(text)), Kind.EXTRACT, provisional=False, tokens={"o200k_base": 9})


HISTORY = [original(value) for value in ({"role": "user", "content": "go"}, CALLING, found(TEXT))]
SHADOW = Shadow({2: drafted(HISTORY[2], "order_id: ORD-77431")}, 3)


@given(st.dictionaries(st.integers(0, 2**50), st.text(max_size=50)), st.integers(0, 2**50))
def test_what_is_kept_comes_back(texts: dict[int, str], until: int) -> None:
    records = {place: drafted(original(found(text)), f"{text}!") for place, text in texts.items()}
    back = read_shadow(Shadow(records, until).pack())
    assert (back.records, back.until) == (records, until)


@pytest.mark.parametrize(
    "damaged",
    [b"", b"garbage", zlib.compress(b""), zlib.compress(b"\0" * 12), zlib.compress(b"\0" * 60), SHADOW.pack()[:-6],
     zlib.compress(zlib.decompress(SHADOW.pack())[:-3])],
)  # fmt: skip
def test_what_cannot_be_read_is_nothing(damaged: bytes) -> None:
    assert read_shadow(damaged) == Shadow()


def test_a_draft_stands_where_its_original_still_does() -> None:
    assert SHADOW.over(HISTORY, 0) == [*HISTORY[:2], SHADOW.records[2]]
    assert SHADOW.over(HISTORY, 7) == HISTORY, "another conversation's position"
    reworded = [*HISTORY[:2], original(found("another"))]
    assert SHADOW.over(reworded, 0) == reworded
    replaced = [*HISTORY[:2], drafted(HISTORY[2], "a real replacement")]
    assert SHADOW.over(replaced, 0) == replaced


def test_values_that_the_messages_since_used_are_counted_and_looked_for() -> None:
    def measured(*texts: str) -> tuple[int, int]:
        later = [original({"role": "assistant", "content": text}) for text in texts]
        messages = read_messages([*HISTORY, *later], 0, "o200k_base", len)
        return SHADOW.retention(messages)

    assert measured() == (0, 0)
    assert measured("Nothing of note.") == (0, 0)
    assert measured("It is ORD-77431.") == (1, 1)
    assert measured("It is ORD-77431.", "Tracked as TRK-99812.") == (2, 1)
    assert Shadow().retention(read_messages(HISTORY, 0, "o200k_base", len)) == (0, 0)
