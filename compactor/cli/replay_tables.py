"""What a replay found, as sums and as tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from rich.box import MARKDOWN
from rich.table import Table

from compactor.cli.console import stdout
from compactor.cli.player import Played

_SUMS: Final = (
    "messages", "prepares", "shortened", "sudden", "impossible", "compactions", "tokens_saved", "started", "halved",
    "pairs", "early", "lost", "invalid", "changed",
)  # fmt: skip
_COLUMNS: Final = (
    "session", "messages", "sends", "in the view", "compactions", "outcome", "saved", "lost", "invalid", "changed",
)  # fmt: skip


def total_of(played: Sequence[Played]) -> dict[str, Any]:
    """Sums over all sessions, outcomes counted, and for each window and source the share of sends in the view."""
    sums: dict[str, Any] = {name: sum(getattr(row, name) for row in played) for name in _SUMS}
    outcomes = dict(Counter(row.outcome for row in played).most_common())
    limits = dict.fromkeys(row.limit for row in played)
    views = {str(limit): _shares(row for row in played if row.limit == limit) for limit in limits}
    return {"sessions": len(played), **sums, "outcomes": outcomes, "views": views}


def broken(total: Mapping[str, Any]) -> bool:
    """Whether a promise broke."""
    return bool(total["lost"] or total["invalid"] or total["changed"])


def _shares(played: Iterable[Played]) -> dict[str, float]:
    """Percent of sends that needed the view, by source and of all."""
    sends, views = Counter[str](), Counter[str]()
    for row in played:
        for name in (row.source, "all"):
            sends[name] += row.prepares
            views[name] += row.shortened
    return {name: round(100 * views[name] / max(1, count), 2) for name, count in sends.items()}


def print_shares(played: Sequence[Played]) -> None:
    """The share of sends in the view by source and window, as a table that Markdown takes."""
    total = total_of(played)
    views: dict[str, dict[str, float]] = total["views"]
    table = Table("source", *(f"{limit}K" for limit in views), box=MARKDOWN)
    for column in table.columns[1:]:
        column.justify = "right"
    sources = dict.fromkeys(row.source for row in played)
    for name in (*sources, "all"):
        table.add_row(name, *(f"{shares[name]:.1f} %" for shares in views.values()))
    stdout.print(table)
    _print_sum(total)


def print_sessions(played: Sequence[Played]) -> None:
    """One line for each session, and the sums."""
    table = Table(*_COLUMNS)
    for column in table.columns[1:]:
        column.justify = "right"
    for row in played:
        table.add_row(
            row.id, f"{row.messages}", f"{row.prepares}", f"{row.shortened}", f"{row.compactions}", row.outcome,
            f"{row.tokens_saved:,}", f"{row.lost}", f"{row.invalid}", f"{row.changed}",
        )  # fmt: skip
    stdout.print(table)
    _print_sum(total_of(played))


def _print_sum(total: Mapping[str, Any]) -> None:
    share = 100 * total["shortened"] / max(1, total["prepares"])
    stdout.print(
        f"{total['sessions']} sessions, {total['messages']:,} messages, {total['prepares']:,} sends, "
        f"{share:.1f} % in the view; {total['compactions']} compactions saved {total['tokens_saved']:,} tokens. "
        f"Lost {total['lost']}, invalid {total['invalid']}, changed {total['changed']}.\n"
        f"Of the {total['shortened']:,} sends in the view one step took {total['sudden']:,} from below the threshold "
        "past the ceiling.\n"
        f"Of {total['started']:,} compactions that the talk started {total['halved']:,} reached their target; "
        f"of {total['pairs']:,} pairs in a row {total['early']:,} came closer than threshold - target."
    )
