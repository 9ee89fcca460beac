"""`compactor bench soak`: thousands of live sessions for a while, and a picture of how the workers keep up."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random
from statistics import median, quantiles
from typing import Annotated, Final

import typer
from rich.table import Table

from compactor.cli.bench import bench_app
from compactor.cli.broker import Broker
from compactor.cli.console import Json, print_json, stdout
from compactor.cli.load.crowd import Crowd
from compactor.cli.load.picture import Panel, svg
from compactor.cli.load.rig import Rig, rig, used, wait_for
from compactor.client import Compactor
from compactor.embedded import Child
from compactor.exceptions import ConfigurationError, EmbeddedServerError

_MB: Final = 1024 * 1024
_TENANTS: Final = 200
_SAMPLES: Final = 120  # of a run, at least a second apart
_DRAIN: Final = 300.0  # seconds until the last compactions must have ended
_SEED: Final = 1


@dataclass(frozen=True, slots=True)
class Sample:
    """One moment: seconds since the start; waits in seconds, of compactions that ended since the last one."""

    at: float
    turns: int
    compactions: int
    wait_median: float
    wait_p95: float
    in_flight: int
    queued: int
    workers_mb: float
    server_mb: float
    lag: float


@bench_app.command()
def soak(
    sessions: Annotated[int, typer.Option(min=1, help="Live sessions.")] = 10_000,
    minutes: Annotated[float, typer.Option(min=0.1, help="How long they talk.")] = 30.0,
    pause: Annotated[float, typer.Option(min=0.1, help="Seconds between two turns of a session, on average.")] = 300.0,
    latency: Annotated[float, typer.Option(min=0.0, help="Seconds that the model takes for an answer.")] = 1.0,
    workers: Annotated[int, typer.Option(min=1, help="Worker processes.")] = 1,
    concurrency: Annotated[int, typer.Option(min=1, help="Compactions at once in each.")] = 64,
    picture: Annotated[Path, typer.Option(help="Where the picture goes.")] = Path("soak.svg"),
    json: Json = False,
) -> None:
    """Lets sessions take Poisson turns before a model of fixed latency; tells queue wait, calls in flight and memory.

    Exits with 1 when a compaction ended otherwise than applied, or did not end. Needs the extras worker, embedded
    and bench.
    """
    if picture.is_dir() or not picture.absolute().parent.is_dir():  # told now, not after half an hour
        raise ConfigurationError("picture: expected a file in a folder that exists, for example --picture soak.svg.")
    with rig(latency=latency) as running:
        settings = running.settings()
        with (
            running.workers(settings, processes=workers, concurrency=concurrency) as children,
            Compactor(settings=settings) as memory,
        ):
            crowd = Crowd(memory, sessions, min(_TENANTS, sessions), pause, Random(_SEED))  # noqa: S311 # why: a load, no secret
            broker = Broker(settings)
            samples = _talk(crowd, running, children, broker, minutes * 60)
            broker.close()
            wait_for(lambda: not crowd.waiting(), seconds=_DRAIN, what="the last compactions")
    picture.write_text(_picture(samples, crowd), encoding="utf-8")
    if json:
        for sample in samples:
            print_json(asdict(sample))
        print_json({"sessions": sessions, "turns": crowd.turns, "ended": dict(crowd.ended), "picture": str(picture)})
    else:
        _table(samples, crowd, picture)
    raise typer.Exit(0 if crowd.ended.keys() <= {"applied"} else 1)


def _talk(crowd: Crowd, running: Rig, children: Sequence[Child], broker: Broker, seconds: float) -> list[Sample]:
    samples: list[Sample] = []
    step = max(1.0, seconds / _SAMPLES)
    crowd.begin()
    began = time.monotonic()
    while time.monotonic() - began < seconds:
        crowd.run(min(began + seconds, time.monotonic() + step))
        if any(child.process.poll() is not None for child in children):
            raise EmbeddedServerError(f"bench: a worker ended. {children[0].tail()}")
        waits, crowd.waits = crowd.waits, []
        samples.append(
            Sample(
                at=round(time.monotonic() - began, 1),
                turns=crowd.turns,
                compactions=sum(crowd.ended.values()),
                wait_median=round(median(waits), 3) if waits else 0.0,
                wait_p95=round(_p95(waits), 3),
                in_flight=running.model.in_flight,
                queued=broker.queue_length(),
                workers_mb=round(used(children).memory / _MB, 1),
                server_mb=round(used([running.server.child]).memory / _MB, 1),
                lag=round(crowd.lag, 3),
            )
        )
    return samples


def _p95(waits: Sequence[float]) -> float:
    return quantiles(waits, n=20)[-1] if len(waits) > 1 else sum(waits)


def _picture(samples: Sequence[Sample], crowd: Crowd) -> str:
    panels = [
        Panel("queue wait, s", {"median": [s.wait_median for s in samples], "p95": [s.wait_p95 for s in samples]}),
        Panel("model calls in flight", {"calls": [s.in_flight for s in samples]}),
        Panel("tasks in the queue", {"tasks": [s.queued for s in samples]}),
        Panel("memory, MB", {"workers": [s.workers_mb for s in samples], "server": [s.server_mb for s in samples]}),
        Panel("lag of the load itself, s", {"lag": [s.lag for s in samples]}),
    ]
    title = f"{crowd.sessions:,} sessions, {crowd.turns:,} turns, {sum(crowd.ended.values()):,} compactions"
    return svg(title, [sample.at for sample in samples], panels)


def _table(samples: Sequence[Sample], crowd: Crowd, picture: Path) -> None:
    table = Table(
        "s", "turns", "compactions", "wait ms", "p95", "in flight", "queue", "workers MB", "server MB", "lag s"
    )
    for sample in samples[:: max(1, len(samples) // 20)]:
        table.add_row(
            f"{sample.at:.0f}", f"{sample.turns:,}", f"{sample.compactions:,}", f"{sample.wait_median * 1000:.0f}",
            f"{sample.wait_p95 * 1000:.0f}", f"{sample.in_flight}", f"{sample.queued}", f"{sample.workers_mb:.0f}",
            f"{sample.server_mb:.0f}", f"{sample.lag:.1f}",
        )  # fmt: skip
    stdout.print(table)
    stdout.print(f"{crowd.turns:,} turns, ended: {dict(crowd.ended)}; picture: {picture}", soft_wrap=True)
