"""`compactor limits`: the context windows of common models, for reference; nothing ever takes one as its default."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, date, datetime
from difflib import get_close_matches
from importlib.metadata import version
from typing import TYPE_CHECKING, Annotated, Final

import typer
from rich.table import Table
from rich.text import Text

from compactor.cli.app import app
from compactor.cli.console import Json, one_line, print_json, stderr, stdout
from compactor.exceptions import ConfigurationError
from compactor.model_config import K

if TYPE_CHECKING:
    from genai_prices.types import ModelInfo, Provider

MAKERS: Final = ("openai", "anthropic", "google", "deepseek", "x-ai")  # listed without MODEL; the rest resells, mostly
NEAR: Final = 6


@dataclass(frozen=True, slots=True)
class Window:
    """A model's window at one provider: in tokens, and in K tokens as `context_limit` takes it, rounded up."""

    provider: str
    model: str
    tokens: int

    @property
    def context_limit(self) -> int:
        return -(-self.tokens // K)

    @property
    def excess(self) -> int:
        """Tokens that `context_limit` declares and the model does not have."""
        return self.context_limit * K - self.tokens


@app.command()
def limits(
    model: Annotated[str | None, typer.Argument(help="A model's name; its maker's too, as in openai/gpt-4o.")] = None,
    json: Json = False,
) -> None:
    """Shows context windows in K tokens, as `context_limit` takes them. For reference: check your provider.

    The table ships with the package genai-prices (extra `prices`); nothing is fetched, and no other
    part of Compactor reads it. Without MODEL the models of five makers are listed.
    """
    providers = _providers()
    found = _of_makers(providers) if model is None else _matching(providers, model)
    if not found:
        stderr.print(Text.assemble(("error ", "bold red"), _unknown(providers, model or "")), soft_wrap=True)
        raise typer.Exit(1)
    source, newest = f"genai-prices {version('genai-prices')}", _newest(providers).isoformat()
    if json:
        for window in found:
            figures = {"context_limit": window.context_limit, "excess": window.excess}
            print_json({**asdict(window), **figures, "source": source, "newest_price": newest})
        return
    stdout.print(_table(found))
    if any(window.excess for window in found):
        stdout.print("~ rounded up: give the exact window as context_limit_tokens instead.")
    stdout.print(
        f"From {source}, newest price in force since {newest}. "
        "For reference only: check your provider's documentation.",
        soft_wrap=True,
    )


def _providers() -> Sequence[Provider]:
    try:
        from genai_prices.data import providers
    except ImportError:
        raise ConfigurationError(
            "limits: the table of models is not installed. Install it: pip install 'compactor[prices]'; "
            "or take the window from your provider's documentation."
        ) from None
    return providers


def _windows(providers: Sequence[Provider]) -> Iterator[tuple[Window, ModelInfo]]:
    for provider in providers:
        for model in provider.models:
            if model.context_window:
                yield Window(provider.id, model.id, model.context_window), model


def _of_makers(providers: Sequence[Provider]) -> list[Window]:
    found = [window for window, model in _windows(providers) if window.provider in MAKERS and not model.deprecated]
    return sorted(found, key=lambda window: (MAKERS.index(window.provider), window.model))


def _matching(providers: Sequence[Provider], name: str) -> list[Window]:
    """Models of that very name, else those that know it as an alias; the makers' own first."""
    provider, model = _parted(providers, name)
    offered = [
        (window, info) for window, info in _windows(providers) if provider is None or window.provider == provider
    ]
    found = [window for window, _ in offered if window.model.lower() == model]
    found = found or [window for window, info in offered if info.is_match(model)]
    return sorted(found, key=lambda window: (window.provider not in MAKERS, window.provider, window.model))


def _parted(providers: Sequence[Provider], name: str) -> tuple[str | None, str]:
    """A provider and a model; what stands before a slash is a provider only when there is one of that name."""
    plain = name.strip().lower()
    head, _, rest = plain.partition("/")
    return (head, rest) if rest and any(provider.id == head for provider in providers) else (None, plain)


def _unknown(providers: Sequence[Provider], name: str) -> str:
    provider, model = _parted(providers, name)
    shown = one_line(name, 80)
    listed = [info for each in providers if provider in (None, each.id) for info in each.models]
    if any(info.id.lower() == model for info in listed):
        return f"{shown}: the table knows the model, but not its window. Take it from your provider's documentation."
    ids = sorted({window.model for window, _ in _windows(providers)})
    near = get_close_matches(model[:80], ids, n=NEAR, cutoff=0.5)
    hint = f" Near: {', '.join(near)}." if near else ""
    return f"{shown}: not in the table.{hint} Take the window from your provider's documentation."


def _newest(providers: Sequence[Provider]) -> date:
    """The latest day up to today on which a price of the table began: how old the table is."""
    today = datetime.now(UTC).date()
    days = [
        day
        for provider in providers
        for model in provider.models
        if isinstance(model.prices, list)
        for price in model.prices
        if isinstance(day := getattr(price.constraint, "start_date", None), date) and day <= today
    ]
    return max(days)


def _table(found: Sequence[Window]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("provider", no_wrap=True)
    table.add_column("model", overflow="fold")
    table.add_column("tokens", justify="right")
    table.add_column("context_limit", justify="right")
    for window in found:
        mark = "~" if window.excess else ""
        table.add_row(Text(window.provider), Text(window.model), f"{window.tokens:,}", f"{mark}{window.context_limit}")
    return table
