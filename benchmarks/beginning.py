"""How soon models begin to write: errors on the development set over the first steps, by seed.

    python benchmarks/beginning.py Mboshi=experiments/mboshi Iban=experiments/iban
        --picture docs/pictures/beginning.png --json results/beginning.json

An experiment is what `arborvox run` made, or is still making; all its variants and seeds are read.
CTC that writes nothing but blanks has an error rate of 100 %: it has left them at the first
evaluation (greedy CTC, development set) with less than 90 %.
"""

import argparse
from dataclasses import dataclass
from pathlib import Path

from publishing import named_path, tell

from arborvox.report.document import Cell, Table
from arborvox.training.records import read_records

LEFT_BELOW = 0.9
SHOWN_STEPS = 1500
HEADER = ("corpus", "models", "blanks left at step", "error by step 500, %")
AIM_STEPS = 500


@dataclass(frozen=True)
class Beginning:
    """The first evaluations of one training."""

    corpus: str
    steps: tuple[int, ...]
    rates: tuple[float, ...]

    @property
    def left_at(self) -> int | None:
        """The first step that was looked at and was better than blanks."""
        pairs = zip(self.steps, self.rates, strict=True)
        return next((step for step, rate in pairs if rate < LEFT_BELOW), None)

    @property
    def rate_by_aim(self) -> float:
        """The error rate of the last look up to the step that is aimed at."""
        pairs = zip(self.steps, self.rates, strict=True)
        return [rate for step, rate in pairs if step <= AIM_STEPS][-1]


def read_beginnings(corpus: str, folder: Path) -> list[Beginning]:
    """Read the evaluations of all models of an experiment that came as far as the aim."""
    found = []
    for path in sorted(folder.glob("runs/*/seed-*/train/metrics.jsonl")):
        looks = [
            (record["step"], record["error_rate"])
            for record in read_records(path)
            if record["kind"] == "dev" and record["step"] <= SHOWN_STEPS
        ]
        if looks and looks[-1][0] >= AIM_STEPS:
            steps, rates = zip(*looks, strict=True)
            found.append(Beginning(corpus, steps, rates))
    if not found:
        raise SystemExit(f"{folder}: no training there has come to step {AIM_STEPS}")
    return found


def summarize(corpus: str, beginnings: list[Beginning]) -> tuple[Cell, ...]:
    """Return a row: the earliest and the latest of a corpus's models."""
    left = [each.left_at for each in beginnings]
    known = [step for step in left if step is not None]
    told = _span(known) if known else "none"
    if len(known) < len(left):
        told += f", {len(left) - len(known)} not by step {SHOWN_STEPS}"
    rates = _span([round(100 * each.rate_by_aim) for each in beginnings])
    return tuple(map(Cell, (corpus, str(len(beginnings)), told, rates)))


def _span(numbers: list[int]) -> str:
    """Tell the least and the most, or the one there is."""
    return " … ".join(dict.fromkeys(map(str, (min(numbers), max(numbers)))))


def draw(corpora: dict[str, list[Beginning]], path: Path) -> None:
    """Draw a panel for each corpus and a line for each model."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, panels = pyplot.subplots(
        1,
        len(corpora),
        figsize=(2.6 * len(corpora) + 0.6, 2.8),
        sharey=True,
        squeeze=False,
        constrained_layout=True,
    )
    for axes, (corpus, beginnings) in zip(panels[0], corpora.items(), strict=True):
        for each in beginnings:
            axes.plot(each.steps, [100 * rate for rate in each.rates], marker=".", alpha=0.8)
        axes.axvline(AIM_STEPS, color="gray", linestyle=":", linewidth=1)
        axes.set(title=corpus, xlabel="steps", xlim=(0, SHOWN_STEPS), ylim=(0, 105))
        axes.grid(alpha=0.3)
    panels[0][0].set_ylabel("development set wrong, %")
    figure.savefig(path, dpi=120)


def main() -> None:
    """Print the table, and write figures and picture where asked."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("experiments", type=named_path, nargs="+")
    parser.add_argument("--picture", type=Path)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    corpora = {corpus: read_beginnings(corpus, path) for corpus, path in arguments.experiments}
    rows = tuple(summarize(corpus, beginnings) for corpus, beginnings in corpora.items())
    if arguments.picture is not None:
        draw(corpora, arguments.picture)
    tell({"beginning": Table(HEADER, rows)}, arguments.json)


if __name__ == "__main__":
    main()
