"""Sentences that speak to their reader: whatever the patterns find, the quick look at literal words finds, too."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compactor.json_passages import read
from compactor.orders import COMMAND, DUTY, ORDER, STEMS, is_order, is_sentence
from compactor.passages import ERROR, lines_with

# Letters outside ASCII that a pattern without regard to case takes for i, k and s.
LETTERS = st.characters(exclude_characters="İıſK", codec="utf-8")
MATCHING = st.one_of([st.from_regex(pattern, alphabet=LETTERS) for pattern in (ORDER, COMMAND, DUTY)])


@given(MATCHING)
def test_every_line_that_a_pattern_finds_holds_a_stem(line: str) -> None:
    line = " ".join(line.split())
    low = line.lower()
    if ORDER.search(low) or COMMAND.search(low) or DUTY.search(low):
        assert lines_with(["", line], STEMS) == [{1}]


@pytest.mark.parametrize("stem", [stem for word, longer in STEMS.items() for stem in longer or (word,)])
def test_stems_are_written_as_they_are_looked_for(stem: str) -> None:
    assert lines_with(["so", f"now {stem.upper()} on"], STEMS) == [{1}]


@given(
    st.lists(st.text(st.sampled_from("abİ🙂数 \x1c"), max_size=8), max_size=8),
    st.sampled_from(["a", "ab", "b a", "数"]),
)
def test_lines_with_a_word_are_found_wherever_they_stand(lines: list[str], stem: str) -> None:
    assert lines_with(lines, {stem: None}, {"nowhere": None}) == [
        {n for n, line in enumerate(lines) if stem in line.lower()},
        set(),
    ]


@pytest.mark.parametrize("line", ["the main modelling domain", "maintain: 3", "superuser", "ticket INC-48213", ""])
def test_data_is_no_order(line: str) -> None:
    assert not is_order(line)


@pytest.mark.parametrize(
    "line", ["退款已经全部办理完成。", "中。文。", "中、文)！”", "It was sent to the customer today."]
)
def test_a_sentence_is_told_by_its_end(line: str) -> None:
    assert is_sentence(line)
    assert not is_sentence(f"{line} 48213")


@pytest.mark.parametrize("line", ["中。", "a。b。", "共 3 件", "total: 3 items of a b c"])
def test_a_piece_of_data_is_no_sentence(line: str) -> None:
    assert not is_sentence(line)


ENDLESS = (
    "中", "把", "给a", "看到这", "中。", "作为", "系统 ", "to send ", "please ", "agent has ", "ignore ", "your ",
    "aError", "! ", "a'",
)  # fmt: skip


@pytest.mark.parametrize("piece", ENDLESS)
def test_one_endless_line_takes_time_linear_in_its_length(piece: str) -> None:
    line = piece * (100_000 // len(piece))
    started = time.process_time()
    is_order(line, excused=ERROR)
    is_sentence(line)
    read(line)
    assert time.process_time() - started < 5.0
