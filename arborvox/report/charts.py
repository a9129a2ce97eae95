"""Charts as SVG, drawn by hand so that they follow the reader's width, fonts and dark mode."""

import math
from html import escape

from arborvox.report.document import BarChart, BarGroup, LineChart
from arborvox.report.style import SERIES_COLORS

BAR_HEIGHT, BAR_GAP = 11, 3
# A line chart is laid out for a phone and grows from there.
WIDTH, HEIGHT = 360, 250
LEFT, RIGHT, TOP, BOTTOM = 40, 12, 30, 34
MOST_POINTS = 300  # more than that no screen can show
NUM_TICKS = 4


def series_colors(labels: list[str]) -> dict[str, str]:
    """Give each label its color, by the order of first appearance."""
    known = list(dict.fromkeys(labels))
    return {label: SERIES_COLORS[n % len(SERIES_COLORS)] for n, label in enumerate(known)}


def bar_rows(chart: BarChart) -> str:
    """Draw groups of bars with their intervals; widths are shares of the reader's page."""
    top = nice_ceiling(max((bar.high for group in chart.groups for bar in group.bars), default=1))
    colors = series_colors([bar.label for group in chart.groups for bar in group.bars])
    rows = [f"<b>{escape(group.label)}</b>{_bars(group, top, colors)}" for group in chart.groups]
    scale = "".join(f"<span>{top * n / NUM_TICKS:g}</span>" for n in range(NUM_TICKS + 1))
    return (
        f'{_legend(colors)}<div class="bars">{"".join(rows)}<b></b>'
        f'<div class="scale">{scale}</div></div>'
    )


def _bars(group: BarGroup, top: float, colors: dict[str, str]) -> str:
    height = len(group.bars) * (BAR_HEIGHT + BAR_GAP) - BAR_GAP
    lines = [
        f'<line x1="{25 * n}%" x2="{25 * n}%" y1="-4" y2="{height + 4}" stroke="var(--rule)"/>'
        for n in range(NUM_TICKS + 1)
    ]
    shapes = []
    for place, bar in enumerate(group.bars):
        y = place * (BAR_HEIGHT + BAR_GAP)
        middle = y + BAR_HEIGHT / 2
        low, value, high = (100 * x / top for x in (bar.low, bar.value, bar.high))
        told = f"{group.label}, {bar.label}: {bar.value:.1f} [{bar.low:.1f}, {bar.high:.1f}]"
        shapes.append(
            f"<g><title>{escape(told)}</title>"
            f'<rect y="{y}" width="{value:.2f}%" height="{BAR_HEIGHT}" rx="2" '
            f'fill="{colors[bar.label]}" fill-opacity=".8"/>'
            f'<g stroke="var(--ink)" stroke-width="1.4">'
            f'<line x1="{low:.2f}%" x2="{high:.2f}%" y1="{middle}" y2="{middle}"/>'
            f'<line x1="{low:.2f}%" x2="{low:.2f}%" y1="{middle - 3}" y2="{middle + 3}"/>'
            f'<line x1="{high:.2f}%" x2="{high:.2f}%" y1="{middle - 3}" y2="{middle + 3}"/>'
            f"</g></g>"
        )
    return f'<svg height="{height}" role="img">{"".join(lines + shapes)}</svg>'


def line_chart(chart: LineChart, colors: dict[str, str]) -> str:
    """Draw curves on a grid; each has its label as a tooltip."""
    points = [point for line in chart.lines for point in line.points]
    right = max((x for x, _ in points), default=1.0) or 1.0
    top = nice_ceiling(max((y for _, y in points), default=1.0))
    plot_width, plot_height = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM
    parts = [f'<text class="title" x="{LEFT}" y="18">{escape(chart.title)}</text>']
    for n in range(NUM_TICKS + 1):
        y = HEIGHT - BOTTOM - plot_height * n / NUM_TICKS
        x = LEFT + plot_width * n / NUM_TICKS
        anchor = "end" if n == NUM_TICKS else "middle"
        parts.append(
            f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" '
            f'stroke="var(--rule)"/>'
            f'<text x="{LEFT - 5}" y="{y + 3.5:.1f}" text-anchor="end">{_short(top * n / 4)}</text>'
            f'<text x="{x:.1f}" y="{HEIGHT - BOTTOM + 14}" text-anchor="{anchor}">'
            f"{_short(right * n / NUM_TICKS)}</text>"
        )
    parts.append(
        f'<text x="{LEFT + plot_width / 2}" y="{HEIGHT - 6}" text-anchor="middle">'
        f"{escape(chart.x_label)}</text>"
    )
    for line in chart.lines:
        drawn = " ".join(
            f"{LEFT + plot_width * x / right:.1f},{HEIGHT - BOTTOM - plot_height * y / top:.1f}"
            for x, y in _thin(line.points)
        )
        parts.append(
            f'<polyline points="{drawn}" fill="none" stroke="{colors[line.label]}" '
            f'stroke-width="1.6" stroke-linejoin="round" stroke-opacity=".85">'
            f"<title>{escape(line.label)}</title></polyline>"
        )
    return f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img">{"".join(parts)}</svg>'


def line_charts(charts: tuple[LineChart, ...]) -> str:
    """Draw charts side by side under one legend."""
    colors = series_colors([line.label for chart in charts for line in chart.lines])
    drawn = "".join(line_chart(chart, colors) for chart in charts)
    return f'{_legend(colors)}<div class="charts">{drawn}</div>'


def nice_ceiling(value: float) -> float:
    """Return the least of 1, 2, 4, 6, 8, 10 × 10ⁿ that is not below the value."""
    if value <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next(power * step for step in (1, 2, 4, 6, 8, 10) if value <= power * step * (1 + 1e-9))


def _legend(colors: dict[str, str]) -> str:
    entries = "".join(
        f'<span><i style="background:{color}"></i>{escape(label)}</span>'
        for label, color in colors.items()
    )
    return f'<div class="legend">{entries}</div>'


def _thin(points: tuple[tuple[float, float], ...]) -> list[tuple[float, float]]:
    """Average runs of neighboring points down to as many as can be told apart."""
    step = -(-len(points) // MOST_POINTS)
    if step <= 1:
        return list(points)
    runs = [points[start : start + step] for start in range(0, len(points), step)]
    return [(sum(x for x, _ in run) / len(run), sum(y for _, y in run) / len(run)) for run in runs]


def _short(number: float) -> str:
    """Write an axis number briefly: 12,000 as 12k."""
    return f"{number / 1000:g}k" if number >= 1000 else f"{number:.3g}"
