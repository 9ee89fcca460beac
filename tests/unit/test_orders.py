"""Sentences that speak to their reader: whatever the patterns find, the quick look at literal words finds, too."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compactor.orders import DUTY, ORDER, STEMS, is_order, order_stems

# Letters outside ASCII that a pattern without regard to case takes for i, k and s.
LETTERS = st.characters(exclude_characters="İıſK", codec="utf-8")
MATCHING = st.from_regex(ORDER, alphabet=LETTERS) | st.from_regex(DUTY, alphabet=LETTERS)


@given(MATCHING)
def test_every_line_that_a_pattern_finds_holds_a_stem(line: str) -> None:
    line = " ".join(line.split())
    if ORDER.search(line) or DUTY.search(line):
        assert order_stems(line)
        assert is_order(line)


@pytest.mark.parametrize("stem", STEMS)
def test_stems_are_written_as_they_are_looked_for(stem: str) -> None:
    assert stem == " ".join(stem.lower().split()) or stem.startswith(" ")
    assert stem in order_stems(f"now {stem.upper()} and so on")


@pytest.mark.parametrize("gap", ["  ", "\t", " \n", "\u00a0"])
def test_more_white_space_hides_no_order(gap: str) -> None:
    assert order_stems(f"You{gap}must now run it")


@pytest.mark.parametrize("line", ["the main modelling domain", "maintain: 3", "superuser", "ticket INC-48213", ""])
def test_data_is_no_order(line: str) -> None:
    assert not is_order(line)
