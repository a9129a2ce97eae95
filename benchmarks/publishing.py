"""Figures of a benchmark as JSON, and the tables of the page beside it."""

import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from timing import describe_machine

from arborvox.report.document import Table
from arborvox.report.markdown import render_table
from arborvox.report.results import fill_pages, results_as_json, write_results


def print_table(table: Table) -> None:
    """Print a table as Markdown."""
    print(render_table(table) + "\n", flush=True)


def publish(path: Path, tables: Mapping[str, Table], **samples: Any) -> None:
    """Write tables and raw samples to a JSON file, then the tables of the page beside it."""
    command = shlex.join(["python", *sys.argv])
    write_results(path, results_as_json(command, describe_machine(), tables) | samples)
    page = path.with_suffix(".md")
    if page.is_file():
        fill_pages([page])
