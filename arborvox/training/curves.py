"""A picture of a run: losses, error rate and learning rate over steps."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from arborvox.files import atomic_path

# Colors that remain apart for color-blind readers.
BLUE, ORANGE, GREEN, GRAY = "#0072B2", "#D55E00", "#009E73", "#777777"


def draw_curves(records: Sequence[dict[str, Any]], path: Path, title: str) -> None:
    """Draw metrics.jsonl as a PNG."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    train = [r for r in records if r["kind"] == "train" and r.get("loss") is not None]
    dev = [r for r in records if r["kind"] == "dev"]
    figure = Figure(figsize=(10, 3.4), layout="constrained")
    losses, errors, rates = figure.subplots(1, 3)
    if train:
        steps = np.array([r["step"] for r in train])
        for key, color in (("loss", BLUE), ("ctc", ORANGE), ("attention", GREEN)):
            values = np.array([r.get(key) for r in train], np.float64)
            losses.plot(steps, values, color=color, alpha=0.2, linewidth=0.8)
            losses.plot(steps, smooth(values), color=color, label=f"train {key}")
        rates.plot(steps, [r.get("learning_rate") for r in train], color=BLUE)
    for key, color in (("ctc", ORANGE), ("attention", GREEN)):
        points = [(r["step"], r.get(key)) for r in dev]
        if points:
            losses.plot(*zip(*points, strict=True), "o--", color=color, ms=3, label=f"dev {key}")
    losses.set(title="loss per token", xlabel="step", ylim=(0, None))
    rates.set(title="learning rate", xlabel="step", ylim=(0, None))
    points = [(r["step"], 100 * r["error_rate"]) for r in dev if r.get("error_rate") is not None]
    if points:
        for language in sorted({name for r in dev for name in r.get("by_language", {})}):
            line = [(r["step"], 100 * _rate_of(r, language)) for r in dev]
            errors.plot(*zip(*line, strict=True), color=GRAY, alpha=0.25, linewidth=0.8)
        errors.plot(*zip(*points, strict=True), "o-", color=BLUE, ms=3, label="all languages")
        errors.plot([], [], color=GRAY, alpha=0.5, linewidth=0.8, label="each language")
        errors.legend(frameon=False, fontsize=8)
    errors.set(title="dev error rate, %", xlabel="step", ylim=(0, None))
    if losses.get_legend_handles_labels()[0]:
        losses.legend(frameon=False, fontsize=8)
    for axes in (losses, errors, rates):
        axes.grid(alpha=0.25)
        axes.spines[["top", "right"]].set_visible(False)
    figure.suptitle(title)
    FigureCanvasAgg(figure)
    with atomic_path(path) as part:
        figure.savefig(part, format="png", dpi=110)


def _rate_of(record: dict[str, Any], language: str) -> float:
    rate = record.get("by_language", {}).get(language)
    return np.nan if rate is None else float(rate)


def smooth(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Average over the latest 2 % of the steps, at least 5."""
    window = max(5, len(values) // 50)
    sums = np.cumsum(np.concatenate(([0.0], values)))
    ends = np.arange(1, len(values) + 1)
    begins = np.maximum(ends - window, 0)
    means: NDArray[np.float64] = (sums[ends] - sums[begins]) / (ends - begins)
    return means
