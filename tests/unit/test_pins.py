"""Pinned phrases in texts, and what a compaction of a plain list makes of pins."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compactor import Code, ConfigurationError, ModelConfig, compact_messages
from compactor.exceptions import SummarizerRefused
from compactor.pins import carried, check_phrase, holds, lost, read_phrases, split_pins, write_phrases
from compactor.wording import carries_header
from tests.unit.chat import Chat, assistant, calling, long_text, result, user
from tests.unit.summarizers import failing, saying

CONFIG = ModelConfig("gpt-4o", 128)
LINE = "    The train leaves at 17:40 from gate B, ask Mira.  "
TEXT = f"{long_text(400)}\n{LINE}\n{long_text(400, 'x')}"


def chat(*texts: str) -> list[Chat]:
    steps = [m for n, text in enumerate(texts) for m in (calling(f"c{n}"), result(f"c{n}", text))]
    return [user("go"), *steps, assistant("done")]


def shown(text: str, *pins: int | str, summarizer: Any = None) -> str:
    """What stands in the place of a result after a compaction."""
    given: dict[str, Any] = {"summarizer": summarizer, "target_tokens": 1, "keep_recent_results": 0}
    return str(compact_messages(chat(text), CONFIG, pins=pins, **given).messages[2]["content"])


@pytest.mark.parametrize(
    "summarizer",
    [None, saying("It listed rows."), saying("17:40 gate B"), failing(SummarizerRefused())],
    ids=["extract", "summary", "other words", "refused"],
)
@pytest.mark.parametrize("phrase", ["leaves at 17:40", "gate B, ask", "Mira."])
def test_the_line_of_a_phrase_is_carried_whole_without_its_indent(summarizer: Any, phrase: str) -> None:
    text = shown(TEXT, phrase, summarizer=summarizer)
    assert carries_header(text)
    assert text.splitlines().count(LINE.strip()) == 1
    assert len(text) < len(TEXT) / 3


def test_of_a_very_long_line_what_stands_around_the_phrase_is() -> None:
    text = shown(f"{'a ' * 3_000}the KEY stays{' b' * 3_000}", "the KEY stays")
    assert carries_header(text)
    assert "a the KEY stays b" in text
    assert len(text) < 1_500


def test_a_condensed_text_carries_it_too() -> None:
    listed = [{"id": n, "state": "open", "note": "see\tgate B" if n == 7 else "none"} for n in range(40)]
    rows = json.dumps(listed, indent=2)
    done = compact_messages(
        chat(rows, long_text(900), "ok", "ok"), CONFIG, pins=["see\tgate B"], target_tokens=1_500, keep_recent_results=1
    )
    assert done.outcome.by_condensed == 1
    assert "see\tgate B" in done.messages[2]["content"]


def test_a_pointer_carries_it_too() -> None:
    done = compact_messages(chat(TEXT, TEXT), CONFIG, pins=["gate B"], target_tokens=1, keep_recent_results=0)
    assert done.outcome.by_pointer == 1
    assert LINE.strip() in done.messages[2]["content"]


@pytest.mark.parametrize("pin", [2, "m2"])
def test_a_pinned_message_stays(pin: int | str) -> None:
    assert shown(TEXT, pin) == TEXT


def test_a_second_compaction_with_the_same_pins_changes_nothing() -> None:
    pins = ["gate B"]
    once = compact_messages(chat(TEXT), CONFIG, pins=pins, target_tokens=1, keep_recent_results=0).messages
    again = compact_messages(once, CONFIG, pins=pins, target_tokens=1, keep_recent_results=0)
    assert (again.messages, again.outcome.outcome) == (once, Code.NOTHING_TO_DO)


@pytest.mark.parametrize("pins", ["gate B", 2, [99], [-1], [None], [True], [""], [b"x"], ["x"] * 0 + [2.0]])
def test_wrong_pins_are_refused(pins: Any) -> None:
    with pytest.raises(ConfigurationError, match="pin"):
        compact_messages(chat(TEXT), CONFIG, pins=pins)


TEXTS = st.text(st.sampled_from('ab"\\\n\t 文é{['), max_size=40)


@given(TEXTS, TEXTS, TEXTS)
def test_what_a_text_holds_is_carried_word_for_word(before: str, phrase: str, after: str) -> None:
    if not phrase.strip():
        return
    for text in (before + phrase + after, json.dumps({"k": [before + phrase + after]})):
        assert holds(text, phrase)
        lines = carried(text, [phrase])
        assert len(lines) == 1
        assert phrase in lines[0]
        assert not lost(text, "\n".join(lines), [phrase])
    assert lost(phrase, "", [phrase])


@given(TEXTS, st.lists(TEXTS, max_size=4))
def test_what_no_text_holds_is_not_carried(text: str, phrases: list[str]) -> None:
    known = [phrase for phrase in phrases if phrase.strip()]
    lines = carried(text, known)
    assert len(lines) <= len(known)
    assert all(any(phrase in line for phrase in known) for line in lines)
    assert not lost(text, "\n".join(lines), known)


@given(st.lists(st.text(min_size=1, max_size=50), max_size=8))
def test_phrases_are_read_as_they_were_written(phrases: list[str]) -> None:
    try:
        kept = [check_phrase(phrase) for phrase in phrases]
    except ConfigurationError:
        return
    assert read_phrases(write_phrases(kept)) == tuple(kept)


@pytest.mark.parametrize("kept", [None, b"", b"{", b"{}", b"3", b'[1, null, "", "a"]', b"\xff"])
def test_phrases_garbled_from_outside_are_none(kept: bytes | None) -> None:
    assert set(read_phrases(kept)) <= {"a"}


def test_pins_are_split_into_places_and_phrases() -> None:
    assert split_pins([3, "m4", "m4", "m4x", " m4", "4"]) == (frozenset({3, 4}), ("m4x", " m4", "4"))
