"""Laws of the charts."""

import re

import pytest

from arborvox.report.charts import bar_rows, line_charts, nice_ceiling
from arborvox.report.document import Bar, BarChart, BarGroup, Line, LineChart


@pytest.mark.parametrize(
    ("value", "ceiling"),
    [(0, 1), (0.03, 0.04), (1, 1), (11, 20), (64.7, 80), (100, 100), (101, 200)],
)
def test_a_scale_ends_at_a_round_number_not_below_the_value(value: float, ceiling: float) -> None:
    assert nice_ceiling(value) == pytest.approx(ceiling)


def test_bars_are_as_long_as_their_values() -> None:
    bars = (Bar("a", 25.0, 20.0, 30.0), Bar("b", 50.0, 40.0, 80.0))
    drawn = bar_rows(BarChart("", (BarGroup("ca", bars),)))
    assert re.findall(r'width="([\d.]+)%"', drawn) == ["31.25", "62.50"]  # of 80


def test_curves_stay_inside_their_frame() -> None:
    lines = (
        Line("a", tuple((float(x), 5.0 / (x + 1)) for x in range(1000))),
        Line("b", ((3.0, 0.0),)),
        Line("c", ()),
    )
    drawn = line_charts((LineChart("loss", "step", lines),))
    points = [
        tuple(map(float, pair.split(",")))
        for found in re.findall(r'points="([^"]*)"', drawn)
        for pair in found.split()
    ]
    assert points
    assert all(40 <= x <= 348 and 30 <= y <= 216 for x, y in points)
