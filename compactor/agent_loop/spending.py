"""What model calls cost: the usage that a provider reports, and prices that a caller gives."""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

from compactor.exceptions import ConfigurationError
from compactor.json_values import is_object

_MILLION: Final = 1_000_000
_INPUT: Final = ("prompt_tokens", "input_tokens")
_OUTPUT: Final = ("completion_tokens", "output_tokens")
_DETAILS: Final = ("prompt_tokens_details", "input_tokens_details")
_FROM_CACHE: Final = ("cache_read_input_tokens",)
_TO_CACHE: Final = ("cache_creation_input_tokens",)
_MOST: Final = 10**9  # tokens; a larger figure is no usage of one call


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one model call as its provider reports them; `cached` of the `sent` ones were read from a cache."""

    sent: int
    written: int
    cached: int = 0

    @property
    def total(self) -> int:
        return self.sent + self.written


@dataclass(frozen=True, slots=True)
class Prices:
    """Money per million tokens, in any currency: of what is sent, of what is written, of sent tokens from a cache.

    Without a price of their own, cached tokens cost what sent ones do. Raises ConfigurationError.
    """

    sent: float
    written: float
    cached: float | None = None

    def __post_init__(self) -> None:
        for name in ("sent", "written", "cached"):
            value = getattr(self, name)
            if name != "cached" or value is not None:
                object.__setattr__(self, name, money(f"prices: {name}", value))

    def cost(self, usage: Usage) -> float:
        """Money for one call."""
        cached = self.sent if self.cached is None else self.cached
        fresh = (usage.sent - usage.cached) * self.sent
        return (fresh + usage.cached * cached + usage.written * self.written) / _MILLION


def money(name: str, value: Any) -> float:
    """An amount of money, at least 0. Raises ConfigurationError."""
    if isinstance(value, (int, float, Decimal)) and not isinstance(value, bool):
        with suppress(ValueError, OverflowError):  # a signalling NaN, an integer beyond all floats
            amount = float(value)
            if math.isfinite(amount) and amount >= 0:
                return amount
    raise ConfigurationError(f"{name}: expected an amount of money, a finite number of at least 0.")


def read_usage(given: Any) -> Usage:
    """A provider's usage: `reply.usage` of the OpenAI SDK, a dict, or any object with such fields.

    Anthropic's `input_tokens` leave out what its cache read and wrote; here they are part of `sent`.
    Raises ConfigurationError when it states no tokens.
    """
    sent, written, total = _tokens(given, _INPUT), _tokens(given, _OUTPUT), _tokens(given, ("total_tokens",))
    if sent is None and written is None and total is None:
        raise ConfigurationError(
            "usage: expected what the provider reports (prompt_tokens and completion_tokens, or total_tokens), "
            "for example usage=reply.usage."
        )
    if sent is None:
        sent = max(0, (total or 0) - (written or 0))
    if written is None:
        written = max(0, (total or 0) - sent)
    if _field(given, _INPUT[0]) is None and (apart := _apart(given)) is not None:
        return Usage(sent + sum(apart), written, apart[0])
    details = next((found for name in _DETAILS if (found := _field(given, name)) is not None), None)
    cached = _tokens(details, ("cached_tokens",)) or 0
    return Usage(sent, written, min(cached, sent))


def _apart(given: Any) -> tuple[int, int] | None:
    """Input tokens that were read from and written to a cache, where they are told beside the others."""
    read, kept = _tokens(given, _FROM_CACHE), _tokens(given, _TO_CACHE)
    return None if read is None and kept is None else (read or 0, kept or 0)


def _tokens(given: Any, names: tuple[str, ...]) -> int | None:
    value = next((found for name in names if (found := _field(given, name)) is not None), None)
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= _MOST:
        raise ConfigurationError(f"usage: expected {names[0]} as a whole number of tokens, from 0 to {_MOST:,}.")
    return value


def _field(given: Any, name: str) -> Any:
    return given.get(name) if is_object(given) else getattr(given, name, None)
