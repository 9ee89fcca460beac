"""Personal data for any text: what is put back is what was hidden, in bounded time."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compactor.personal_data import PersonalData
from tests.unit.test_personal_data import FOUND, LEFT

DATA = PersonalData([r"EMP-\d+", r"\[EMAIL_1\]|【.{0,9}】"])
PIECES = [
    *(text for text, _, _ in FOUND.values()), *(value for _, value, _ in FOUND.values()), *LEFT.values(), "[EMAIL_",
    "1]", "[EMAIL_1]", "[PERSONAL_1]", "【[PHONE_1]】", "EMP-1", "+", "-", " ", "@", "\\n", "0", "(415) ",
    "\ud800", "[", "]",
]  # fmt: skip
TEXTS = st.lists(st.one_of(st.sampled_from(PIECES), st.text(max_size=8)), max_size=12).map("".join)


@given(st.lists(TEXTS, max_size=4))
def test_put_back_undoes_hide(texts: list[str]) -> None:
    shown, personal = DATA.hide(*texts)
    assert [personal.put_back(text) for text in shown] == texts


@given(st.lists(st.sampled_from(list(FOUND)), min_size=1, max_size=5))
def test_no_value_shields_another(names: list[str]) -> None:
    (shown,), _ = PersonalData().hide("\n".join(FOUND[name][0] for name in names))
    assert [name for name in names if FOUND[name][1] in shown] == []


@pytest.mark.parametrize(
    "unit",
    [
        "1",
        "1 ",
        "1-",
        "1111 ",
        "+1",
        "+1(",
        "a@",
        "@a.",
        "a.",
        "a@b.co ",
        "4111111111111111 ",
        "AA11 ",
        "138-",
        "(415) ",
    ],
)
def test_hostile_text_takes_time_in_proportion(unit: str) -> None:
    data = PersonalData()

    def took(chars: int) -> float:
        text = unit * (chars // len(unit))
        begun = time.process_time()
        data.hide(text)
        return time.process_time() - begun

    assert took(200_000) < max(1.0, 12 * took(50_000)), "a million characters take a few seconds at most"
