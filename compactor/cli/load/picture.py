"""A picture of figures over time: one panel per figure, as SVG, without a plotting library."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

_WIDTH: Final = 900
_HEIGHT: Final = 150  # of a panel
_LEFT: Final = 70
_TOP: Final = 34
_COLOURS: Final = ("#1f77b4", "#d62728", "#2ca02c")


@dataclass(frozen=True, slots=True)
class Panel:
    """One figure, or a few of the same unit: lines by name, each with a value for every moment."""

    title: str
    lines: dict[str, Sequence[float]]


def svg(title: str, seconds: Sequence[float], panels: Sequence[Panel]) -> str:
    """The picture's text; `seconds` are the moments, from the first on."""
    height = _TOP + len(panels) * (_HEIGHT + _TOP)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height}" font-family="sans-serif">',
        '<rect width="100%" height="100%" fill="white"/>',
        _text(_LEFT, 20, title, size=15),
    ]
    for order, panel in enumerate(panels):
        parts += _panel(panel, seconds, _TOP + order * (_HEIGHT + _TOP))
    return "\n".join([*parts, "</svg>\n"])


def _panel(panel: Panel, seconds: Sequence[float], top: int) -> list[str]:
    highest = max((max(values, default=0.0) for values in panel.lines.values()), default=0.0) or 1.0
    span = max(seconds, default=0.0) or 1.0
    bottom, right = top + _TOP + _HEIGHT - 20, _WIDTH - 20
    room, width = bottom - top - _TOP, right - _LEFT
    parts = [
        _text(_LEFT, top + _TOP - 8, panel.title, size=12),
        *(
            _text(_LEFT + 200 + 90 * order, top + _TOP - 8, name, colour=_COLOURS[order % len(_COLOURS)])
            for order, name in enumerate(panel.lines)
        ),
        f'<path d="M{_LEFT} {top + _TOP}V{bottom}H{right}" fill="none" stroke="#888"/>',
        _text(_LEFT - 6, top + _TOP + 10, f"{highest:,.4g}", end=True),
        _text(_LEFT - 6, bottom, "0", end=True),
        _text(right, bottom + 14, f"{span:,.0f} s", end=True),
    ]
    for order, values in enumerate(panel.lines.values()):
        colour = _COLOURS[order % len(_COLOURS)]
        points = " ".join(
            f"{_LEFT + width * at / span:.1f},{bottom - room * value / highest:.1f}"
            for at, value in zip(seconds, values, strict=True)
        )
        parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.5"/>')
    return parts


def _text(x: float, y: float, text: str, *, size: int = 11, end: bool = False, colour: str = "#222") -> str:
    anchor = ' text-anchor="end"' if end else ""
    return f'<text x="{x:g}" y="{y:g}" font-size="{size}" fill="{colour}"{anchor}>{escape(text)}</text>'
