"""A chart of one session: what each send got, and what it would have got without Compactor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from rich.text import Text

from compactor.cli.demo_agent import Send

AXIS: Final = 9  # columns left of the chart
USUAL: Final = 50  # sends that a wide terminal draws two columns wide
_EIGHTHS: Final = " ▁▂▃▄▅▆▇█"


@dataclass(frozen=True, slots=True)
class Levels:
    """The lines of the chart, in tokens."""

    limit: int
    threshold: int


def chart(sends: Sequence[Send], levels: Levels, *, width: int, rows: int, plain: bool = False) -> Text:
    """Rows of text, the newest send at the right; `plain` uses ASCII only."""
    room = max(1, width - AXIS)
    wide = 2 if 2 * max(len(sends), USUAL) <= room else 1
    columns = _columns(sends, room // wide)
    top = max([levels.limit * 1.1, *(send.raw for send in sends)])
    step = top / rows
    picture = Text(no_wrap=True, overflow="crop")
    for row in range(rows):
        low = top - (row + 1) * step
        line, label, style = _line(low, low + step, levels, plain=plain)
        picture.append(f"{label:>{AXIS - 2}} ", style=style)
        for send in columns:
            sign, colour = _cell(send, low, step, levels, line, style, plain=plain)
            picture.append(sign * wide, colour)
        picture.append(line * (room - wide * len(columns)), style=style)
        picture.append("\n")
    return picture


def legend(*, plain: bool = False) -> Text:
    """What the signs mean."""
    solid, ghost = _signs(plain=plain)
    return Text.assemble(
        " " * (AXIS - 1),
        (solid, "green"),
        " sent to the model   ",
        (ghost, "bright_black"),
        " what it would be without Compactor",
        no_wrap=True,
        overflow="ellipsis",
    )


def _columns(sends: Sequence[Send], width: int) -> list[Send]:
    """All sends, or an even choice of them when there are more than columns."""
    if len(sends) <= width:
        return list(sends)
    return [sends[(column + 1) * len(sends) // width - 1] for column in range(width)]


def _line(low: float, high: float, levels: Levels, *, plain: bool) -> tuple[str, str, str]:
    """The sign, label and style of the level that lies in a row; blank for the others."""
    if low < levels.limit <= high:
        return "-" if plain else "─", f"{levels.limit:,}", "red"
    if low < levels.threshold <= high:
        return "." if plain else "┄", f"{levels.threshold:,}", "yellow"
    return " ", "", ""


def _cell(
    send: Send, low: float, step: float, levels: Levels, line: str, style: str, *, plain: bool
) -> tuple[str, str]:
    solid, ghost = _signs(plain=plain)
    filled = (send.sent - low) / step
    colour = "yellow" if send.sent >= levels.threshold else "green"
    if filled >= 1:
        return solid, colour
    if filled >= 0.125 and not plain:
        return _EIGHTHS[int(filled * 8)], colour
    if send.raw > low + step / 2:
        return ghost, "bright_black" if low < levels.limit else "red"
    return line, style


def _signs(*, plain: bool) -> tuple[str, str]:
    return ("#", ":") if plain else ("█", "░")
