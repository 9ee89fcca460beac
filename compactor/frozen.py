"""Read-only dicts and lists that `json` and the SDKs take as the plain ones."""

from __future__ import annotations

from typing import Any, Final, NoReturn

from compactor.json_values import is_array, is_object

_SCALARS: Final = frozenset({str, int, float, bool, type(None)})  # most of what is looked at
_HINT = "messages of a context are shared and read-only; change a copy: dict(message)"


def _refuse(*_args: Any, **_kwargs: Any) -> NoReturn:
    raise TypeError(_HINT)


class FrozenDict(dict[str, Any]):
    """A dict that raises TypeError on every write; `copy` and `deepcopy` give plain dicts."""

    __slots__ = ()
    __setitem__ = __delitem__ = __ior__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse

    def __deepcopy__(self, memo: dict[int, Any]) -> dict[str, Any]:
        return thaw(self)  # type: ignore[no-any-return] # why: thaw keeps the outer type

    def __reduce__(self) -> tuple[Any, ...]:
        return dict, (dict(self),)


class FrozenList(list[Any]):
    """A list that raises TypeError on every write; `copy` and `deepcopy` give plain lists."""

    __slots__ = ()
    __setitem__ = __delitem__ = __iadd__ = __imul__ = _refuse
    append = clear = extend = insert = pop = remove = reverse = sort = _refuse

    def __deepcopy__(self, memo: dict[int, Any]) -> list[Any]:
        return thaw(self)  # type: ignore[no-any-return] # why: thaw keeps the outer type

    def __reduce__(self) -> tuple[Any, ...]:
        return list, (list(self),)


def freeze(value: Any) -> Any:
    """The same JSON value with every dict and list read-only."""
    if type(value) in _SCALARS:
        return value
    if is_object(value):
        return FrozenDict({key: item if type(item) in _SCALARS else freeze(item) for key, item in value.items()})
    if is_array(value):
        return FrozenList([freeze(item) for item in value])
    return value


def thaw(value: Any) -> Any:
    """The same JSON value in plain, writable dicts and lists."""
    if is_object(value):
        return {key: thaw(item) for key, item in value.items()}
    if is_array(value):
        return [thaw(item) for item in value]
    return value
