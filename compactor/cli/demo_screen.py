"""The demo on a terminal: the chart of the session, the newest events, and tables at the end."""

from __future__ import annotations

from collections import deque
from types import TracebackType
from typing import Any, Final, Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from compactor.cli.console import printable
from compactor.cli.demo_agent import Send
from compactor.cli.demo_chart import AXIS, Levels, chart, legend
from compactor.cli.demo_checks import Report
from compactor.cli.demo_watch import STARTING, cost_text, ended_text, heading, queued_text, sample_text
from compactor.models import Fit, Outcome

ROWS: Final = 11
WIDEST: Final = 110  # columns
EVENTS: Final = 6
SAMPLE_LINES: Final = 8


class Screen:
    """Redraws at each event."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._plain = console.options.ascii_only or console.legacy_windows
        self._sends: list[Send] = []
        self._outcomes: list[Outcome] = []
        self._events: deque[Text] = deque(maxlen=EVENTS)
        self._levels = Levels(1, 1)
        self._status = console.status(STARTING)
        self._live = Live(console=console, auto_refresh=False, transient=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._status.stop()
        self._live.stop()

    def starting(self) -> None:
        self._status.start()

    def started(self, facts: dict[str, Any]) -> None:
        self._status.stop()
        self._levels = Levels(facts["limit"], facts["threshold"])
        self._console.print(Text(heading(facts)))
        self._console.print(Text(f"Summaries by {facts['summaries']}."))
        self._console.print()
        self._live.start()

    def sent(self, send: Send) -> None:
        self._sends.append(send)
        self._draw()

    def queued(self, send: Send) -> None:
        self._events.append(Text(queued_text(send), style="yellow"))
        self._draw()

    def ended(self, outcome: Outcome, send: Send) -> None:
        self._outcomes.append(outcome)
        self._events.append(Text(ended_text(outcome, send), style="bold green" if outcome.items else "red"))
        self._draw()

    def finished(self, report: Report) -> None:
        self._live.stop()
        self._console.print()
        self._console.print(_runs(self._outcomes))
        self._console.print()
        self._console.print(_promises(report))
        self._console.print()
        self._console.print(Text(cost_text(report)))
        if report.sample is not None:
            self._console.print()
            self._console.print(Text(sample_text(report.sample)))
            for line in report.sample.text.splitlines()[:SAMPLE_LINES]:
                text = Text(f"  {printable(line)}", "bright_black")
                self._console.print(text, no_wrap=True, overflow="ellipsis")
            self._console.print()

    def _draw(self) -> None:
        self._live.update(self._picture(), refresh=True)

    def _picture(self) -> RenderableType:
        width = min(self._console.width, WIDEST)
        lines = [Text("", no_wrap=True), *self._events, *[Text("")] * (EVENTS - len(self._events))]
        for line in lines:
            line.no_wrap, line.overflow = True, "ellipsis"
        return Group(
            chart(self._sends, self._levels, width=width, rows=ROWS, plain=self._plain),
            legend(plain=self._plain),
            *([self._now(self._sends[-1])] if self._sends else []),
            *lines,
        )

    def _now(self, send: Send) -> Text:
        short = "" if send.fit is Fit.FITS else f" ({send.fit.value})"
        return Text.assemble(
            " " * (AXIS - 1),
            (f"{send.percent:>4.0f} %", "bold"),
            f"  {send.sent:,} tokens{short}  send {send.number}: ",
            (send.doing, "cyan"),
            no_wrap=True,
            overflow="ellipsis",
        )


def _runs(outcomes: list[Outcome]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("compaction")
    by_what = ("model", "extract", "condensed", "pointer", "arguments", "fold")
    for title in ("tokens before", "after", "saved", "replaced", *by_what, "seconds"):
        table.add_column(title, justify="right")
    for outcome in outcomes:
        by = tuple(getattr(outcome, f"by_{what}") for what in by_what)
        tokens = (outcome.before, outcome.after, outcome.saved)
        figures = [*(f"{count:,}" for count in (*tokens, outcome.items, *by)), f"{outcome.ms / 1000:.1f}"]
        table.add_row(outcome.outcome.value, *figures)
    return table


def _promises(report: Report) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("checked", "found", ""):
        table.add_column(title)
    for check in report.checks:
        table.add_row(check.title, check.found, Text("ok", "green") if check.ok else Text("FAILED", "bold red"))
    return table
