"""`compactor bench`: what sessions cost, as ratios measured side by side in one run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Annotated, Final

import typer

from compactor.cli.app import app
from compactor.cli.bench_compactions import compactions
from compactor.cli.bench_ground import Ground, ground
from compactor.cli.bench_ratio import Ratio, show
from compactor.cli.bench_reads import reads
from compactor.cli.bench_swap import swaps
from compactor.cli.bench_texts import hostile_texts
from compactor.cli.bench_writes import writes
from compactor.cli.console import Json, print_json
from compactor.exceptions import ConfigurationError

_PARTS: Final[Mapping[str, Callable[[Ground], list[Ratio]]]] = {
    "reads": reads,
    "writes": writes,
    "swaps": swaps,
    "compactions": compactions,
    "texts": hostile_texts,
}

bench_app = typer.Typer(help="Measures, side by side in one run.", invoke_without_command=True)
app.add_typer(bench_app, name="bench")


@bench_app.callback()
def bench(
    context: typer.Context,
    rounds: Annotated[int, typer.Option(min=5, help="Interleaved rounds of each pair.")] = 60,
    only: Annotated[str, typer.Option(help=f"One part: {', '.join(_PARTS)}.")] = "",
    json: Json = False,
) -> None:
    """Prints ratios of reads, writes, swaps, compactions and hostile texts against their goals.

    Absolute times on a shared machine prove nothing, so each pair is timed by turns in one run.
    Needs a server only: REDIS_URL, else an embedded one. Exits with 1 when a goal is missed.
    """
    if context.invoked_subcommand is not None:
        return
    if only and only not in _PARTS:
        raise ConfigurationError(f"only: expected one of {', '.join(_PARTS)}.")
    found: list[Ratio] = []
    with ground(rounds) as stage:
        for name, measure in _PARTS.items():
            if only in ("", name):
                found += measure(stage)
    if json:
        for ratio in found:
            print_json(asdict(ratio))
    else:
        show(found)
    raise typer.Exit(0 if all(ratio.met for ratio in found) else 1)
