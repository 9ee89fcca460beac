"""How a chaos run is shown: faults by kind, then what they broke."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from rich.table import Table

from compactor.cli.chaos.audit import PROMISES
from compactor.cli.chaos.faults import KINDS
from compactor.cli.console import stdout


def show(report: dict[str, Any], hits: Counter[str]) -> None:
    """Prints the report for people."""
    table = Table("fault", "times", title=f"seed {report['seed']}")
    table.columns[1].justify = "right"
    for kind in KINDS:
        table.add_row(kind.title, f"{hits[kind.name]:,}")
    stdout.print(table)
    for line in lines(report):
        stdout.print(line, soft_wrap=True)
    for detail in report["details"][:10]:
        stdout.print(f"  {detail}", soft_wrap=True, markup=False)


def lines(report: dict[str, Any]) -> Sequence[str]:
    """The report in sentences, the verdict first."""
    found = ", ".join(f"{name} {report[name]}" for name in (*PROMISES, "double-billed"))
    load = (
        f"{report['pushes']:,} pushes of {report['messages']:,} messages to {report['sessions']} sessions under "
        f"{report['faults']} faults of {report['kinds']} kinds in {report['seconds']:.0f} s; "
        f"{report['sends']:,} sends, {report['degraded']:,} of them from memory; {report['failed']:,} calls failed "
        f"and were repeated; {report['doubtful']} pushes were in doubt when their process was killed."
    )
    work = (
        f"{report['compactions']:,} compactions ({_counted(report['outcomes'])}); {report['replaced']:,} results "
        f"replaced, {report['recalled']:,} of them recalled byte for byte."
    )
    calls = (
        f"{report['model_calls']:,} model calls gave a summary, {report['model_failures']:,} did not; "
        f"{report['in_flight']:,} were in flight when their worker was killed, {report['frozen']:,} when it was frozen "
        f"past its lease, {report['stranded']:,} more had come then while Redis was away: {report['unsaved']:,} "
        f"answers in all had not reached Redis; "
        f"{report['at_risk']:,} belonged to compactions that a fault hit on their way: at most these may be made again "
        f"(others that were: {report['unexplained']})."
    )
    rest = (
        f"The claim's lease was {report['lease']:g} s. Miscounted {report['miscounted']}, damaged {report['damaged']}, "
        f"stuck {report['stuck']}, crashed bots {report['crashed']}."
    )
    unfinished = [f"Not finished: {report['unfinished']}."] if report["unfinished"] else []
    return (found, load, work, calls, rest, *unfinished)


def _counted(outcomes: dict[str, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in outcomes.items()) or "none"
