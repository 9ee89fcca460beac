"""`compactor bench fleet`: what a fleet needs, from costs measured here, and how its queue behaves."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Annotated

import typer
from rich.table import Table

from compactor.cli.bench import bench_app
from compactor.cli.console import Json, print_json, stdout
from compactor.cli.fleet_costs import measure
from compactor.cli.fleet_sizes import BUSY, Costs, Load, Need, Outcome, needs, simulate
from compactor.cli.load.conversations import source

_SHOWN = (
    ("server CPU of a turn", "redis_turn", 1e6, "µs"),
    ("server CPU of a compaction", "redis_compaction", 1e6, "µs"),
    ("bot CPU of a turn", "bot_turn", 1e6, "µs"),
    ("worker CPU of a compaction", "worker_compaction", 1e3, "ms"),
    ("commands of a turn, those in scripts too", "commands_turn", 1, ""),
    ("network of a turn", "network_turn", 1e-3, "KB"),
    ("a live session", "session_bytes", 1e-3, "KB"),
    ("archive of a turn", "archive_turn", 1e-3, "KB"),
    ("tokens of a turn", "turn_tokens", 1, ""),
    ("tokens that a compaction frees", "freed_tokens", 1, ""),
    ("model calls of a compaction", "calls_compaction", 1, ""),
)


@bench_app.command()
def fleet(
    sessions: Annotated[int, typer.Option(min=1, help="Live sessions.")] = 1_000_000,
    turns: Annotated[float, typer.Option(min=0.1, help="Turns a second of all of them.")] = 10_000.0,
    turns_of_session: Annotated[float, typer.Option(min=1, help="Turns a session has until it ends.")] = 40.0,
    model_seconds: Annotated[float, typer.Option(min=0.01, help="One call of the cheap model.")] = 1.0,
    slots: Annotated[int, typer.Option(min=1, help="Compactions at once in a worker process.")] = 32,
    calls_in_flight: Annotated[int, typer.Option(min=1, help="Model calls at once in a worker process.")] = 200,
    server_gb: Annotated[float, typer.Option(min=0.1, help="Memory of one Redis.")] = 32.0,
    seconds: Annotated[float, typer.Option(min=0.1, help="Simulated time.")] = 60.0,
    sample: Annotated[int, typer.Option(min=2, help="Sessions whose costs are measured.")] = 40,
    json: Json = False,
) -> None:
    """Measures what turns and compactions cost here, then sizes a fleet and simulates its queue.

    The sample's sessions are agents in a window of 16K tokens; each turn is a question, a tool call with a
    result of about 1,500 tokens, and an answer. Two embedded servers are started; no model is called.
    """
    costs = measure(sample, 24, source)
    load = Load(sessions, turns, turns_of_session, model_seconds, slots, calls_in_flight)
    found = needs(costs, load, server_gb=server_gb)
    workers = next(need.count for need in found if need.resource == "worker slots")
    tight = math.ceil(workers * BUSY * 0.9)  # a tenth fewer slots than there is work for
    runs = [simulate(costs, load, count, seconds=seconds) for count in (workers, tight)]
    if json:
        told = [asdict(need) for need in found]
        print_json({"costs": asdict(costs), "load": asdict(load), "needs": told, "runs": [asdict(run) for run in runs]})
        return
    _print(costs, found, runs)


def _print(costs: Costs, found: list[Need], runs: list[Outcome]) -> None:
    unit = Table("measured here", "", show_header=True)
    for title, name, factor, suffix in _SHOWN:
        unit.add_row(title, f"{getattr(costs, name) * factor:,.1f} {suffix}".strip())
    stdout.print(unit)
    size = Table("resource", "taken", f"count at {BUSY:.0%}", "turns/s of one")
    for need in found:
        size.add_row(*need.row)
    stdout.print(size)
    queue = Table("workers", "compactions", "wait median", "wait p99", "at once", "left waiting", "over the ceiling")
    for run in runs:
        queue.add_row(
            f"{run.workers:,}", f"{run.compactions:,}", f"{run.wait_median:.2f} s", f"{run.wait_p99:.2f} s",
            f"{run.in_flight_most:,}", f"{run.waiting_at_end:,}", f"{run.over_ceiling:.2%}",
        )  # fmt: skip
    stdout.print(queue)
