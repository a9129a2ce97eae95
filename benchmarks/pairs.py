"""Any two models of an experiment against each other, and whether two experiments say the same.

    python benchmarks/pairs.py all=experiments/trees_trial tenth=experiments/trees_trial_tenth
        --pairs "Questions:Tied questions" --changes tenth:all --json results/pairs.json

An experiment is what `arborvox run` made; its report has each model against one other. Here it is
SECOND minus FIRST of each --pairs FIRST:SECOND that an experiment has, all utterances pooled: by a
paired bootstrap over utterances, p corrected by Holm over the rows of an experiment, and by a
permutation of the trainings (seeds.py). --changes A:B tells by how much each such difference is
larger in A than in B, which have the same test set; all four models see the same resamples. In the
file the tables are called LABEL, and changes.
"""

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from publishing import named_path, tell
from seeds import FREE, permutation_p

from arborvox.errors import ArborvoxError
from arborvox.report.document import Cell, Table
from arborvox.report.experiment import load_experiment
from arborvox.report.wording import p_text, points
from arborvox.score import Metric, Scores
from arborvox.score.analysis import analyze, pool_seeds
from arborvox.score.bootstrap import Estimate, errors_of, lengths_of, resample_rates

NUM_SAMPLES = 2000
Pair = tuple[str, str]


def read_pair(word: str) -> Pair:
    """Read FIRST:SECOND of a command line."""
    first, mark, second = word.partition(":")
    if not mark:
        raise argparse.ArgumentTypeError(f"{word}: write FIRST:SECOND")
    return first, second


@dataclass(frozen=True)
class Trial:
    """An experiment's scores, decoded freely, by the labels of its models: a seed each."""

    scores: Mapping[str, Sequence[Scores]]
    bootstrap_seed: int = 0

    @classmethod
    def read(cls, folder: Path) -> "Trial":
        """Read what `arborvox run` made."""
        experiment = load_experiment(folder)
        return cls(experiment.read_scores(folder, FREE), experiment.bootstrap_seed)

    def has(self, pair: Pair) -> bool:
        """Whether both models are there."""
        return set(pair) <= self.scores.keys()

    def table(self, pairs: Sequence[Pair]) -> Table:
        """Tell how the models of each pair differ."""
        labels = list(self.scores)
        places = [(labels.index(first), labels.index(second)) for first, second in pairs]
        analysis = analyze(
            self.scores, places, seed=self.bootstrap_seed, num_samples=NUM_SAMPLES
        ).metrics[0]
        rows = []
        for found in analysis.pairings:
            pooled = found.differences.pooled
            over_seeds = permutation_p(found.first.pooled_of_seeds, found.second.pooled_of_seeds)
            rows.append(
                (
                    Cell(f"{found.second.label} − {found.first.label}"),
                    Cell(points(pooled.first)),
                    Cell(points(pooled.second)),
                    *_estimate_cells(pooled.estimate),
                    Cell(p_text(found.p_corrected).removeprefix("= ")),
                    Cell(f"{over_seeds:.3f}"),
                )
            )
        header = ("", "first", "second", "Difference", "95 % interval", "p, corrected")
        return Table(header=(*header, "p over seeds"), rows=tuple(rows))


def changes_table(
    trials: dict[str, Trial], changes: Sequence[Pair], pairs: Sequence[Pair]
) -> Table:
    """Tell by how much the difference of each pair is larger in one experiment than in another."""
    rows = []
    for here, there in changes:
        for pair in pairs:
            if not (trials[here].has(pair) and trials[there].has(pair)):
                continue
            found = change(trials[here], trials[there], pair)
            name = f"{pair[1]} − {pair[0]}, {here} less {there}"
            rows.append((Cell(name), *_estimate_cells(found)))
    return Table(header=("", "Change", "95 % interval"), rows=tuple(rows))


def change(here: Trial, there: Trial, pair: Pair) -> Estimate:
    """Return by how much the second model is further behind the first here than there."""
    asked, also_asked = here.scores[pair[0]][0], there.scores[pair[0]][0]
    if asked.edits.references != also_asked.edits.references:
        raise ArborvoxError("Differences can only be compared between experiments on one test set.")
    metric: Metric = next(iter(asked.metrics))
    pooled = [
        pool_seeds(metric, [scores.edits for scores in trial.scores[label]])
        for trial in (here, there)
        for label in pair
    ]
    errors = {name: np.stack([errors_of(of[name]) for of in pooled], 1) for name in pooled[0]}
    lengths = {name: np.stack([lengths_of(of[name]) for of in pooled], 1) for name in pooled[0]}
    samples = resample_rates(errors, lengths, seed=here.bootstrap_seed, num_samples=NUM_SAMPLES)
    first_here, second_here, first_there, second_there = samples.pooled.T
    return Estimate.from_samples((second_here - first_here) - (second_there - first_there))


def _estimate_cells(estimate: Estimate) -> tuple[Cell, Cell]:
    low, high = points(estimate.low, signed=True), points(estimate.high, signed=True)
    sure = estimate.low > 0 or estimate.high < 0
    return Cell(points(estimate.value, signed=True), strong=sure), Cell(f"{low} … {high}")


def main() -> None:
    """Print the tables, and write them where asked."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("experiments", type=named_path, nargs="+")
    parser.add_argument("--pairs", type=read_pair, nargs="+", required=True)
    parser.add_argument("--changes", type=read_pair, nargs="+", default=[])
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    trials = {label: Trial.read(folder) for label, folder in arguments.experiments}
    tables = {
        label: trial.table([pair for pair in arguments.pairs if trial.has(pair)])
        for label, trial in trials.items()
    }
    if arguments.changes:
        tables["changes"] = changes_table(trials, arguments.changes, arguments.pairs)
    tell(tables, arguments.json)


if __name__ == "__main__":
    main()
