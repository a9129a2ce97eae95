"""Write the tables of the pages under results/ anew, from the JSON files beside them.

python benchmarks/pages.py [PAGE ...]
"""

import argparse
from pathlib import Path

from arborvox.report.results import fill_pages

RESULTS = Path(__file__).parent.parent / "results"


def main() -> None:
    """Fill the pages that are named, or all."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("pages", type=Path, nargs="*")
    fill_pages(parser.parse_args().pages or sorted(RESULTS.glob("*.md")))


if __name__ == "__main__":
    main()
