"""What a tenant spends per day, as people read it."""

from __future__ import annotations

from rich.table import Table
from rich.text import Text

from compactor.bills import Spending
from compactor.commands.spending import caps_of, read_spending
from compactor.pricing import UNKNOWN, dollars
from compactor.settings import Settings
from compactor.store import Store


def days_of(settings: Settings, tenant: str) -> list[Spending]:
    """A tenant's days, the newest first. Raises StoreUnavailableError."""
    with Store(settings) as store:
        return store.run(read_spending(settings.namespace, tenant, caps_of(settings)))


def day_line(day: Spending) -> str:
    """One day of a tenant in one line."""
    cap = "" if day.cap_micro is None else f" of {dollars(day.cap_micro)}"
    tokens = "" if day.cap_tokens is None else f", {day.tokens:,} of {day.cap_tokens:,} tokens"
    capped = f", {day.capped} with extracts since a cap was reached" if day.capped else ""
    return f"{day.tenant} on {day.day}: spent {spent(day)}{cap}{tokens}; {day.compactions} compactions{capped}"


def days_table(days: list[Spending]) -> Table:
    """A row per day."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("day (UTC)", no_wrap=True)
    for title in ("spent", "tokens", "compactions", "capped", "freed", "net"):
        table.add_column(title, justify="right")
    for day in days:
        figures = (f"{day.tokens:,}", f"{day.compactions:,}", f"{day.capped:,}", f"{day.freed:,}", dollars(day.net))
        table.add_row(Text(day.day), spent(day), *figures)
    return table


def spent(day: Spending) -> str:
    """Money of priced models; beside it, or in its place, the tokens of those without a price."""
    if not day.unpriced:
        return dollars(day.micro)
    unpriced = f"{day.unpriced:,} tokens, {UNKNOWN}"
    return f"{dollars(day.micro)} and {unpriced}" if day.micro else unpriced
