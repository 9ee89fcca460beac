"""`compactor bench`: what estimate and push cost, as ratios measured side by side in one run."""

from __future__ import annotations

import secrets
import sysconfig
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median, quantiles
from typing import Annotated, Any

import typer
from rich.table import Table

from compactor.cli.app import app
from compactor.cli.backend import server_only
from compactor.cli.console import Json, print_json, stdout
from compactor.client import Compactor, Session
from compactor.encodings import encoder
from compactor.model_config import ModelConfig
from compactor.records import encode_message
from compactor.settings import Settings
from compactor.store import Store
from compactor.tokens import count_message, count_messages

_CONFIG = ModelConfig("gpt-4o", 200)
_ENCODING = "o200k_base"


@dataclass(frozen=True, slots=True)
class Ratio:
    """One figure: medians in microseconds of two things timed by turns, their ratio, and the goal for it."""

    name: str
    ours_us: float
    other_us: float
    ratio: float
    spread: str
    goal: str
    met: bool


bench_app = typer.Typer(help="Measures, side by side in one run.", invoke_without_command=True)
app.add_typer(bench_app, name="bench")


@bench_app.callback()
def bench(
    context: typer.Context,
    rounds: Annotated[int, typer.Option(min=5, help="Interleaved rounds of each pair.")] = 60,
    json: Json = False,
) -> None:
    """Prints ratios of estimate and push against their floors.

    Absolute times on a shared machine prove nothing, so each pair is timed by turns in one run.
    Needs a server only: REDIS_URL, else an embedded one.
    """
    if context.invoked_subcommand is not None:
        return
    with server_only() as settings, Compactor(settings=settings) as memory:
        found = [*_estimates(memory, rounds), _push(memory, settings, rounds)]
    for ratio in found:
        if json:
            print_json(asdict(ratio))
    if not json:
        _table(found)
    raise typer.Exit(0 if all(ratio.met for ratio in found) else 1)


def _estimates(memory: Compactor, rounds: int) -> list[Ratio]:
    encode = encoder(_ENCODING)
    long = _messages(1_000, tokens=120)
    thousand = _filled(memory, long)
    small, large = _filled(memory, _messages(10)), _filled(memory, _messages(10_000))

    def recount() -> int:
        return count_messages(long, encode)

    def warm() -> float:
        return median(_timed(thousand.estimate) for _ in range(9))

    beside = [(warm(), _timed(recount)) for _ in range(rounds + 5)][5:]
    lengths = _by_turns(large.estimate, small.estimate, rounds * 5)
    bare = _by_turns(thousand.estimate, _hmget(memory.settings), rounds * 5)
    return [
        _ratio("tiktoken recount / estimate, 1,000 messages, 120K tokens", beside, least=150),
        _ratio("estimate at 10,000 messages / at 10", lengths, most=1.3),
        _ratio("estimate / bare HMGET of 15 fields", bare, most=1.5),
    ]


def _push(memory: Compactor, settings: Settings, rounds: int) -> Ratio:
    """A push against its encode plus twice a bare RPUSH of the same bytes."""
    encode = encoder(_ENCODING)
    session = _filled(memory, _messages(10))
    messages = iter(_messages(rounds * 5 + 20, tokens=450))
    key = f"{{bench:{secrets.token_hex(4)}}}"
    with Store(settings) as store:
        client = store.client_of(key)

        def floor() -> float:
            message = next(messages)
            started = time.perf_counter()
            text = encode_message(message, max_bytes=1 << 20).text
            count_message(message, encode)
            counted = time.perf_counter()
            client.rpush(key, text)
            return (counted - started) + 2 * (time.perf_counter() - counted)

        def ours() -> float:
            message = next(messages)
            started = time.perf_counter()
            session.push(message)
            return time.perf_counter() - started

        pairs = [(ours(), floor()) for _ in range(rounds * 2)]
        client.delete(key)
    return _ratio("push of 2 KB / its encode + 2 x bare RPUSH", pairs[10:], most=1.0)


def _hmget(settings: Settings) -> Callable[[], Any]:
    key, fields = f"{{bench:{secrets.token_hex(4)}}}", [f"field{number}" for number in range(15)]
    client = Store(settings).client_of(key)
    client.hset(key, mapping=dict.fromkeys(fields, "12345678"))
    client.expire(key, 600)
    return lambda: client.hmget(key, fields)


def _messages(count: int, *, tokens: int = 20) -> list[dict[str, Any]]:
    """Messages of about `tokens` tokens out of the standard library's source, as an agent would read it."""
    size = tokens * 4  # characters of source to a token, nearly
    text = source_text(count * size)
    return [
        {"role": "user" if number % 2 else "assistant", "content": text[number * size : (number + 1) * size] or "-"}
        for number in range(count)
    ]


def source_text(characters: int) -> str:
    """Text of the standard library, as an agent would read it."""
    folder = Path(sysconfig.get_path("stdlib"))
    text = "".join(path.read_text(encoding="utf-8", errors="replace") for path in sorted(folder.glob("*.py")))
    return (text * (characters // len(text) + 1))[:characters]


def _filled(memory: Compactor, messages: Sequence[dict[str, Any]]) -> Session:
    session = memory.session(f"bench/{secrets.token_hex(6)}", _CONFIG)
    for start in range(0, len(messages), 1_000):
        session.push(list(messages[start : start + 1_000]))
    return session


def _by_turns(ours: Callable[[], Any], other: Callable[[], Any], rounds: int) -> list[tuple[float, float]]:
    """Seconds of both, timed by turns; the first rounds warm up and are not kept."""
    return [(_timed(ours), _timed(other)) for _ in range(rounds + 5)][5:]


def _timed(work: Callable[[], Any]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def _ratio(
    name: str, pairs: Sequence[tuple[float, float]], *, least: float | None = None, most: float | None = None
) -> Ratio:
    """Ours over the other; with `least`, the other over ours, as the name says then."""
    ours, other = median(a for a, _ in pairs), median(b for _, b in pairs)
    ratios = [b / a if least is not None else a / b for a, b in pairs]
    low, _, high = quantiles(ratios, n=4)
    value = other / ours if least is not None else ours / other
    met = value >= least if least is not None else value <= (most or 0)
    goal = f"≥ {least:g}" if least is not None else f"≤ {most:g}"
    return Ratio(name, ours * 1e6, other * 1e6, round(value, 2), f"{low:.2f}-{high:.2f}", goal, met)


def _table(found: Sequence[Ratio]) -> None:
    table = Table("figure", "ratio", "middle half", "goal", "ours µs", "other µs")
    for ratio in found:
        style = "green" if ratio.met else "red"
        table.add_row(
            ratio.name, f"[{style}]{ratio.ratio:g}[/]", ratio.spread, ratio.goal,
            f"{ratio.ours_us:,.0f}", f"{ratio.other_us:,.0f}",
        )  # fmt: skip
    stdout.print(table)
