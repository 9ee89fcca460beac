"""redact() for any text: settles at once, is bounded in size and time, and never raises."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compactor.redaction import MARK, redact
from tests.unit.secret_corpus import LOOK_ALIKES, SECRETS

PIECES = [
    *(planted.text for planted in SECRETS), *LOOK_ALIKES.values(), "password", "token", '"', "'", "\\", ": ", "=", "\n",
    "[SECRET_1]", "[SECRET_", "1]", "@", "://", "eyJ", "sk-", "密码", "是", "İ", "\ud800", "\0", " ", "a1B2c3D4e5",
]  # fmt: skip
TEXTS = st.lists(st.one_of(st.sampled_from(PIECES), st.text(max_size=8)), max_size=12).map("".join)
UNITS = [
    "password", "key", "ghp_", "eyJ", "sk-", "://", "://a:b", "://a:b@", "-----BEGIN PRIVATE KEY-----", 'password="',
    "-----BEGIN PRIVATE KEY-----\nAAAAAAAAAAAAAAAAAAAAAAAA", "password: ", "Cookie: a=bbbbbb; ", "Authorization: ",
    "xoxb-", "$1$", "\\n", 'password=\\"', "Bearer a1", "token.token", "0", "A", "密码", "aaaQ~:AA12345678", "cookie=",
    "pass_pass", "SG.aaaaaaaaaaaaaaaaaaaa.", "İ", "basic QQ", "-u a:", "password=aB3$%d ", "sig=aA1bB2cC3dD4eE5fF6gG7 ",
]  # fmt: skip


@given(TEXTS)
def test_a_second_time_changes_nothing(text: str) -> None:
    once = redact(text)
    assert redact(*once) == once


@given(st.lists(TEXTS, max_size=3))
def test_each_text_comes_back_in_its_place_and_hardly_longer(texts: list[str]) -> None:
    hidden = redact(*texts)
    assert len(hidden) == len(texts)
    for text, shown in zip(texts, hidden, strict=True):
        assert len(shown) <= len(text) + 20 * len(MARK.findall(shown))


@given(st.lists(st.sampled_from(SECRETS), min_size=1, max_size=6))
def test_no_secret_shields_another(planted: list[object]) -> None:
    chosen = [item for item in SECRETS if item in planted]
    shown = redact("\n".join(item.text for item in chosen))[0]
    assert [item.kind for item in chosen if item.secret in shown] == []


@given(TEXTS)
def test_text_without_a_find_is_the_same_object(text: str) -> None:
    (shown,) = redact(text)
    if not MARK.search(shown):
        assert shown is text


@pytest.mark.parametrize("unit", UNITS)
def test_hostile_text_takes_time_in_proportion(unit: str) -> None:
    def took(chars: int) -> float:
        text = unit * (chars // len(unit))
        begun = time.process_time()
        redact(text)
        return time.process_time() - begun

    assert took(200_000) < max(1.0, 12 * took(50_000)), "a million characters take a few seconds at most"
