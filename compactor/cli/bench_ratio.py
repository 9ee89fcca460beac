"""Ratios of two things measured by turns: absolute times on a shared machine prove nothing."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from statistics import median, quantiles
from typing import Any, Final

from rich.table import Table

from compactor.cli.console import stdout

MICRO: Final = 1e6
_WARM_UP: Final = 5  # rounds that are not kept


@dataclass(frozen=True, slots=True)
class Ratio:
    """One figure: medians of two things in one unit, their ratio and the middle half of it, and the goal for it."""

    name: str
    ours: float
    other: float
    unit: str
    ratio: float
    spread: str
    goal: str
    met: bool


def timed(work: Callable[[], Any]) -> float:
    """Seconds that a call takes."""
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def by_turns(ours: Callable[[], Any], other: Callable[[], Any], rounds: int) -> list[tuple[float, float]]:
    """Seconds of both, timed by turns; the first rounds warm up and are not kept."""
    return [(timed(ours), timed(other)) for _ in range(rounds + _WARM_UP)][_WARM_UP:]


def at_most(name: str, pairs: Sequence[tuple[float, float]], most: float, *, unit: str = "µs") -> Ratio:
    """Ours over the other, at most so much. Times come in seconds, other figures as they are."""
    return _ratio(
        name, pairs, [ours / other for ours, other in pairs], f"≤ {most:g}", lambda ratio: ratio <= most, unit
    )


def at_least(name: str, pairs: Sequence[tuple[float, float]], least: float, *, unit: str = "µs") -> Ratio:
    """The other over ours, at least so much: how many times cheaper ours is."""
    return _ratio(
        name, pairs, [other / ours for ours, other in pairs], f"≥ {least:g}", lambda ratio: ratio >= least, unit
    )


def equal(name: str, pairs: Sequence[tuple[float, float]], *, unit: str) -> Ratio:
    """Ours the same as the other in every pair; the ratio that is told is the one farthest from 1."""
    ratios = [ours / other for ours, other in pairs]
    worst = max(ratios, key=lambda ratio: abs(ratio - 1))
    return replace(
        _ratio(name, pairs, ratios, "= 1", lambda _middle: all(ours == other for ours, other in pairs), unit),
        ratio=round(worst, 4),
    )


def _ratio(
    name: str,
    pairs: Sequence[tuple[float, float]],
    ratios: Sequence[float],
    goal: str,
    meets: Callable[[float], bool],
    unit: str,
) -> Ratio:
    scale = MICRO if unit == "µs" else 1.0
    ours, other = (scale * median(column) for column in zip(*pairs, strict=True))
    low, value, high = quantiles(ratios, n=4) if len(ratios) > 1 else (ratios[0],) * 3
    return Ratio(name, ours, other, unit, round(value, 2), f"{low:.2f}-{high:.2f}", goal, meets(value))


def show(found: Sequence[Ratio]) -> None:
    """Prints the figures as a table."""
    table = Table("figure", "ratio", "middle half", "goal", "ours", "other", "unit")
    for ratio in found:
        style = "green" if ratio.met else "red"
        table.add_row(
            ratio.name, f"[{style}]{ratio.ratio:g}[/]", ratio.spread, ratio.goal,
            f"{ratio.ours:,.0f}", f"{ratio.other:,.0f}", ratio.unit,
        )  # fmt: skip
    stdout.print(table)
