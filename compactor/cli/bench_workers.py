"""`compactor bench workers`: how many model calls a worker process keeps in flight, and what each costs it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Annotated, Final

import typer
from rich.table import Table

from compactor.cli.bench import bench_app
from compactor.cli.console import Json, print_json, stdout
from compactor.cli.load.conversations import just_over, with_results
from compactor.cli.load.rig import Rig, rig, used, wait_for
from compactor.client import Compactor
from compactor.exceptions import EmbeddedServerError
from compactor.models import Outcome

_TENANTS: Final = 50
_PATIENCE: Final = 300.0  # seconds for one run


@dataclass(frozen=True, slots=True)
class Run:
    """Compactions worked off: `calls` made in the `seconds` after the start-up, and the CPU seconds of each call.

    The start-up is what the first third of the sessions takes: workers load, connect, and start one after another.
    """

    calls: int
    seconds: float
    cpu_per_call: float

    @property
    def rate(self) -> float:
        return self.calls / self.seconds


@dataclass(frozen=True, slots=True)
class Finding:
    """One figure with its goal; `cpu_ms` is what a call costs a worker in CPU time, all of the compaction included."""

    name: str
    value: float
    goal: str
    met: bool
    calls_per_second: float = 0.0
    cpu_ms: float = 0.0


@bench_app.command()
def workers(
    latency: Annotated[float, typer.Option(min=0.05, help="Seconds that the model takes for an answer.")] = 1.0,
    rounds: Annotated[int, typer.Option(min=2, help="Answers that each place in flight waits for.")] = 6,
    json: Json = False,
) -> None:
    """Starts workers before a model of fixed latency and counts the calls they keep in flight.

    Needs the extras worker, embedded and bench. On busy cores the CPU time of a call tells more than calls per second.
    """
    with rig(latency=latency) as running:
        found = [*_in_flight(running, latency, rounds), _one_session(running, latency), _two(running, rounds)]
    for finding in found:
        if json:
            print_json(asdict(finding))
    if not json:
        _table(found)
    raise typer.Exit(0 if all(finding.met for finding in found) else 1)


def _in_flight(running: Rig, latency: float, rounds: int) -> list[Finding]:
    few = worked_off(running, sessions=32 * rounds, results=1, processes=1, concurrency=32)
    many = worked_off(running, sessions=40 * rounds, results=5, processes=1, concurrency=40)
    share = few.rate * latency / 32
    return [
        _finding("32 calls in flight / what the latency allows", round(share, 3), 0.9, few),
        _finding("200 calls in flight, calls per second", round(many.rate, 1), 80, many),
    ]


def _finding(name: str, value: float, least: float, run: Run) -> Finding:
    cpu_ms = round(1000 * run.cpu_per_call, 2)
    return Finding(name, value, f"≥ {least:g}", value >= least, round(run.rate, 1), cpu_ms)


def _one_session(running: Rig, latency: float) -> Finding:
    """How long one session with five results takes, alone, in calls."""
    settings = running.settings()
    messages = with_results(5)
    config, taken = just_over(messages), list[float]()
    with running.workers(settings, processes=1, concurrency=8), Compactor(settings=settings) as memory:
        for number in range(6):
            session = memory.session(f"alone/{number}", config)
            session.push(messages)
            taken.append(session.compact(wait=60).ms / 1000)
    calls = median(taken[1:]) / latency  # the first one connects
    return Finding("one session with 5 results, in model calls", round(calls, 2), "≤ 1.2", calls <= 1.2)


def _two(running: Rig, rounds: int) -> Finding:
    one, two = (
        worked_off(running, sessions=32 * rounds, results=1, processes=processes, concurrency=16)
        for processes in (1, 2)
    )
    ratio = two.rate / one.rate
    cpu_ms = round(1000 * two.cpu_per_call, 2)
    return Finding("two worker processes / one", round(ratio, 2), "≥ 1.9", ratio >= 1.9, round(two.rate, 1), cpu_ms)


def worked_off(running: Rig, *, sessions: int, results: int, processes: int, concurrency: int) -> Run:
    """One run: all sessions are queued, then workers start. Raises EmbeddedServerError when a call went wrong."""
    settings = running.settings(tenant_published=sessions)
    messages = with_results(results)
    config = just_over(messages)
    with Compactor(settings=settings) as memory:
        opened = [memory.session(f"tenant-{number % _TENANTS}/{number}", config) for number in range(sessions)]
        for session in opened:
            session.push(messages)
            session.prepare()
        running.model.requests.clear()
        calls = sessions * results
        with running.workers(settings, processes=processes, concurrency=concurrency) as children:
            before = used(children)
            wait_for(lambda: len(running.model.requests) >= calls, seconds=_PATIENCE, what="the model calls")
            wait_for(lambda: all(session.compactions() for session in opened), seconds=_PATIENCE, what="the swaps")
            cpu = used(children).cpu - before.cpu
        return _run([session.compactions()[-1] for session in opened], calls, cpu)


def _run(outcomes: Sequence[Outcome], calls: int, cpu: float) -> Run:
    made = sum(outcome.by_model for outcome in outcomes)
    if made != calls:
        raise EmbeddedServerError(f"bench: {calls} summaries were expected, the model wrote {made}.")
    ended = sorted(outcomes, key=lambda outcome: outcome.at)
    first = len(ended) // 3
    counted = sum(outcome.by_model for outcome in ended[first:])
    return Run(counted, ended[-1].at - ended[first - 1].at, cpu / calls)


def _table(found: Sequence[Finding]) -> None:
    table = Table("figure", "value", "goal", "calls/s", "CPU ms/call")
    for finding in found:
        style = "green" if finding.met else "red"
        figures = (f"{figure:g}" if figure else "" for figure in (finding.calls_per_second, finding.cpu_ms))
        table.add_row(finding.name, f"[{style}]{finding.value:g}[/]", finding.goal, *figures)
    stdout.print(table)
