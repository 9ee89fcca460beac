"""A system text with `{{name}}` places, filled once: what a value says is never expanded again."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from compactor.exceptions import ConfigurationError
from compactor.records import write_json
from compactor.tokens import Encode, count_text, json_text

_PLACE: Final = re.compile(r"\{\{\s*([A-Za-z_][A-Za-z0-9_]*)\s*\}\}")
_MARK: Final = "\0"  # no prompt holds it; it stands where a value would, until it is taken away


@dataclass(frozen=True, slots=True)
class SystemTemplate:
    """A system text and the values of its places; without values it stands as it is, braces and all.

    A value is text, None (nothing known: a fixed sentence takes its place), a pydantic model, or
    anything JSON can write. Raises ConfigurationError when a value has no place, since it would
    silently be lost, and when JSON does not know it, since the model would read the name of its type.
    """

    text: str
    variables: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        if self.variables is None:
            return
        if not isinstance(self.variables, Mapping):
            raise ConfigurationError("variables: expected a mapping of names to texts, such as {'topology_info': …}.")
        lost = [str(name) for name in self.variables if name not in self.places]
        if lost:
            raise ConfigurationError(
                f"variables: no place for {', '.join(lost)} in the system text. "
                f"Write {{{{{lost[0]}}}}} where it belongs."
            )
        for name, value in self.variables.items():
            _check_sendable(name, value)

    @property
    def places(self) -> frozenset[str]:
        """The names of the places in the text."""
        return frozenset(_PLACE.findall(self.text))

    @property
    def filled(self) -> str:
        """The text that is sent; places without a value in `variables` stay as they are."""
        values = self.values
        return _PLACE.sub(lambda place: values.get(place[1], place[0]), self.text) if values else self.text

    @property
    def values(self) -> dict[str, str]:
        """What stands in the places, by name."""
        return {name: _shown(name, value) for name, value in (self.variables or {}).items()}


def variable_tokens(template: SystemTemplate, encode: Encode) -> int:
    """What the filled places count beyond the same text with nothing in them."""
    if not template.variables:
        return 0
    marked = SystemTemplate(template.text, dict.fromkeys(template.variables, _MARK)).filled
    return max(0, count_text(template.filled, encode) - count_text(marked.replace(_MARK, ""), encode))


def _shown(name: str, value: Any) -> str:
    if isinstance(value, str):
        return value or unavailable(name)
    return unavailable(name) if value is None else json_text(_plain(value))


def unavailable(name: str) -> str:
    """What stands in a place whose value is not known: `(No topology information available)` for `topology_info`."""
    words = re.sub(r"\binfo\b", "information", name.replace("_", " ").strip())
    return f"(No {words} available)"


def _check_sendable(name: str, value: Any) -> None:
    try:
        write_json(_plain(value))
    except Exception:  # noqa: BLE001 # why: what a foreign object raises may hold what it was asked for
        raise ConfigurationError(
            f"{name}: expected text, or data that JSON knows, found {type(value).__name__}; convert it first."
        ) from None


def _plain(value: Any) -> Any:
    """A pydantic model as data, defaults included: they are part of what it says."""
    dump = getattr(value, "model_dump", None)
    return dump(mode="json") if callable(dump) and not isinstance(value, type) else value
