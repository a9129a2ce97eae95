"""Tables of several experiments that compare the same models, side by side in one file.

    python benchmarks/groups.py romance=experiments/romance slavic=experiments/slavic
        --tables free-cer "free-cer-H-Softmax against Softmax" --json results/groups.json

An experiment is what `arborvox run` made; its report names the tables. In the file they are called
LABEL and, from the second on, LABEL-2 and so forth. With --seeds per there are also LABEL-seeds and
LABEL-seeds-2, the tables of seeds.py.
"""

import argparse
from pathlib import Path

from publishing import named_path, tell
from seeds import FREE, read_rates, tabulate

from arborvox.report.experiment_report import NUMBERS_NAME
from arborvox.report.results import read_table


def main() -> None:
    """Print the tables, and write them where asked."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("experiments", type=named_path, nargs="+")
    parser.add_argument("--tables", nargs="+", default=["free-cer"])
    parser.add_argument(
        "--seeds", metavar="METRIC", help="tell this rate seed by seed, such as per"
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
    tell(tables, arguments.json)


if __name__ == "__main__":
    main()
