"""Tables that look alike on the screen and in Markdown, and the files of a result."""

import csv
import io
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console, RenderableType
from rich.table import Table as RichTable
from rich.text import Text

from arborvox.console import say
from arborvox.files import write_json_atomic, write_text_atomic

_MARKDOWN_SIGNS = re.compile(r"([\\`*_\[\]<>|])")
# Output that goes to a file or a pipe has no edge to wrap at.
PIPE_WIDTH = 1000


@dataclass(frozen=True)
class Table:
    """Cells as text, the first column to the left and the others to the right."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    bold: frozenset[tuple[int, int]] = frozenset()  # (row, column)

    def markdown(self) -> str:
        """Write the table in Markdown, under its title."""
        lines = [
            f"## {escape_markdown(self.title)}",
            "",
            _markdown_row(map(escape_markdown, self.columns)),
            _markdown_row([":--", *("--:" for _ in self.columns[1:])]),
        ]
        for number, row in enumerate(self.rows):
            cells = (
                f"**{escape_markdown(cell)}**"
                if (number, place) in self.bold and cell
                else escape_markdown(cell)
                for place, cell in enumerate(row)
            )
            lines.append(_markdown_row(cells))
        return "\n".join(lines) + "\n"

    def rich(self) -> RichTable:
        """Draw the table for a terminal."""
        drawn = RichTable(title=Text(self.title), box=box.SIMPLE_HEAD, title_justify="left")
        for place, name in enumerate(self.columns):
            drawn.add_column(Text(name), justify="right" if place else "left")
        for number, row in enumerate(self.rows):
            drawn.add_row(
                *(
                    Text(cell, style="bold" if (number, place) in self.bold else "")
                    for place, cell in enumerate(row)
                )
            )
        return drawn


def escape_markdown(text: str) -> str:
    """Keep signs such as the brackets of <unk> from being taken for markup."""
    return _MARKDOWN_SIGNS.sub(r"\\\1", text)


def percent(rate: float, decimals: int = 2) -> str:
    """Write a rate as tables do: 0.053 is 5.30."""
    return f"{100 * rate:.{decimals}f}"


def show_result(parts: Iterable[RenderableType]) -> None:
    """Print tables and texts on standard output, never cut off in a pipe."""
    console = Console(highlight=False, markup=False)
    if not console.is_terminal:
        console = Console(highlight=False, markup=False, width=PIPE_WIDTH)
    for part in parts:
        console.print(part, soft_wrap=isinstance(part, str))


def write_result(
    prefix: Path, markdown: str, tables: dict[str, Sequence[Sequence[Any]]], value: Any
) -> None:
    """Write PREFIX.md, a PREFIX.csv for each table (rows, the first its head), and PREFIX.json."""
    outputs = {_beside(prefix, ".md"): markdown}
    for suffix, rows in tables.items():
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows(rows)
        outputs[_beside(prefix, suffix)] = text.getvalue()
    for path, content in outputs.items():
        write_text_atomic(path, content)
        say(f"wrote {path}")
    write_json_atomic(_beside(prefix, ".json"), value)
    say(f"wrote {_beside(prefix, '.json')}")


def _beside(prefix: Path, suffix: str) -> Path:
    # Not with_suffix: a prefix such as run.v2 keeps its dot.
    return prefix.with_name(prefix.name + suffix)


def _markdown_row(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cells) + " |"
