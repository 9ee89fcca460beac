"""The picture of a load: readable by any viewer of SVG, whatever the figures are."""

from __future__ import annotations

from xml.dom.minidom import parseString

from hypothesis import given
from hypothesis import strategies as st

from compactor.cli.load.picture import Panel, svg

FIGURES = st.lists(st.floats(0, 1e12), max_size=20)


@given(st.text("<&>\"'中 a", max_size=10), FIGURES)
def test_any_figures_make_a_picture(title: str, values: list[float]) -> None:
    seconds = [float(number) for number in range(len(values))]
    picture = svg(title, seconds, [Panel(title, {"a": values, title: values}), Panel("none", {})])
    lines = parseString(picture).getElementsByTagName("polyline")
    assert len(lines) == len({"a", title})
    points = [point.split(",") for line in lines for point in line.getAttribute("points").split()]
    assert len(points) == len(values) * len(lines)
    assert all(0 <= float(x) <= 900 and 0 <= float(y) <= 500 for x, y in points)
    assert "polyline" in svg("again", [0.0, 1.0], [Panel("one", {"x": [1, 2]})])


def test_the_highest_value_is_at_the_top_and_zero_at_the_bottom() -> None:
    (line,) = parseString(svg("t", [0.0, 1.0, 2.0], [Panel("p", {"x": [0, 5, 10]})])).getElementsByTagName("polyline")
    low, middle, high = (float(point.split(",")[1]) for point in line.getAttribute("points").split())
    assert low > middle > high
    assert middle - high == low - middle
