"""One table of several experiments, each on a corpus of its own, and of their other searches.

    python benchmarks/languages.py Mboshi=experiments/mboshi Ibibio=experiments/ibibio
        --searches "Mboshi, CTC greedy"=greedy.scores.json --json results/languages.json

An experiment is what `arborvox run` made of one model; scores are what `arborvox score` writes.
--layers takes experiments of whole recipes (recipes/languages.yaml): softmax beside H-Softmax in
every search, over their seeds and those that were kept of other days (a folder beside --json);
--pairs compares any two of their models. With
--add, rows under other labels, and other tables, stay as --json has them; --as scratch gives models
from scratch tables of their own.
"""

import argparse
import itertools
import json
from dataclasses import replace
from pathlib import Path

from kept_scores import BOOTSTRAP_SEED, SAMPLES, KeptScores, read_experiment_scores
from pairs import Pair, read_pair
from publishing import named_path, tell

from arborvox.errors import ArborvoxError
from arborvox.report.document import Cell, Table
from arborvox.report.experiment_report import NUMBERS_NAME
from arborvox.report.results import read_table
from arborvox.report.sections import overall_differences, rate_table
from arborvox.score.analysis import Analysis, analyze

HEADER = (
    "corpus",
    "hours to train on",
    "test utterances",
    "CER, %",
    "WER, %",
    "training, min",
    "RTF",
)


SOFTMAX, H_SOFTMAX = "Softmax", "H-Softmax"
LAYERS_HEADER = (
    "corpus, search",
    "seeds",
    "CER, softmax",
    "CER, H-Softmax",
    "WER, softmax",
    "WER, H-Softmax",
    "difference of CER",
)
PAIRS_HEADER = ("models", "seeds", "difference of CER", "difference of WER")
RATES = ("free-cer", "free-wer")
MISSING = Cell("–")
MANY_REPEATED = 0.05  # share of a test set's sentences that training has, from which it is told


def read_experiment(label: str, folder: Path) -> tuple[Cell, ...]:
    """Return a row of the first table: what was trained, how well it does, what it cost."""
    data = _told(folder, "data")
    row = data.rows[-1]
    hours = row[data.header.index("train utterances") + 1]  # they stand behind each set's number
    costs = (_told(folder, name).rows[0][-1] for name in ("models", "free-speed"))
    rates = (replace(_told(folder, name).rows[0][-1], best=False) for name in RATES)
    return (Cell(label), hours, row[data.header.index("test utterances")], *rates, *costs)


def read_layers(label: str, kept: KeptScores) -> list[tuple[Cell, ...]]:
    """Return a row for each search: both output layers, and the difference with its interval.

    Where a test set repeats many sentences of the training set, the others have rows of their own.
    """
    rows = []
    for new in (False, True) if kept.repeated > MANY_REPEATED else (False,):
        for softmax in (name for name in kept.models if name.startswith(SOFTMAX)):
            tree = softmax.replace(SOFTMAX, H_SOFTMAX, 1)
            search = softmax.removeprefix(SOFTMAX).removeprefix(", ") or "joint"
            if seeds := kept.seeds(softmax, tree):
                name = f"{label}, {search}{', new sentences' if new else ''}"
                rows.append(_layers_row(name, kept, (softmax, tree), seeds, new=new))
    return rows


def _layers_row(
    name: str, kept: KeptScores, labels: tuple[str, str], seeds: list[str], *, new: bool
) -> tuple[Cell, ...]:
    """Compare two models by the seeds that both have; the second may be missing."""
    present = [label for label in labels if label in kept.models]
    scores = {label: kept.scores(label, seeds, new=new) for label in present}
    pairs = [(0, 1)] if len(present) > 1 else []
    analysis = analyze(scores, pairs, seed=BOOTSTRAP_SEED, num_samples=SAMPLES)
    missing = [MISSING] * (len(labels) - len(present))
    rates = [
        [*(replace(row[-1], best=False) for row in rate_table(metric, name).rows), *missing]
        for metric in analysis.metrics
    ]
    difference = _told_differences(analysis, name)[0] if pairs else MISSING
    return (Cell(name), Cell(str(len(seeds))), *itertools.chain(*rates), difference)


