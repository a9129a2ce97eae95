"""Is a difference between models more than chance in training? Error rates of single seeds.

    python benchmarks/seeds.py paper=experiments/trees_trial other=experiments/trees_trial_other
        --json results/seeds.json

An experiment is what `arborvox run` made with several seeds. Reports resample utterances, which
says nothing about another seed; here trainings are what is drawn. p is that of a permutation test:
of all ways to deal the trainings of two models into two heaps, the share whose means lie as far
apart. It cannot be below 2 / 252 with five seeds each, or 2 / 20 with three. In the file the tables
of an experiment are called LABEL and LABEL-2.
"""

import argparse
import json
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path

from publishing import named_path, tell

from arborvox.report.document import Cell, Table

FREE = "free"  # decoded without an inventory
ROUNDING = 1e-12  # of sums in another order


def read_rates(folder: Path, decoding: str, metric: str) -> dict[str, list[float]]:
    """Return the pooled error rates, in %, of each model's seeds."""
    experiment = json.loads((folder / "experiment.json").read_text())
    rates: dict[str, list[float]] = {}
    for model in experiment["models"]:
        files = [folder / run["scores"][decoding] for run in model["runs"]]
        pooled = [json.loads(file.read_text())["metrics"][metric]["pooled"] for file in files]
        rates[model["label"]] = [100 * each["rate"]["value"] for each in pooled]
    return rates


def permutation_p(first: Sequence[float], second: Sequence[float]) -> float:
    """Return how often chance parts all trainings as widely as they are, both ways counted."""
    both, size = [*first, *second], len(first)
    total = sum(both)

    def gap(chosen: float) -> float:
        return abs(chosen / size - (total - chosen) / (len(both) - size))

    seen = gap(sum(first)) - ROUNDING
    gaps = [gap(sum(chosen)) for chosen in combinations(both, size)]
    return sum(each >= seen for each in gaps) / len(gaps)


def tabulate(rates: dict[str, list[float]]) -> tuple[Table, Table]:
    """Return the seeds of each model, and how each differs from the first."""
    num_seeds = max(map(len, rates.values()))
    seeds = Table(
        header=("Model", *(f"seed {seed}" for seed in range(num_seeds)), "mean"),
        rows=tuple(
            tuple(map(Cell, (label, *(f"{rate:.1f}" for rate in each), f"{_mean(each):.1f}")))
            for label, each in rates.items()
        ),
    )
    (base, base_rates), *others = rates.items()
    rows = []
    for label, each in others:
        difference = f"{_mean(each) - _mean(base_rates):+.1f}".replace("-", "−")
        words = (f"{label} − {base}", difference, f"{permutation_p(base_rates, each):.3f}")
        rows.append(tuple(map(Cell, words)))
    return seeds, Table(header=("", "Difference", "p over seeds"), rows=tuple(rows))


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def main() -> None:
    """Print the tables, and write them where asked."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("experiments", type=named_path, nargs="+")
    parser.add_argument("--decoding", default=FREE, help="free, or inventory")
    parser.add_argument("--metric", default="per")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    tables = {}
    for label, folder in arguments.experiments:
        rates = read_rates(folder, arguments.decoding, arguments.metric)
        tables[label], tables[f"{label}-2"] = tabulate(rates)
    tell(tables, arguments.json)


if __name__ == "__main__":
    main()
