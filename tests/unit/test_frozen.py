"""Messages of a context are shared: nobody can change them by accident, and every writer takes them."""

from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Callable
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from compactor.frozen import FrozenDict, FrozenList, freeze, thaw
from compactor.json_values import is_array, is_object

values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-(2**53), 2**53), st.floats(allow_nan=False), st.text(max_size=9)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=4), inner, max_size=3)),
    max_leaves=9,
)

DICT_WRITES: list[Callable[[Any], Any]] = [
    lambda d: d.__setitem__("a", 2),
    lambda d: d.__delitem__("a"),
    lambda d: d.__ior__({"b": 1}),
    lambda d: d.clear(),
    lambda d: d.pop("a"),
    lambda d: d.popitem(),
    lambda d: d.setdefault("b", 1),
    lambda d: d.update(b=1),
]
LIST_WRITES: list[Callable[[Any], Any]] = [
    lambda a: a.__setitem__(0, 2),
    lambda a: a.__delitem__(0),
    lambda a: a.__iadd__([1]),
    lambda a: a.__imul__(2),
    lambda a: a.append(1),
    lambda a: a.clear(),
    lambda a: a.extend([1]),
    lambda a: a.insert(0, 1),
    lambda a: a.pop(),
    lambda a: a.remove(1),
    lambda a: a.reverse(),
    lambda a: a.sort(),
]


@pytest.mark.parametrize("write", DICT_WRITES)
def test_a_frozen_dict_refuses_every_write_and_says_what_to_do(write: Callable[[Any], Any]) -> None:
    frozen = FrozenDict({"a": 1})
    with pytest.raises(TypeError, match=r"dict\(message\)"):
        write(frozen)
    assert frozen == {"a": 1}


@pytest.mark.parametrize("write", LIST_WRITES)
def test_a_frozen_list_refuses_every_write(write: Callable[[Any], Any]) -> None:
    frozen = FrozenList([1])
    with pytest.raises(TypeError, match="read-only"):
        write(frozen)
    assert frozen == [1]


@given(values)
def test_freezing_changes_nothing_but_the_right_to_write(value: Any) -> None:
    frozen = freeze(value)
    assert frozen == value
    assert json.dumps(frozen) == json.dumps(value)
    assert orjson.dumps(frozen) == orjson.dumps(value)


@given(values)
def test_thawing_gives_plain_equal_values(value: Any) -> None:
    thawed = thaw(freeze(value))
    assert thawed == value
    assert _types(thawed) <= {dict, list}


@given(values)
def test_deep_copies_and_pickles_are_plain(value: Any) -> None:
    for back in (copy.deepcopy(freeze(value)), pickle.loads(pickle.dumps(freeze(value)))):
        assert back == value
        assert _types(back) <= {dict, list}


def test_a_frozen_message_takes_part_in_dict_building() -> None:
    frozen = freeze({"role": "user", "content": "hi"})
    changed = {**frozen, "content": "bye"}
    assert type(changed) is dict
    assert type(dict(frozen)) is dict
    assert type(copy.copy(frozen)) is dict
    assert type(copy.copy(freeze([1]))) is list


def test_tuples_freeze_to_lists() -> None:
    assert freeze({"a": (1, 2)}) == {"a": [1, 2]}


def _types(value: Any) -> set[type]:
    if is_object(value):
        return {type(value)}.union(*(_types(item) for item in value.values()))
    if is_array(value):
        return {type(value)}.union(*(_types(item) for item in value))
    return set()