def compare(label: str, kept: KeptScores, pair: Pair) -> tuple[Cell, ...]:
    """Return the row of a pair: by how much the second model is worse, by the seeds of both."""
    first, second = pair
    for name in pair:
        if name not in kept.models:
            raise ArborvoxError(f"{label} has no {name}; it has {', '.join(sorted(kept.models))}.")
    seeds = kept.seeds(first, second)
    scores = {name: kept.scores(name, seeds, new=False) for name in pair}
    analysis = analyze(scores, [(0, 1)], seed=BOOTSTRAP_SEED, num_samples=SAMPLES)
    name = f"{label}: {second} − {first}"
    return (Cell(name), Cell(str(len(seeds))), *_told_differences(analysis, name))


def _told_differences(analysis: Analysis, name: str) -> list[Cell]:
    """Return the difference of each metric, pooled over utterances, with its interval."""
    told = [overall_differences(metric, name).rows[-1] for metric in analysis.metrics]
    return [replace(row[3], note=row[4].text) for row in told]


def keep(
    label: str, folder: Path, kept_in: Path | None, others: KeptScores | None = None
) -> KeptScores:
    """Take an experiment's counts, with those of others and of other days, and keep them all."""
    found = read_experiment_scores(folder)
    path = kept_in and kept_in / f"{label.lower()}.json"
    kept = others or (path and KeptScores.load(path)) or found
    kept.take(found)
    if path:
        kept.save(path)
    return kept


def _told(folder: Path, name: str) -> Table:
    """Return a table of an experiment's report."""
    return read_table(folder / "report" / NUMBERS_NAME, name)


def read_search(label: str, path: Path) -> tuple[Cell, ...]:
    """Return a row of the second table: the same model, searched in another way."""
    metrics = json.loads(path.read_text())["metrics"]
    return (
        Cell(label),
        *(_rate_cell(metrics[metric]["pooled"]["rate"]) for metric in ("cer", "wer")),
    )


def _rate_cell(rate: dict[str, float]) -> Cell:
    value, low, high = (100 * rate[key] for key in ("value", "low", "high"))
    return Cell(f"{value:.1f}", f"{low:.1f}–{high:.1f}")


def main() -> None:
    """Print the tables, and write them where asked."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("experiments", type=named_path, nargs="*")
    parser.add_argument("--layers", type=named_path, nargs="*", default=[])
    parser.add_argument(
        "--pairs", type=read_pair, nargs="*", default=[], help="FIRST:SECOND, of --layers"
    )
    parser.add_argument("--searches", type=named_path, nargs="*", default=[])
    parser.add_argument("--as", dest="kind", help="of models, in the tables' names")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--add", action="store_true", help="keep the rows of other labels")
    arguments = parser.parse_args()
    if arguments.add and arguments.json is None:
        parser.error("--add needs --json")
    tables = {}
    if arguments.experiments:
        rows = tuple(read_experiment(*named) for named in arguments.experiments)
        tables[arguments.kind or "languages"] = Table(HEADER, rows)
    if arguments.layers:
        name = f"{arguments.kind}-layers" if arguments.kind else "layers"
        kept_in = arguments.json and arguments.json.with_suffix("") / name
        kept: dict[str, KeptScores] = {}
        for label, folder in arguments.layers:  # a corpus may have several
            kept[label] = keep(label, folder, kept_in, kept.get(label))
        layers = [row for named in kept.items() for row in read_layers(*named)]
        tables[name] = Table(LAYERS_HEADER, tuple(layers))
        if arguments.pairs:
            compared = [compare(*each, pair) for each in kept.items() for pair in arguments.pairs]
            tables[name.replace("layers", "pairs")] = Table(PAIRS_HEADER, tuple(compared))
    if arguments.searches:
        searched = tuple(read_search(*named) for named in arguments.searches)
        tables["searches"] = Table(("search", "CER, %", "WER, %"), searched)
    tell(tables, arguments.json, add=arguments.add)


if __name__ == "__main__":
    main()
