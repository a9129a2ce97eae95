"""Figures of a benchmark as JSON, and the tables of the page beside it."""

import argparse
import shlex
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from timing import describe_machine

from arborvox.files import read_json
from arborvox.report.document import Table
from arborvox.report.markdown import render_table
from arborvox.report.results import fill_pages, read_table, results_as_json, write_results


def named_path(word: str) -> tuple[str, Path]:
    """Read LABEL=PATH of a command line."""
    label, mark, path = word.partition("=")
    if not mark:
        raise argparse.ArgumentTypeError(f"{word}: write LABEL=PATH")
    return label, Path(path)


def print_table(table: Table) -> None:
    """Print a table as Markdown."""
    print(render_table(table) + "\n", flush=True)


def tell(tables: Mapping[str, Table], path: Path | None, *, add: bool = False) -> None:
    """Print tables, and publish them where a file is named."""
    for table in tables.values():
        print_table(table)
    if path is not None:
        publish(path, tables, add=add)


def publish(path: Path, tables: Mapping[str, Table], *, add: bool = False, **samples: Any) -> None:
    """Write tables and raw samples to a JSON file, then the tables of the page beside it.

    add: keep rows that another call of the same benchmark wrote, and name its command too.
    """
    command = shlex.join(["python", *sys.argv])
    if add and path.is_file():
        written = read_json(path)
        kept = {name: read_table(path, name) for name in written["tables"]}
        added = {
            name: _put_into(kept[name], table) if name in kept else table
            for name, table in tables.items()
        }
        tables = kept | added
        before = written["command"].splitlines()
        command = "\n".join([*(line for line in before if line != command), command])
    write_results(path, results_as_json(command, describe_machine(), tables) | samples)
    page = path.with_suffix(".md")
    if page.is_file():
        fill_pages([page])


def _put_into(before: Table, table: Table) -> Table:
    """Put a table's rows where rows of the same names were, or under all others."""
    names = {row[0].text for row in table.rows}
    place = next((n for n, row in enumerate(before.rows) if row[0].text in names), len(before.rows))
    above, below = (
        tuple(row for row in rows if row[0].text not in names)
        for rows in (before.rows[:place], before.rows[place:])
    )
    return replace(table, rows=(*above, *table.rows, *below))
