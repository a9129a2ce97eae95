"""The grid of weights as heat maps, one for each pair of weights that were varied."""

from itertools import combinations
from pathlib import Path

from arborvox.score.counts import Metric
from arborvox.tuning.grid import ErrorGrid, Weights

PANEL_IN = 4.2  # inches
# Weights far off would take all the colors: what is this much worse than the best looks alike.
WORST_SHOWN = 1.5


def draw_grid(grid: ErrorGrid, num_units: int, metric: Metric, chosen: Weights, path: Path) -> None:
    """Draw error rates by each pair of weights, the third one at its best."""
    from arborvox.tree.pictures import new_figure, save_figure

    rates = 100 * grid.num_errors / num_units
    values = (chosen.ctc_weight, chosen.lm_weight, chosen.length_bonus)
    varied = [axis for axis, (_, points) in enumerate(grid.axes) if len(points) > 1]
    pairs = list(combinations(varied, 2)) or [(0, axis) for axis in varied]
    figure = new_figure(PANEL_IN * len(pairs) + 1, PANEL_IN)
    image = None
    for place, (rows, columns) in enumerate(pairs, start=1):
        axes = figure.add_subplot(1, len(pairs), place)
        others = tuple({0, 1, 2} - {rows, columns})
        shown = rates.min(axis=others)
        top = float(rates.min()) * WORST_SHOWN or None
        image = axes.imshow(
            shown, cmap="YlGnBu_r", origin="lower", aspect="auto", vmin=rates.min(), vmax=top
        )
        for axis, name in ((columns, "x"), (rows, "y")):
            label, points = grid.axes[axis]
            ticks = range(0, len(points), 2)
            getattr(axes, f"set_{name}ticks")(ticks, [f"{points[n]:g}" for n in ticks])
            getattr(axes, f"set_{name}label")(label)
        if values[columns] in grid.axes[columns][1] and values[rows] in grid.axes[rows][1]:
            at = [grid.axes[axis][1].index(values[axis]) for axis in (columns, rows)]
            axes.plot(*at, marker="o", markersize=9, markerfacecolor="none", color="#d55e00")
    if image is not None:
        figure.colorbar(image, ax=figure.axes, label=f"{metric.label} (%), re-ranked", extend="max")
    save_figure(figure, path)
