"""`compactor shadow`: what compactions in shadow mode would have done to the sessions of a fleet."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from itertools import chain
from typing import Annotated, Final

import typer
from rich.table import Table
from rich.text import Text

from compactor.cli.app import app
from compactor.cli.console import Json, print_json, stdout
from compactor.cli.sessions import pages
from compactor.commands.command import session_keys
from compactor.commands.read import read_audit
from compactor.models import Code, Outcome
from compactor.outcomes import from_json
from compactor.pricing import dollars
from compactor.settings import read_settings
from compactor.store import Store

_RUNGS: Final = tuple(each.name.removeprefix("by_") for each in fields(Outcome) if each.name.startswith("by_"))


@dataclass(slots=True)
class Trial:
    """The account of a fleet in shadow mode: tokens, values, and micro-dollars where prices are known.

    `freed` and `replaced` (by rung) count what compactions would have done; `without_gain` counts runs that would
    have replaced nothing, by their outcome; `unpriced` the compactions that money says nothing of.
    """

    sessions: int = 0
    compacted_sessions: int = 0
    compactions: int = 0
    before: int = 0
    freed: int = 0
    replaced: Counter[str] = field(default_factory=Counter[str])
    values_used: int = 0
    values_kept: int = 0
    spent_in: int = 0
    spent_out: int = 0
    spent: int = 0
    net: int = 0
    unpriced: int = 0
    without_gain: Counter[str] = field(default_factory=Counter[str])

    @property
    def freed_percent(self) -> float | None:
        """Tokens that would have left, in percent of the contexts before; None before any compaction."""
        return round(100 * self.freed / self.before, 1) if self.before else None

    @property
    def kept_percent(self) -> float | None:
        """Values that later turns used and would have found still; None when they used none."""
        return round(100 * self.values_kept / self.values_used, 1) if self.values_used else None

    def add(self, runs: Iterable[Outcome]) -> None:
        """Enters the audit of one session."""
        self.sessions += 1
        known = self.compactions
        for run in runs:
            if run.outcome is Code.SHADOW:
                self._enter(run)
            elif run.outcome in (Code.NO_GAIN, Code.EXHAUSTED, Code.SUMMARIZER_FAILED):
                self.without_gain[run.outcome.value] += 1
        self.compacted_sessions += self.compactions > known

    def _enter(self, run: Outcome) -> None:
        self.compactions += 1
        self.before += run.before
        self.freed += run.saved
        self.replaced.update({rung: getattr(run, f"by_{rung}") for rung in _RUNGS})
        self.values_used += run.values_used
        self.values_kept += run.values_kept
        self.spent_in += run.spent_in
        self.spent_out += run.spent_out
        if run.bill is None or run.bill.net is None or run.bill.spent is None:
            self.unpriced += 1
        else:
            self.spent += run.bill.spent
            self.net += run.bill.net


@app.command()
def shadow(
    tenant: Annotated[
        str | None, typer.Option(help="Only sessions of this tenant: what stands before the first slash.")
    ] = None,
    json: Json = False,
) -> None:
    """Sums up what compactions in shadow mode (COMPACTOR_SHADOW) would have done, over all sessions.

    Nothing was replaced; the figures are those of the audits, the newest 1,000 runs of a session.
    """
    settings, trial = read_settings(), Trial()
    with Store(settings) as store:
        for session in chain.from_iterable(pages(store, settings, tenant)):
            rows = store.run(read_audit(session_keys(settings.namespace, session)))
            trial.add(from_json(row) for row in rows)
    if json:
        shares = {"freed_percent": trial.freed_percent, "kept_percent": trial.kept_percent}
        print_json({**{each.name: getattr(trial, each.name) for each in fields(trial)}, **shares})
        return
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in _facts(trial).items():
        table.add_row(name, Text(value))
    stdout.print(table)


def _facts(trial: Trial) -> dict[str, str]:
    if not trial.compactions:
        return {
            "sessions": f"{trial.sessions:,}",
            "shadow compactions": "none yet: set COMPACTOR_SHADOW=extracts for bots and workers, and let sessions "
            "cross their threshold",
        }
    rungs = ", ".join(f"{count:,} by {rung}" for rung, count in trial.replaced.items() if count)
    facts = {
        "sessions": f"{trial.sessions:,}, of which {trial.compacted_sessions:,} would have been compacted",
        "compactions": f"{trial.compactions:,}",
        "tokens": f"{trial.freed:,} of {trial.before:,} would have left the contexts ({trial.freed_percent} %)",
        "replaced": f"{trial.replaced.total():,}: {rungs}",
        "values": f"{trial.values_kept:,} of {trial.values_used:,} that later turns used would have been there still "
        f"({trial.kept_percent} %)"
        if trial.values_used
        else "later turns have used none so far",
        "money": _money(trial),
    }
    if trial.without_gain:
        told = ", ".join(f"{count:,} x {name}" for name, count in sorted(trial.without_gain.items()))
        facts["without gain"] = told
    return facts


def _money(trial: Trial) -> str:
    spent = f"{trial.spent_in:,} + {trial.spent_out:,} tokens went to the summarizer"
    unpriced = f"; price unknown of {trial.unpriced:,} compactions" if trial.unpriced else ""
    if trial.unpriced == trial.compactions:
        return spent + unpriced
    return f"{spent} for {dollars(trial.spent)}; net saving {dollars(trial.net)}{unpriced}"
