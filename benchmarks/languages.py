"""One table of several experiments, each on a corpus of its own, and of their other searches.

    python benchmarks/languages.py Mboshi=experiments/mboshi Ibibio=experiments/ibibio
        --searches "Mboshi, CTC greedy"=greedy.scores.json --json results/languages.json

An experiment is what `arborvox run` made of one model; scores are what `arborvox score` writes.
--layers takes experiments of whole recipes (recipes/languages.yaml): softmax beside H-Softmax in
every search, over their seeds. With --add, rows under other labels, and other tables, stay as
--json has them; --as scratch gives models from scratch tables of their own.
"""

import argparse
import json
from dataclasses import replace
from pathlib import Path

from publishing import named_path, tell

from arborvox.files import read_json
from arborvox.report.document import Cell, Table
from arborvox.report.experiment_report import NUMBERS_NAME
from arborvox.report.results import read_table

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
    "CER, softmax",
    "CER, H-Softmax",
    "WER, softmax",
    "WER, H-Softmax",
    "difference of CER",
)
RATES = ("free-cer", "free-wer")
PART_OF_ALL, PART_OF_NEW = "", "-new"
MISSING = Cell("–")


def read_experiment(label: str, folder: Path) -> tuple[Cell, ...]:
    """Return a row of the first table: what was trained, how well it does, what it cost."""
    data = _told(folder, "data")
    row = data.rows[-1]
    hours = row[data.header.index("train utterances") + 1]  # they stand behind each set's number
    costs = (_told(folder, name).rows[0][-1] for name in ("models", "free-speed"))
    rates = (replace(_told(folder, name).rows[0][-1], best=False) for name in RATES)
    return (Cell(label), hours, row[data.header.index("test utterances")], *rates, *costs)


def read_layers(label: str, folder: Path) -> list[tuple[Cell, ...]]:
    """Return a row for each search: both output layers, and the difference with its interval.

    Where a test set repeats sentences of the training set, the others have rows of their own.
    """
    told = read_json(folder / "report" / NUMBERS_NAME)["tables"]
    rows = []
    for part, words in ((PART_OF_ALL, ""), (PART_OF_NEW, ", new sentences")):
        if f"{RATES[0]}{part}" not in told:
            continue
        cer, wer = (
            {row[0].text: replace(row[-1], best=False) for row in _told(folder, name + part).rows}
            for name in RATES
        )
        for softmax in (name for name in cer if name.startswith(SOFTMAX)):
            tree = softmax.replace(SOFTMAX, H_SOFTMAX, 1)
            search = softmax.removeprefix(SOFTMAX).removeprefix(", ") or "joint"
            rates = (found.get(name, MISSING) for found in (cer, wer) for name in (softmax, tree))
            difference = _difference(folder, part, softmax, tree) if tree in cer else MISSING
            rows.append((Cell(f"{label}, {search}{words}"), *rates, difference))
    return rows


def _difference(folder: Path, part: str, softmax: str, tree: str) -> Cell:
    """Return the pooled difference of the CER between two models, with its interval."""
    if part == PART_OF_ALL:
        row = _told(folder, f"{RATES[0]}-{tree} against {softmax}").rows[-1]
    else:
        rows = _told(folder, f"{RATES[0]}{part}-differences").rows
        row = next(row for row in rows if row[0].text == f"{tree} − {softmax}, pooled")
    return replace(row[3], note=row[4].text)


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
        layers = [row for named in arguments.layers for row in read_layers(*named)]
        tables[f"{arguments.kind}-layers" if arguments.kind else "layers"] = Table(
            LAYERS_HEADER, tuple(layers)
        )
    if arguments.searches:
        searched = tuple(read_search(*named) for named in arguments.searches)
        tables["searches"] = Table(("search", "CER, %", "WER, %"), searched)
    tell(tables, arguments.json, add=arguments.add)


if __name__ == "__main__":
    main()
