"""The demo without a terminal: plain lines, or JSON lines with `--json`."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, Final, Protocol

from rich.text import Text

from compactor.cli.console import print_json, stdout
from compactor.cli.demo_agent import Send, Watcher
from compactor.cli.demo_checks import Report, Sample
from compactor.cli.reading import outcome_row
from compactor.models import Fit, Outcome

STARTING: Final = "starting a server and a worker"


class Display(Watcher, Protocol):
    """A watcher that also shows the beginning and the end."""

    def starting(self) -> None:
        """Server and worker are being started."""
        ...

    def started(self, facts: dict[str, Any]) -> None:
        """Server and worker run; `facts` say what the demo runs with."""
        ...

    def finished(self, report: Report) -> None:
        """All was checked."""
        ...


class JsonLines:
    """One object per event; `event` names it."""

    def starting(self) -> None:
        print_json({"event": "starting"})

    def started(self, facts: dict[str, Any]) -> None:
        print_json({"event": "started", **facts})

    def sent(self, send: Send) -> None:
        print_json({"event": "sent", **asdict(send), "percent": send.percent})

    def queued(self, send: Send) -> None:
        print_json({"event": "queued", "number": send.number, "stored": send.stored, "percent": _percent(send)})

    def ended(self, outcome: Outcome, send: Send) -> None:
        print_json({"event": "compaction", "number": send.number, **outcome_row(outcome)})

    def finished(self, report: Report) -> None:
        checks = {check.name: check.ok for check in report.checks}
        print_json({"event": "finished", "ok": report.ok, "checks": checks, **report.figures})


class Lines:
    """One line per send and event, for logs and pipes."""

    def starting(self) -> None:
        _say(STARTING)

    def started(self, facts: dict[str, Any]) -> None:
        _say(heading(facts))
        _say(f"Summaries by {facts['summaries']}.")

    def sent(self, send: Send) -> None:
        short = "" if send.fit is Fit.FITS else f", {send.fit.value} for this send"
        _say(f"{send.number:>4} {send.percent:>5.1f} %  {send.sent:>7,} tokens{short}  {send.doing[:60]}")

    def queued(self, send: Send) -> None:
        _say(f"     {queued_text(send)}")

    def ended(self, outcome: Outcome, send: Send) -> None:
        _say(f"     {ended_text(outcome, send)}")

    def finished(self, report: Report) -> None:
        for check in report.checks:
            _say(f"{'ok    ' if check.ok else 'FAILED'} {check.title}: {check.found}")
        _say(cost_text(report))
        if report.sample is not None:
            _say(sample_text(report.sample))
            for line in report.sample.text.splitlines():
                _say(f"  {line}")


def _say(text: str) -> None:
    stdout.print(Text(text), soft_wrap=True)


def heading(facts: dict[str, Any]) -> str:
    """What the demo runs with, in one sentence."""
    return (
        f"A {facts['limit']:,}-token window: from {facts['threshold']:,} on a worker compacts, "
        f"and no send exceeds {facts['ceiling']:,}."
    )


def queued_text(send: Send) -> str:
    """The threshold was crossed."""
    return f"send {send.number}: {_percent(send):.0f} % full, compaction queued; the agent goes on"


def _percent(send: Send) -> float:
    return round(100 * send.stored / send.limit, 1)


def ended_text(outcome: Outcome, send: Send) -> str:
    """A compaction ended."""
    if not outcome.items:
        reason = f" ({outcome.reason})" if outcome.reason else ""
        return f"send {send.number}: compaction ended with {outcome.outcome.value}{reason}"
    return (
        f"send {send.number}: swap arrived, {outcome.before:,} -> {outcome.after:,} tokens, "
        f"{outcome.items} results replaced in {outcome.ms / 1000:.1f} s"
    )


def cost_text(report: Report) -> str:
    """What the sends read in all."""
    seen = report.figures
    less = 100 - 100 * seen["sent_in_all"] / max(1, seen["sent_without"])
    view = f" ({seen['shortened']} of them shortened because a swap was still under way)" if seen["shortened"] else ""
    outgrown = f" From send {seen['outgrown']} on the whole would not have fitted." if seen["outgrown"] else ""
    return (
        f"{seen['sends']} sends{view}: {seen['sent_in_all']:,} tokens in all instead of "
        f"{seen['sent_without']:,}, {less:.0f} % less (prompt caches not counted).{outgrown}"
    )


def sample_text(sample: Sample) -> str:
    """Introduces the shortened form of one result."""
    return (
        f"{sample.recall_id} as the model sees it now, {sample.after:,} tokens instead of {sample.before:,}; "
        "its original can be recalled:"
    )
