"""Prices of models by name: the operator's own file first, then the table of the package genai-prices, offline."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal
from functools import lru_cache
from pathlib import Path
from typing import Any

from compactor.exceptions import ConfigurationError
from compactor.pricing import Price, names_of, own_name, price, read_prices
from compactor.settings import Settings

_log = logging.getLogger("compactor")


class PriceTable:
    """What a model costs at a size of its prompt; None when nobody knows.

    Raises ConfigurationError when the file of own prices cannot be read.
    """

    def __init__(self, settings: Settings) -> None:
        self._own = _own_prices(settings.prices_file)

    def __call__(self, model: str, tokens: int = 0) -> Price | None:
        """The price today for prompts of so many tokens: some models cost more beyond a size."""
        written = own_name(model)
        own = self._own.get(written) or self._own.get(written.rsplit("/", 1)[-1])
        if own is not None or not written:
            return own
        for provider, name in names_of(model):
            found = _listed(provider, name)
            if found is not None:
                return _at(found, tokens)
        return None


def _own_prices(path: Path | None) -> Mapping[str, Price]:
    if path is None:
        return {}
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, ValueError) as error:
        raise ConfigurationError(
            f"prices_file: cannot be read ({type(error).__name__}). COMPACTOR_PRICES_FILE names a JSON file of prices."
        ) from None
    return read_prices(text)


@lru_cache(maxsize=1_024)
def _listed(provider: str | None, name: str) -> Any:
    """The table's model, or None."""
    snapshot = _snapshot()
    if snapshot is None:
        return None
    try:
        return snapshot.find_provider_model(name, None, provider, None)[1]
    except LookupError:
        return None


@lru_cache(maxsize=1)
def _snapshot() -> Any:
    """The table that ships with its package; nothing is fetched. None without the package."""
    try:
        from genai_prices.data_snapshot import get_snapshot
    except ImportError:
        _log.warning(
            "prices: the table is not installed, so costs are unknown. pip install 'compactor[prices]', "
            "or name your prices in COMPACTOR_PRICES_FILE."
        )
        return None
    return get_snapshot()


def _at(model: Any, tokens: int) -> Price | None:
    listed = model.get_prices(datetime.now(UTC))
    sent, written = _amount(listed.input_mtok, tokens), _amount(listed.output_mtok, tokens)
    if sent is None or written is None:
        return None
    return price(sent, written, _amount(listed.cache_read_mtok, tokens), _amount(listed.cache_write_mtok, tokens))


def _amount(listed: Any, tokens: int) -> Decimal | None:
    """One listed amount; in tiers the whole prompt costs what the highest tier below its size does."""
    if listed is None or isinstance(listed, Decimal):
        return listed
    reached = [tier.price for tier in listed.tiers if tokens > tier.start]
    return Decimal(reached[-1] if reached else listed.base)
