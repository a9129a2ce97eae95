"""Tables as JSON, and pages whose tables are written from it and so cannot drift.

    <!-- table: ucla.json#free-per -->
    | Model | abk | … |
    <!-- end -->

Between such marks stands what the JSON file beside the page says, and nothing else.
"""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from arborvox.console import say
from arborvox.errors import ArborvoxError
from arborvox.files import read_json, write_text_atomic
from arborvox.report.document import Cell, Document, Table
from arborvox.report.markdown import render_table

FORMAT_KEY, FORMAT_VERSION = "arborvox_results", 1
_MARKED = re.compile(r"(<!-- table: (\S+)#([^\n]+?) -->\n).*?(?=<!-- end -->)", re.DOTALL)


def results_as_json(
    command: str, environment: Mapping[str, str], tables: Mapping[str, Table]
) -> dict[str, Any]:
    """Turn tables into what a JSON file of results holds, with what they were made by."""
    return {
        FORMAT_KEY: FORMAT_VERSION,
        "command": command,
        "source": "written by the command",
        "environment": dict(environment),
        "tables": {name: _table_as_json(table) for name, table in tables.items()},
    }


def named_tables(document: Document) -> dict[str, Table]:
    """Collect the tables of a report that have a name."""
    tables = (block for block in document.blocks if isinstance(block, Table))
    return {table.name: table for table in tables if table.name}


def fill_page(text: str, folder: Path) -> str:
    """Write the tables of a page anew, from the JSON files that its marks name in a folder."""

    def fill(mark: re.Match[str]) -> str:
        return f"{mark[1]}{render_table(read_table(folder / mark[2], mark[3]))}\n"

    return _MARKED.sub(fill, text)


def write_results(path: Path, value: Mapping[str, Any]) -> None:
    """Write a JSON file of results, a line a row."""
    lines = [f" {_plain(key)}: {_plain(part)}" for key, part in value.items() if key != "tables"]
    lines.append(f' "tables": {{\n{_tables_text(value["tables"])}\n }}')
    write_text_atomic(path, "{\n" + ",\n".join(lines) + "\n}\n")
    say(f"wrote {path}")


def fill_pages(pages: Sequence[Path]) -> None:
    """Write the tables of pages anew where they differ from their JSON files."""
    for page in pages:
        text = page.read_text(encoding="utf-8")
        filled = fill_page(text, page.parent)
        if filled != text:
            write_text_atomic(page, filled)
            say(f"wrote {page}")


def _tables_text(tables: Mapping[str, Any]) -> str:
    parts = []
    for name, table in tables.items():
        rows = ",\n".join(f"    {_plain(row)}" for row in table["rows"])
        parts.append(
            f"  {_plain(name)}: {{\n"
            f'   "header": {_plain(table["header"])},\n'
            f'   "num_labels": {table["num_labels"]},\n'
            f'   "rows": [\n{rows}\n   ]\n  }}'
        )
    return ",\n".join(parts)


def _plain(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def read_table(path: Path, name: str) -> Table:
    """Read one table of a JSON file of results."""
    value = read_json(path)
    if not isinstance(value, dict) or value.get(FORMAT_KEY) != FORMAT_VERSION:
        raise ArborvoxError(f"{path} holds no results of version {FORMAT_VERSION}.")
    tables = value.get("tables", {})
    if name not in tables:
        raise ArborvoxError(f"{path} has no table {name!r}; it has: {', '.join(tables)}.")
    try:
        return _read_table(tables[name])
    except (KeyError, TypeError, ValueError) as error:
        raise ArborvoxError(f"{path}: the table {name!r} is damaged ({error}).") from None


def _table_as_json(table: Table) -> dict[str, Any]:
    return {
        "header": list(table.header),
        "num_labels": table.num_labels,
        "rows": [[_cell_as_json(cell) for cell in row] for row in table.rows],
    }


def _cell_as_json(cell: Cell) -> str | dict[str, Any]:
    marks = {"note": cell.note, "best": cell.best, "strong": cell.strong}
    told = {name: value for name, value in marks.items() if value}
    return {"text": cell.text, **told} if told else cell.text


def _read_table(value: Mapping[str, Any]) -> Table:
    header = tuple(map(str, value["header"]))
    rows = tuple(tuple(_read_cell(cell) for cell in row) for row in value["rows"])
    if any(len(row) != len(header) for row in rows):
        raise ValueError("a row is not as long as the header")
    return Table(header, rows, num_labels=int(value["num_labels"]))


def _read_cell(value: str | Mapping[str, Any]) -> Cell:
    return Cell(value) if isinstance(value, str) else Cell(**value)
