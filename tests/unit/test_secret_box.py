"""SecretBox: what is sealed for one place opens there only, by any key of the ring, and shows itself nowhere."""

from __future__ import annotations

import sys

import pytest
from pydantic import SecretStr

from compactor.exceptions import ApiKeyUnreadableError, ConfigKeysMissingError, ConfigurationError
from compactor.secret_box import SecretBox, new_key

KEY = SecretStr("sk-test-0123456789-abcdefgh")
RING = "Zq8vT3nB6mK1xR5w" * 2 + "Zq8vT3nB6mK="
PLACE = "acme\nuser-1\ncfg_1\nhttps://api.openai.com:443"


def ring(*keys: str) -> SecretBox:
    return SecretBox(SecretStr(",".join(keys)))


def test_what_is_sealed_opens_again() -> None:
    box = ring(new_key())
    assert box.open(box.seal(KEY, PLACE), PLACE) == KEY


def test_the_token_does_not_hold_the_secret_and_two_are_never_alike() -> None:
    box = ring(new_key())
    first, second = box.seal(KEY, PLACE), box.seal(KEY, PLACE)
    assert KEY.get_secret_value().encode() not in first
    assert first != second


def test_a_token_moved_to_another_place_opens_no_more() -> None:
    box = ring(new_key())
    with pytest.raises(ApiKeyUnreadableError):
        box.open(box.seal(KEY, PLACE), PLACE.replace("api.openai.com", "elsewhere.example"))


def test_every_key_of_the_ring_opens_and_the_first_one_seals() -> None:
    old, new = new_key(), new_key()
    token = ring(old).seal(KEY, PLACE)
    both = ring(new, old)
    assert both.open(token, PLACE) == KEY
    assert ring(new).open(both.seal(KEY, PLACE), PLACE) == KEY


def test_rotation_brings_a_token_to_the_first_key_once() -> None:
    old, new = new_key(), new_key()
    both = ring(new, old)
    again = both.rotated(ring(old).seal(KEY, PLACE))
    assert again is not None
    assert ring(new).open(again, PLACE) == KEY
    assert both.rotated(again) is None


@pytest.mark.parametrize("token", [b"", b"not a token", b"gAAAAA", b"\xff\x00"])
def test_what_is_no_token_is_unreadable(token: bytes) -> None:
    box = ring(new_key())
    with pytest.raises(ApiKeyUnreadableError):
        box.open(token, PLACE)
    with pytest.raises(ApiKeyUnreadableError):
        box.rotated(token)


def test_a_key_that_was_taken_out_of_the_ring_is_told_with_the_way_out() -> None:
    token = ring(new_key()).seal(KEY, PLACE)
    with pytest.raises(ApiKeyUnreadableError, match="Add the key it was stored with") as caught:
        ring(new_key()).open(token, PLACE)
    assert KEY.get_secret_value() not in str(caught.value)


@pytest.mark.parametrize("given", [None, SecretStr(""), SecretStr(" , ,")])
def test_without_a_ring_nothing_is_sealed_or_opened(given: SecretStr | None) -> None:
    box = SecretBox(given)
    with pytest.raises(ConfigKeysMissingError, match="compactor configs new-key"):
        box.seal(KEY, PLACE)
    with pytest.raises(ConfigKeysMissingError):
        box.open(b"token", PLACE)


@pytest.mark.parametrize("wrong", ["hunter2-hunter2", "a" * 44, f"{RING}=", RING[:-1], f"{RING} x", "a+/" + RING[3:]])
def test_a_ring_that_is_none_is_refused_by_number_and_never_shown(wrong: str) -> None:
    with pytest.raises(ConfigurationError, match="key 2 of 2") as caught:
        ring(new_key(), wrong)
    assert wrong not in str(caught.value)


def test_spaces_and_empty_parts_of_the_ring_do_not_matter() -> None:
    key = new_key()
    assert SecretBox(SecretStr(f" {key} ,\n")).open(ring(key).seal(KEY, PLACE), PLACE) == KEY


def test_the_box_does_not_show_its_keys() -> None:
    key = new_key()
    assert key not in repr(ring(key)) + repr(vars(ring(key)))


def test_without_the_package_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cryptography", None)
    with pytest.raises(ConfigurationError, match=r"pip install 'compactor\[http\]'"):
        ring("A" * 43 + "=")
    SecretBox(None)  # a bot without stored keys does not need it
