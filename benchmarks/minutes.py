"""What the next minutes of recordings are worth: error rates against minutes of training speech.

    python benchmarks/minutes.py recipes/mboshi.yaml --pretrained openai/whisper-base --out minutes

One model from scratch and one on a pretrained encoder for each number of minutes, tested on all of
the test set. The number of steps grows with the root of the minutes; from scratch there are twice
as many, because such a model first has to learn to hear. What is done is kept: run it again to go
on. With --add, what the file of figures has of the other start stays in table and picture.
"""

import argparse
import json
import math
from dataclasses import dataclass
from pathlib import Path

from publishing import print_table, publish

from arborvox.config import put_on_pretrained
from arborvox.pipeline.experiment import run_experiment
from arborvox.report.document import Cell, Table
from arborvox.report.experiment_report import NUMBERS_NAME
from arborvox.report.results import read_table

ALL = "all"
STARTS = {"scratch": "from scratch", "pretrained": "on a pretrained encoder"}
STEP_FACTORS = {"scratch": 2, "pretrained": 1}
# One model, and as many epochs as its steps take.
ONE_MODEL = ["variants=[]", "model.output=softmax", "train.max_epochs=1000000"]


@dataclass(frozen=True)
class Point:
    """One model: how it started, what it was trained on, and its errors."""

    start: str
    trained_min: float
    steps: int
    rate: float  # CER, pooled, in %
    low: float
    high: float


def train_point(arguments: argparse.Namespace, start: str, minutes: str) -> Point:
    """Train and test one model, unless that is done, and read its numbers."""
    out = arguments.out / f"{start}-{minutes}"
    settings = (
        [] if start == "scratch" else put_on_pretrained(arguments.recipe, arguments.pretrained)
    )
    settings += [*ONE_MODEL, "augment.speeds=[1.0]"]
    if arguments.cache is not None:
        settings.append(f"features.cache={json.dumps(str(arguments.cache))}")
    if minutes != ALL:
        settings.append(f"corpus.train_minutes={minutes}")
    asked_min = arguments.all_minutes if minutes == ALL else float(minutes)
    steps = round(STEP_FACTORS[start] * arguments.steps * math.sqrt(asked_min))
    settings.append(f"train.max_steps={steps}")
    run_experiment(arguments.recipe, out, (0,), settings)
    report = json.loads((out / "report" / NUMBERS_NAME).read_text())
    pooled = report["tables"]["free-cer"]["rows"][0][-1]  # {"text": "13.9", "note": "13.0–14.7"}
    low, high = map(float, pooled["note"].split("–"))
    stats = json.loads((out / "prepare" / "stats.json").read_text())
    trained_min = sum(sets["train"]["hours"] for sets in stats["languages"].values()) * 60
    return Point(start, trained_min, steps, float(pooled["text"]), low, high)


def tabulate(points: list[Point]) -> Table:
    """Return a row for each model, those of as many minutes together."""
    rows: list[tuple[Cell, ...]] = []
    for p in sorted(points, key=lambda p: (round(p.trained_min), list(STARTS).index(p.start))):
        rate = Cell(f"{p.rate:.1f}", f"{p.low:.1f}–{p.high:.1f}")
        words = (f"{p.trained_min:.0f}", STARTS[p.start], f"{p.steps:,}")
        rows.append((*map(Cell, words), rate))
    return Table(header=("minutes", "encoder", "steps", "CER, %"), rows=tuple(rows))


def read_points(path: Path, starts: list[str]) -> list[Point]:
    """Read the points of some starts back from a file of figures."""
    points = []
    for minutes, start, steps, rate in read_table(path, "minutes").rows:
        name = next(name for name, label in STARTS.items() if label == start.text)
        low, high = map(float, rate.note.split("–"))
        taken = int(steps.text.replace(",", ""))
        points.append(Point(name, float(minutes.text), taken, float(rate.text), low, high))
    return [point for point in points if point.start in starts]


def draw(points: list[Point], path: Path, title: str) -> None:
    """Draw both lines with their intervals, minutes on a logarithmic axis."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(6.4, 3.8), constrained_layout=True)
    for start, label in STARTS.items():
        mine = sorted((p for p in points if p.start == start), key=lambda p: p.trained_min)
        if mine:
            axes.errorbar(
                [p.trained_min for p in mine],
                [p.rate for p in mine],
                yerr=[[p.rate - p.low for p in mine], [p.high - p.rate for p in mine]],
                marker="o",
                capsize=3,
                label=label,
            )
    axes.set(xscale="log", xlabel="minutes of speech to train on", ylabel="CER, %", title=title)
    ticks = sorted({round(p.trained_min) for p in points})
    axes.set_xticks(ticks, [str(tick) for tick in ticks])
    axes.minorticks_off()
    axes.set_ylim(bottom=0)
    axes.grid(alpha=0.3)
    axes.legend()
    figure.savefig(path, dpi=120)


def main() -> None:
    """Train what is asked for, print the table, and write figures and picture."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("recipe", type=Path)
    parser.add_argument("--pretrained", required=True, help="a folder, or a name of the hub")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--minutes", default="1,5,15,60,all")
    parser.add_argument(
        "--all-minutes", type=float, default=240.0, help="what all counts as, for steps"
    )
    parser.add_argument(
        "--steps",
        type=int,
        default=150,
        help="of training, times the root of the minutes; twice as many from scratch",
    )
    parser.add_argument("--starts", default=",".join(STARTS))
    parser.add_argument(
        "--cache", type=Path, help="where features and states of the pretrained encoder are kept"
    )
    parser.add_argument("--picture", type=Path)
    parser.add_argument("--json", type=Path)
    parser.add_argument(
        "--add", action="store_true", help="keep what --json has of a start that is not asked for"
    )
    arguments = parser.parse_args()
    if arguments.add and arguments.json is None:
        parser.error("--add needs --json")
    points = [
        train_point(arguments, start, minutes)
        for minutes in arguments.minutes.split(",")
        for start in arguments.starts.split(",")
    ]
    if arguments.add:
        others = [start for start in STARTS if start not in arguments.starts.split(",")]
        points += read_points(arguments.json, others)
    table = tabulate(points)
    print_table(table)
    if arguments.picture is not None:
        draw(points, arguments.picture, "What the next minutes are worth")
    if arguments.json is not None:
        publish(arguments.json, {"minutes": table}, add=arguments.add)


if __name__ == "__main__":
    main()
