"""`compactor bench growth`: what calls cost as a history gets longer, and as sessions get more."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from statistics import median
from typing import Annotated, Any, Final

import typer
from rich.table import Table

from compactor.cli.bench import bench_app
from compactor.cli.bench_ground import Ground, ground, new_name, texts
from compactor.cli.bench_ratio import MICRO, timed
from compactor.cli.bench_reads import bare
from compactor.cli.console import Json, print_json, stdout
from compactor.client import Compactor
from compactor.model_config import ModelConfig

_WIDE: Final = ModelConfig("gpt-4o", 20_000)  # no history of the bench comes near its threshold
_MESSAGES: Final = 10  # of each of many sessions
_STRIDE: Final = 7_919  # from one of many sessions to the next: a prime, so that each gets its turn
_WHOLE: Final = 10  # so many times fewer rounds of what reads the whole
Call = tuple[str, Callable[[], Any]]


@dataclass(frozen=True, slots=True)
class Cost:
    """One call at one size: the median in µs, and in medians of a bare HMGET that took its turn beside it."""

    of: str
    count: int
    call: str
    us: float
    hmgets: float


@bench_app.command()
def growth(
    length: Annotated[list[int] | None, typer.Option(min=1, help="Messages of a history; may be repeated.")] = None,
    sessions: Annotated[list[int] | None, typer.Option(min=1, help="Sessions on the server; repeatable.")] = None,
    rounds: Annotated[int, typer.Option(min=5, help="Interleaved rounds of each call.")] = 50,
    json: Json = False,
) -> None:
    """Prints how the cost of calls grows with the length of a history and with the number of sessions.

    Needs a server only: REDIS_URL, else an embedded one. All lengths take turns in one run; the number of
    sessions grows while it runs, so look at the figures in HMGETs there.
    """
    with ground(rounds) as stage:
        costs = [
            *_lengths(stage, sorted(length or (10, 100, 1_000, 10_000, 100_000))),
            *_sessions(stage, sorted(sessions or (10, 1_000, 10_000))),
        ]
    if json:
        for cost in costs:
            print_json(asdict(cost))
        return
    for of in dict.fromkeys(cost.of for cost in costs):
        _print(of, [cost for cost in costs if cost.of == of])


def _lengths(stage: Ground, lengths: Iterable[int]) -> list[Cost]:
    often = {length: _calls(stage, length) for length in lengths}
    little = {length: calls[:-2] for length, calls in often.items()}
    whole = {length: calls[-2:] for length, calls in often.items()}
    return [
        *_measured(stage, "messages", little, stage.rounds),
        *_measured(stage, "messages", whole, max(3, stage.rounds // _WHOLE)),
    ]


def _calls(stage: Ground, length: int) -> list[Call]:
    name = new_name()
    session = stage.session(texts(length), name=name, config=_WIDE)
    session.prepare()
    numbers = iter(range(1_000_000))

    def push() -> None:
        session.push({"role": "user", "content": f"And number {next(numbers)}?"})

    return [
        ("estimate", session.estimate),
        ("push", push),
        ("prepare, one new", session.prepare),
        ("prepare, nothing new", session.prepare),
        ("first prepare", lambda: _first_prepare(stage, name)),
        ("originals", session.originals),
    ]


def _first_prepare(stage: Ground, name: str) -> float:
    """Seconds that the first prepare of a process takes, once it is connected."""
    with Compactor(settings=stage.settings) as memory:
        memory.session("bench/another", _WIDE).estimate()
        return timed(memory.session(name, _WIDE).prepare)


def _sessions(stage: Ground, counts: Iterable[int]) -> list[Cost]:
    names: list[str] = []
    costs: list[Cost] = []
    turns = itertools.count()
    history = texts(_MESSAGES)
    for count in counts:
        while len(names) < count:
            names.append(new_name())
            stage.session(history, name=names[-1], config=_WIDE)

        def some() -> Any:
            return stage.memory.session(names[next(turns) * _STRIDE % len(names)], _WIDE)

        calls: list[Call] = [
            ("estimate", lambda: some().estimate()),
            ("push", lambda: some().push({"role": "user", "content": "And this?"})),
            ("prepare", lambda: some().prepare()),
        ]
        costs += _measured(stage, "sessions", {count: calls}, stage.rounds)
    return costs


def _measured(stage: Ground, of: str, calls: dict[int, list[Call]], rounds: int) -> list[Cost]:
    """Each call of each size once a round, a bare HMGET beside it."""
    hmget = bare(stage)
    took: dict[tuple[int, str], list[tuple[float, float]]] = {}
    for _ in range(rounds):
        for count, named in calls.items():
            for call, work in named:
                seconds = work() if call == "first prepare" else timed(work)
                took.setdefault((count, call), []).append((seconds, timed(hmget)))
    return [
        Cost(of, count, call, round(MICRO * middle, 1), round(middle / median(other for _, other in pairs), 2))
        for (count, call), pairs in took.items()
        for middle in [median(seconds for seconds, _ in pairs)]
    ]


def _print(of: str, costs: list[Cost]) -> None:
    calls = list(dict.fromkeys(cost.call for cost in costs))
    table = Table(of, *(f"{call}, µs" for call in calls), caption="in brackets: in bare HMGETs")
    for count in sorted({cost.count for cost in costs}):
        cells = {cost.call: f"{cost.us:,.0f} ({cost.hmgets:,.1f})" for cost in costs if cost.count == count}
        table.add_row(f"{count:,}", *(cells[call] for call in calls))
    stdout.print(table)
