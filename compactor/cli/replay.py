"""`compactor replay FILE...`: recorded sessions pushed as an agent would, with the promises checked."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from pathlib import Path
from secrets import token_hex
from typing import Annotated, Any

import typer
from pydantic import SecretStr
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from compactor.cli.app import app
from compactor.cli.backend import backend, server_only
from compactor.cli.console import Json, print_json, stderr
from compactor.cli.player import Played, play
from compactor.cli.recordings import joined, read_recordings
from compactor.cli.replay_tables import broken, print_sessions, print_shares, total_of
from compactor.cli.simulated_worker import Pace
from compactor.client import Compactor
from compactor.model_config import ModelConfig
from compactor.settings import Settings
from compactor.store import Store

SESSION_TTL = 3_600.0  # seconds; a replay leaves nothing behind for longer


@app.command()
def replay(
    files: Annotated[list[Path], typer.Argument(help="Recorded sessions: .jsonl, .jsonl.gz, or a JSON message list.")],
    limit: Annotated[
        list[int] | None, typer.Option(help="Context limit in K tokens; may be given several times.")
    ] = None,
    strategy: Annotated[str, typer.Option(help="conservative, balanced or aggressive.")] = "balanced",
    concurrency: Annotated[int, typer.Option(min=1, help="Sessions played at the same time.")] = 4,
    model: Annotated[str, typer.Option(help="Model name; it decides the token encoding.")] = "gpt-4o",
    step_seconds: Annotated[
        float | None, typer.Option(min=0.001, help="Simulated clock: seconds that a step of the bot takes.")
    ] = None,
    model_seconds: Annotated[
        float | None, typer.Option(min=0.0, help="Simulated clock: seconds that a summary takes; 0: extracts, at once.")
    ] = None,
    join: Annotated[bool, typer.Option("--join", help="The sessions of each file as one long session.")] = False,
    json: Json = False,
) -> None:
    """Replays recorded sessions, and checks that nothing is lost, invalid or changed.

    Runs on REDIS_URL and its worker when set, else on embedded ones; the bot never waits for the worker.
    With a simulated clock no worker process runs: a compaction's swap lands as many steps later as its
    model calls take (8 of a session at the same time). Exits with 1 when a promise broke.
    """
    pace = _pace(step_seconds, model_seconds)
    recordings = joined(read_recordings(files)) if join else list(read_recordings(files))
    limits = limit or [16]
    played: list[Played] = []
    with (
        _backend(pace) as settings,
        Store(settings) as store,
        Compactor(settings=settings.model_copy(update={"session_ttl": SESSION_TTL})) as memory,
        _progress(len(recordings) * len(limits), quiet=json) as progress,
        ThreadPoolExecutor(concurrency) as pool,
    ):
        for each in limits:
            rows = pool.map(partial(play, memory, store, ModelConfig(model, each, strategy), pace), recordings)
            for row in rows:
                played.append(row)
                progress()
                if json:
                    print_json(asdict(row))
    total = total_of(played)
    print_json({"total": total}) if json else _print(played)
    raise typer.Exit(1 if broken(total) else 0)


def _pace(step_seconds: float | None, model_seconds: float | None) -> Pace | None:
    if step_seconds is None and model_seconds is None:
        return None
    if step_seconds is None:
        raise typer.BadParameter("--model-seconds needs --step-seconds: how fast the bot goes on meanwhile.")
    return Pace(step_seconds, model_seconds or 0.0)


@contextmanager
def _backend(pace: Pace | None) -> Generator[Settings]:
    """A server with a worker; on a simulated clock one whose tasks go nowhere, since this process works them off."""
    if pace is None:
        with backend() as settings:
            yield settings
        return
    with server_only() as settings:
        yield settings.model_copy(update={"broker_url": SecretStr("memory://"), "namespace": f"replay-{token_hex(4)}"})


def _print(played: Sequence[Played]) -> None:
    if len({row.limit for row in played}) > 1:
        print_shares(played)
    else:
        print_sessions(played)


@contextmanager
def _progress(count: int, *, quiet: bool) -> Generator[Any]:
    columns = (TextColumn("replaying"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=stderr, disable=quiet or not stderr.is_terminal) as bar:
        task = bar.add_task("sessions", total=count)
        yield lambda: bar.advance(task)
