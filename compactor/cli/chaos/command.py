"""`compactor chaos`: bots, workers and a model under injected faults, then an audit of every message."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import astuple, dataclass
from importlib.util import find_spec
from json import dumps
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from compactor.cli.app import app
from compactor.cli.chaos.audit import BEYOND, PROMISES, Audited, applied, audit
from compactor.cli.chaos.bill import bill
from compactor.cli.chaos.bot import Part
from compactor.cli.chaos.drain import drain
from compactor.cli.chaos.host import Spec
from compactor.cli.chaos.injector import Injector
from compactor.cli.chaos.journal import Record, read_journal
from compactor.cli.chaos.lister import WAYS
from compactor.cli.chaos.model import ChaosModel
from compactor.cli.chaos.seed import drawn
from compactor.cli.chaos.stage import Stage, bot_settings, stage
from compactor.cli.chaos.table import show
from compactor.cli.console import Json, print_json, stderr
from compactor.cli.stopping import interrupted_by_sigterm
from compactor.client import Compactor
from compactor.embedded import Child
from compactor.exceptions import ConfigurationError, EmbeddedServerError

ROWS: Final = 2  # processes of bots
THREADS: Final = 6  # in each
_SHARED: Final = 0.15  # of the sessions have several bots
_LISTERS: Final = 0.3  # of the others belong to a bot that hands in a list of its own
_LAST_PART: Final = 0.2  # of the minutes are left for draining and the audit


@dataclass(frozen=True, slots=True)
class Size:
    """How big a run is."""

    pushes: int
    sessions: int
    faults: int
    seed: int
    fails: float
    minutes: float


@app.command()
def chaos(
    pushes: Annotated[int, typer.Option(min=1, help="Pushes in all.")] = 20_000,
    sessions: Annotated[int, typer.Option(min=1, help="Sessions they go to.")] = 200,
    faults: Annotated[int, typer.Option(min=1, help="Faults injected meanwhile.")] = 320,
    seed: Annotated[int, typer.Option(help="Draws the conversations and the faults.")] = 1,
    model_fails: Annotated[float, typer.Option(min=0, max=1, help="Share of model calls that fail anyway.")] = 0.0,
    minutes: Annotated[float, typer.Option(min=0.2, help="The most the run may take.")] = 6.0,
    keep: Annotated[Path | None, typer.Option(help="A folder to leave logs and journals in.")] = None,
    json: Json = False,
) -> None:
    """Breaks everything while bots push, then counts what was lost.

    Runs on a server, workers and a model of its own. Exits with 1 when a promise broke, or when the
    time was over before all pushes and faults were through.
    """
    size = Size(pushes, sessions, faults, seed, model_fails, minutes)
    if find_spec("openai") is None:
        raise ConfigurationError("chaos: its workers call a model. pip install 'compactor[worker,embedded]'.")
    folder = keep or Path(tempfile.mkdtemp(prefix="compactor-chaos-"))
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        raise ConfigurationError("keep: expected an empty folder, since the journals of an earlier run would be read.")
    try:
        with interrupted_by_sigterm():
            report, hits = run(size, folder, quiet=json)
    finally:
        if keep is None:
            shutil.rmtree(folder, ignore_errors=True)
    print_json({**report, "hits": dict(hits)}) if json else show(report, hits)
    broken = any(report[name] for name in (*PROMISES, *BEYOND, "stuck", "crashed", "unfinished"))
    raise typer.Exit(1 if broken else 0)


def run(size: Size, folder: Path, *, quiet: bool) -> tuple[dict[str, Any], Counter[str]]:
    """One run: its report, and how often each kind of fault hit."""
    started = time.monotonic()
    parts = cast(size)
    configs = {part.session: part.config for part in parts}
    model = ChaosModel(seed=size.seed, fails=size.fails)
    with stage(folder, rows=ROWS, model=model) as made, _progress(size, quiet=quiet) as progress:
        made.sessions = tuple(configs)
        made.specs += [_spec(row, parts, size, made) for row in range(ROWS)]
        for row in range(ROWS):
            made.start_bots(row)
        deadline = started + 60 * size.minutes * (1 - _LAST_PART)
        injector = Injector(made, size.pushes, size.faults, drawn("faults", size.seed), deadline, progress)
        finished = injector.run()
        made.heal()
        crashed = _stop_bots(made)
        made.workers.wait(made.workers.all_running, 60)
        with Compactor(settings=made.settings) as memory:
            stuck = drain(memory, configs, 30)
            records = [read_journal(Path(spec.journal)) for spec in made.specs]
            audited = audit(memory, configs, records)
        hits = Counter(hit.kind.name for hit in injector.hits)
        _keep_log(folder / "log.json", injector, model, stuck, audited.findings.details)
        report = {
            "seed": size.seed,
            "sessions": len(audited.runs),
            "faults": len(injector.hits),
            "kinds": len(hits),
            "without_effect": dict(injector.missed),
            **_figures(audited, made, records),
            **_billed(injector, records, audited, model, made),
            "stuck": len(stuck),
            "crashed": crashed + injector.crashed,
            "unfinished": "" if finished else f"the time was over after {len(injector.hits)} faults",
            "lease": made.settings.claim_lease,
        }
    return {**report, "seconds": round(time.monotonic() - started, 1)}, hits


def cast(size: Size) -> list[Part]:
    """The parts: most sessions have one bot, some two or three that push at the same time."""
    random = drawn("parts", size.seed)
    parts: list[Part] = []
    for number in range(size.sessions):
        bots = random.choice((2, 3)) if random.random() < _SHARED else 1
        limit, strategy = random.choice(((8, "balanced"), (8, "aggressive"), (16, "conservative"), (16, "balanced")))
        chinese = random.random() < 0.2
        for order in range(bots):
            parts.append(
                Part(
                    bot=len(parts),
                    session=f"chaos/{number}",
                    limit=limit,
                    strategy=strategy,
                    alone=bots == 1,
                    opens=order == 0,
                    chinese=chinese,
                    reuses_ids=bots == 1 and random.random() < 0.3,
                    owns=random.choice(WAYS) if bots == 1 and random.random() < _LISTERS else "",
                )
            )
    return parts


def _spec(row: int, parts: Sequence[Part], size: Size, made: Stage) -> Spec:
    return Spec(
        row=row,
        rows=ROWS,
        life=0,
        seed=size.seed,
        threads=THREADS,
        board=str(made.folder / "board"),
        journal=str(made.folder / f"journal-{row}.jsonl"),
        settings=bot_settings(made),
        parts=tuple(parts[row::ROWS]),
    )


def _keep_log(path: Path, injector: Injector, model: ChaosModel, stuck: Sequence[str], details: Any) -> None:
    """Faults and model calls with their times, beside the journals, for whoever asks why."""
    hits = [(hit.kind.name, hit.began, hit.ended, hit.slots) for hit in injector.hits]
    path.write_text(
        dumps({"hits": hits, "calls": [astuple(call) for call in model.calls], "stuck": stuck, "details": details})
    )


def _stop_bots(made: Stage) -> int:
    """Lets the bots end their present calls; how many processes could not."""
    made.board.stop()
    return sum(not _ended_well(child) for child in made.bots)


def _ended_well(child: Child) -> bool:
    try:
        child.wait_until(lambda: child.process.poll() is not None, "bots", 60)
    except EmbeddedServerError:
        return child.process.poll() == 0
    return child.process.returncode == 0


def _figures(audited: Audited, made: Stage, records: Sequence[Record]) -> dict[str, Any]:
    counts = audited.findings.counts
    return {
        **{name: counts[name] for name in (*PROMISES, *BEYOND)},
        "details": audited.findings.details,
        "pushes": audited.pushes,
        "messages": audited.messages,
        "doubtful": audited.doubtful,
        "bots": len({entry.bot for record in records for entry in record.entries}),
        "sends": made.board.total("prepares"),
        "failed": made.board.total("failed"),
        "degraded": made.board.total("degraded"),
        "compactions": applied(audited),
        "outcomes": dict(audited.outcomes.most_common()),
        "replaced": audited.replaced,
        "recalled": audited.recalled,
        "worker_starts": made.workers.starts,
    }


def _billed(
    injector: Injector, records: Sequence[Record], audited: Audited, model: ChaosModel, made: Stage
) -> Mapping[str, Any]:
    account = bill(model.calls, injector.hits, records, audited.runs, lease=made.settings.claim_lease)
    return {
        "double-billed": account.twice,
        "at_risk": account.at_risk,
        "in_flight": made.in_flight,
        "frozen": made.frozen,
        "stranded": made.stranded,
        "unsaved": made.unsaved,
        "unexplained": account.unexplained,
        "model_calls": account.calls,
        "model_failures": account.failed,
    }


@contextmanager
def _progress(size: Size, *, quiet: bool) -> Generator[Callable[[int, int], None]]:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=stderr, disable=quiet or not stderr.is_terminal) as bar:
        tasks = [bar.add_task("pushes", total=size.pushes), bar.add_task("faults", total=size.faults)]

        def update(pushes: int, faults: int) -> None:
            for task, done in zip(tasks, (pushes, faults), strict=True):
                bar.update(task, completed=done)

        yield update
