"""What one process keeps between calls is bounded, and forgets what is no longer true."""

from __future__ import annotations

import pytest

from compactor.cached_history import CachedHistory
from compactor.histories import LockedCache, LruHistories, UnconfirmedOperations
from tests.unit.flows import Clock


def history(size: int = 1_000) -> CachedHistory:
    return CachedHistory(1, 0, (), size=size)


def test_a_history_is_kept_by_session_and_encoding() -> None:
    kept = LruHistories(10**6)
    kept.put(("a", "o200k_base"), history())
    assert kept.get(("a", "o200k_base")) == history()
    assert kept.get(("a", "cl100k_base")) is None
    assert kept.get(("b", "o200k_base")) is None


def test_the_least_recently_used_go_first() -> None:
    kept = LruHistories(20_000)
    for name in "abcd":
        kept.put((name, "e"), history())
        kept.get(("a", "e"))
    for name in "efghij":
        kept.put((name, "e"), history())
        kept.get(("a", "e"))
    assert kept.get(("a", "e")) is not None
    assert kept.get(("b", "e")) is None


def test_a_history_larger_than_the_cache_is_not_kept_and_its_older_self_neither() -> None:
    kept = LruHistories(20_000)
    kept.put(("a", "e"), history())
    kept.put(("a", "e"), history(size=10**6))
    assert kept.get(("a", "e")) is None


def test_a_dropped_history_is_gone_and_dropping_twice_is_no_error() -> None:
    kept = LruHistories(10**6)
    kept.put(("a", "e"), history())
    kept.drop(("a", "e"))
    kept.drop(("a", "e"))
    assert kept.get(("a", "e")) is None


def test_small_answers_are_bounded_too() -> None:
    cache: LockedCache[int, int] = LockedCache(3)
    cache.update({number: number for number in range(9)})
    assert len(cache) == 3
    assert 8 in cache
    del cache[8]
    with pytest.raises(KeyError):
        cache[8]
    assert sorted(cache) == [6, 7]


def test_a_name_is_given_once_to_the_same_content_of_the_same_session() -> None:
    names = UnconfirmedOperations(Clock())
    names.put("a", b"content1", b"name")
    assert names.take("b", b"content1") is None
    assert names.take("a", b"content2") is None
    assert names.take("a", b"content1") == b"name"
    assert names.take("a", b"content1") is None


def test_names_of_equal_pushes_are_given_in_their_order() -> None:
    names = UnconfirmedOperations(Clock())
    names.put("a", b"content1", b"first")
    names.put("a", b"content1", b"second")
    assert [names.take("a", b"content1") for _ in range(3)] == [b"first", b"second", None]


def test_a_name_is_forgotten_after_a_while() -> None:
    clock = Clock()
    names = UnconfirmedOperations(clock)
    names.put("a", b"content1", b"name")
    clock.time += 3_600
    assert names.take("a", b"content1") is None


def test_what_was_read_back_is_no_longer_unconfirmed() -> None:
    names = UnconfirmedOperations(Clock())
    names.put("a", b"own-of-1-and-more", b"first")
    names.put("a", b"own-of-2-and-more", b"second")
    names.seen("a", [b"own-of-1"])
    assert names.take("a", b"own-of-1-and-more") is None
    assert names.take("a", b"own-of-2-and-more") == b"second"
