"""Tables of several experiments that compare the same models, side by side in one file.

    python benchmarks/groups.py romance=experiments/romance slavic=experiments/slavic
        --tables free-cer "free-cer-H-Softmax against Softmax" --json results/groups.json

An experiment is what `arborvox run` made; its report names the tables. In the file they are called
LABEL and, from the second on, LABEL-2 and so forth. With --seeds per there are also LABEL-seeds and
LABEL-seeds-2, the tables of seeds.py; with --differences cer "differences", all pairs of models
that the reports compare, pooled over each experiment's languages.
"""

import argparse
from pathlib import Path

from publishing import named_path, tell
from seeds import FREE, read_rates, tabulate

from arborvox.files import read_json
from arborvox.report.document import Cell, Table
from arborvox.report.experiment_report import NUMBERS_NAME
from arborvox.report.results import read_table

AGAINST = " against "


def compare_pooled(experiments: list[tuple[str, Path]], metric: str) -> Table:
    """Return a row for each pair of models, and in it by how much the first one is worse."""
    reports = {label: folder / "report" / NUMBERS_NAME for label, folder in experiments}
    begin = f"{FREE}-{metric}-"
    names = [name for name in read_json(next(iter(reports.values())))["tables"] if AGAINST in name]
    rows = []
    for name in (name for name in names if name.startswith(begin)):
        pooled = [read_table(report, name).rows[-1] for report in reports.values()]
        told = [Cell(row[3].text, f"{row[4].text}, p {row[5].text}") for row in pooled]
        rows.append((Cell(name.removeprefix(begin).replace(AGAINST, " − ")), *told))
    return Table(("", *reports), tuple(rows))


def main() -> None:
    """Print the tables, and write them where asked."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("experiments", type=named_path, nargs="+")
    parser.add_argument("--tables", nargs="+", default=["free-cer"])
    parser.add_argument(
        "--seeds", metavar="METRIC", help="tell this rate seed by seed, such as per"
    )
    parser.add_argument(
        "--differences", metavar="METRIC", help="tell pooled differences of this rate, such as cer"
    )
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    tables = {
        label if number == 1 else f"{label}-{number}": read_table(
            folder / "report" / NUMBERS_NAME, name
        )
        for label, folder in arguments.experiments
        for number, name in enumerate(arguments.tables, start=1)
    }
    for label, folder in arguments.experiments if arguments.seeds else ():
        by_seed, differences = tabulate(read_rates(folder, FREE, arguments.seeds))
        tables |= {f"{label}-seeds": by_seed, f"{label}-seeds-2": differences}
    if arguments.differences:
        tables["differences"] = compare_pooled(arguments.experiments, arguments.differences)
    tell(tables, arguments.json)


if __name__ == "__main__":
    main()
