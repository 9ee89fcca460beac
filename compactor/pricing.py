"""What a model's tokens cost: prices, the file of own prices, and the names that users write.

Money is counted in micro-dollars (millionths of a US dollar): dollars per million tokens, as providers
list them, are micro-dollars per token.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal
from typing import Any, Final

from compactor.exceptions import ConfigurationError
from compactor.json_values import is_array, is_object

UNKNOWN: Final = "price unknown"
_FIELDS: Final = ("input", "output", "cache_read", "cache_write")
_DEAREST: Final = 1_000_000  # dollars per million tokens; more means that somebody gave another unit
_MOST_DOLLARS: Final = 10**9
_LONGEST: Final = 1024**2  # characters of a file of prices
_GATEWAYS: Final = frozenset({"litellm", "litellm_proxy", "models"})  # a prefix that names no host of its own
_MICRO: Final = Decimal(1_000_000)


@dataclass(frozen=True, slots=True)
class Price:
    """Dollars per million tokens: read and written by the model, read from its prompt cache, written to it."""

    input: Decimal
    output: Decimal
    cache_read: Decimal
    cache_write: Decimal

    @property
    def read_factor(self) -> Decimal:
        """r: what a token from the cache costs of one that is not; 1 where the model has no cache."""
        return self.cache_read / self.input if self.input else Decimal(1)

    @property
    def write_factor(self) -> Decimal:
        """w: what a token costs that is written to the cache."""
        return self.cache_write / self.input if self.input else Decimal(1)


def price(
    input: Decimal,  # noqa: A002 # why: the name of the field, and of the file's
    output: Decimal,
    cache_read: Decimal | None = None,
    cache_write: Decimal | None = None,
) -> Price:
    """A price; without prices of their own, cached tokens cost what others do."""
    return Price(
        input,
        output,
        input if cache_read is None else cache_read,
        input if cache_write is None else cache_write,
    )


def micro(tokens: int, dollars_per_million: Decimal) -> Decimal:
    """Micro-dollars for so many tokens, not rounded yet."""
    return tokens * dollars_per_million


def rounded(amount: Decimal) -> int:
    """Whole micro-dollars."""
    return int(amount.to_integral_value(ROUND_HALF_UP))


def micro_dollars(name: str, value: Any) -> int:
    """Dollars as whole micro-dollars, at least 1. Raises ConfigurationError."""
    amount = _amount(value, most=_MOST_DOLLARS)
    if amount is None or rounded(amount * _MICRO) < 1:
        raise ConfigurationError(f"{name}: expected dollars, for example 2.50.")
    return rounded(amount * _MICRO)


def dollars(amount: int | None) -> str:
    """Micro-dollars as people read them; None is a price that is not known, never $0."""
    if not amount:
        return UNKNOWN if amount is None else "$0"
    size = abs(amount)
    places = 2 if size >= 1_000_000 else 4 if size >= 10_000 else 6
    return f"{'-' if amount < 0 else ''}${Decimal(size) / _MICRO:.{places}f}"


def own_name(model: str) -> str:
    """The name under which a file's price is found."""
    return model.strip().lower()


def names_of(model: str) -> Iterator[tuple[str | None, str]]:
    """The (provider, model) pairs a written name may mean, the surest first.

    What stands before a slash is the host. A host that nobody knows has no price: the same model costs
    another price, or none, with each host.
    """
    name = own_name(model)
    head, slash, rest = name.partition("/")
    while slash and head in _GATEWAYS:
        name = rest
        head, slash, rest = name.partition("/")
    if slash:
        yield head, rest
    else:
        yield None, name
        yield "aws", name  # whose names carry the maker before a dot


def read_prices(text: str) -> Mapping[str, Price]:
    """The prices of a file, by lower-case name: JSON, dollars per million tokens of each model.

    `{"my-model": {"input": 0.15, "output": 0.6, "cache_read": 0.075, "cache_write": 0.15}}`; the last two
    default to `input`, and 0 is a price. Raises ConfigurationError, which names what was expected.
    """
    if len(text) > _LONGEST:
        raise _wrong(f"is longer than {_LONGEST:,} characters")
    try:
        found: Any = json.loads(text, parse_float=Decimal, parse_int=Decimal, object_pairs_hook=_once)
    except (ValueError, RecursionError, ArithmeticError):
        raise _wrong("cannot be read as JSON, or names something twice") from None
    if not is_object(found) or not found:
        raise _wrong("holds no object of models")
    prices: dict[str, Price] = {}
    for order, (name, row) in enumerate(found.items(), 1):
        known = own_name(str(name))
        if not known or known in prices:
            raise _wrong(f"model {order} has no name, or that of another one")
        prices[known] = _price(order, row)
    return prices


def _once(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    if len({name for name, _ in pairs}) < len(pairs):
        raise ValueError
    return dict(pairs)


def _price(order: int, row: Any) -> Price:
    if not is_object(row):
        raise _wrong(f"model {order} is no object of prices")
    strange = [name for name in row if name not in _FIELDS]
    if strange:
        raise _wrong(f"model {order} has a price that is none of {', '.join(_FIELDS)}")
    given: dict[str, Decimal] = {}
    for name in _FIELDS:
        if name in row or name in ("input", "output"):
            amount = _amount(row.get(name))
            if amount is None:
                raise _wrong(f"model {order}: {name} is missing, or no number from 0 to {_DEAREST:,}")
            given[name] = amount
    return price(**given)


def _amount(value: Any, *, most: int = _DEAREST) -> Decimal | None:
    """A finite amount from 0 to the most; None for anything else."""
    if isinstance(value, bool) or is_object(value) or is_array(value) or value is None:
        return None
    try:
        amount = Decimal(str(value))
    except ArithmeticError:
        return None
    return amount if amount.is_finite() and 0 <= amount <= most else None


def _wrong(what: str) -> ConfigurationError:
    return ConfigurationError(
        f"prices_file: {what}. Expected JSON, dollars per million tokens: "
        '{"my-model": {"input": 0.15, "output": 0.6, "cache_read": 0.075, "cache_write": 0.15}}.'
    )
