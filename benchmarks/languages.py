"""One table of several experiments, each on a corpus of its own, and of their other searches.

    python benchmarks/languages.py Mboshi=experiments/mboshi Ibibio=experiments/ibibio
        --searches "Mboshi, CTC greedy"=greedy.scores.json --json results/languages.json

An experiment is what `arborvox run` made of one model; scores are what `arborvox score` writes.
With --add, rows under other labels, and other tables, stay as --json has them; --as names the
first table, so that models from scratch have one of their own.
"""

import argparse
import json
from pathlib import Path
from typing import Any

from publishing import named_path, tell

from arborvox.report.document import Cell, Table
from arborvox.report.experiment_report import NUMBERS_NAME

HEADER = (
    "corpus",
    "hours to train on",
    "test utterances",
    "CER, %",
    "WER, %",
    "training, min",
    "RTF",
)


def read_experiment(label: str, folder: Path) -> tuple[Cell, ...]:
    """Return a row of the first table: what was trained, how well it does, what it cost."""
    tables = json.loads((folder / "report" / NUMBERS_NAME).read_text())["tables"]
    header, row = tables["data"]["header"], tables["data"]["rows"][-1]
    hours = row[header.index("train utterances") + 1]  # hours stand behind each set's utterances
    words = (label, hours, row[header.index("test utterances")])
    costs = (tables["models"]["rows"][0][-1], tables["free-speed"]["rows"][0][-1])
    rates = (_told_cell(tables[f"free-{metric}"]["rows"][0][-1]) for metric in ("cer", "wer"))
    return (*map(Cell, words), *rates, *map(Cell, costs))


def read_search(label: str, path: Path) -> tuple[Cell, ...]:
    """Return a row of the second table: the same model, searched in another way."""
    metrics = json.loads(path.read_text())["metrics"]
    return (
        Cell(label),
        *(_rate_cell(metrics[metric]["pooled"]["rate"]) for metric in ("cer", "wer")),
    )


def _told_cell(told: Any) -> Cell:
    return Cell(told["text"], told["note"])


def _rate_cell(rate: dict[str, float]) -> Cell:
    value, low, high = (100 * rate[key] for key in ("value", "low", "high"))
    return Cell(f"{value:.1f}", f"{low:.1f}–{high:.1f}")


def main() -> None:
    """Print the tables, and write them where asked."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("experiments", type=named_path, nargs="*")
    parser.add_argument("--searches", type=named_path, nargs="*", default=[])
    parser.add_argument("--as", dest="table", default="languages", help="the table's name")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--add", action="store_true", help="keep the rows of other labels")
    arguments = parser.parse_args()
    if arguments.add and arguments.json is None:
        parser.error("--add needs --json")
    tables = {}
    if arguments.experiments:
        rows = tuple(read_experiment(*named) for named in arguments.experiments)
        tables[arguments.table] = Table(HEADER, rows)
    if arguments.searches:
        searched = tuple(read_search(*named) for named in arguments.searches)
        tables["searches"] = Table(("search", "CER, %", "WER, %"), searched)
    tell(tables, arguments.json, add=arguments.add)


if __name__ == "__main__":
    main()
