"""A report as Markdown, for repositories and for people who read in a terminal."""

import os
import re
from pathlib import Path

from arborvox.report.alignments import draw_example
from arborvox.report.document import (
    BarChart,
    Block,
    Cell,
    Charts,
    Code,
    Details,
    Document,
    Example,
    Heading,
    Notes,
    Paragraph,
    Picture,
    Table,
)

_MARKDOWN_SIGNS = re.compile(r"([\\`*_\[\]<>|])")


def render_markdown(document: Document, folder: Path) -> str:
    """Return the report; pictures are linked from where they lie, seen from `folder`."""
    parts = [f"# {escape_markdown(document.title)}", document.subtitle]
    for block in document.blocks:
        parts += _render(block, folder)
    return "\n\n".join(part for part in parts if part) + "\n"


def _render(block: Block, folder: Path) -> list[str]:
    match block:
        case Heading(text):
            return [f"## {escape_markdown(text)}"]
        case Paragraph(text, emphasis):
            return [f"> {text}" if emphasis else text]
        case Table():
            return [block.caption, render_table(block)]
        case BarChart():
            return []  # a drawing of the numbers in the table beside it
        case Charts():
            return [block.caption, *(_picture(picture, folder) for picture in block.pictures)]
        case Picture():
            return [_picture(block, folder)]
        case Example():
            return [f"**{escape_markdown(block.title)}**", _fenced(draw_example(block))]
        case Code(text, language):
            return [_fenced(text.rstrip(), language)]
        case Notes(notes):
            return ["\n".join(f"- {escape_markdown(note)}" for note in notes)]
        case Details(summary, blocks):
            inner = [part for inside in blocks for part in _render(inside, folder)]
            return [f"### {summary}", *inner]


def render_table(table: Table) -> str:
    """Return the header and the rows, without the caption."""
    rule = ["---"] * table.num_labels + ["---:"] * (len(table.header) - table.num_labels)
    lines = [_row([escape_markdown(name) for name in table.header]), _row(rule)]
    lines += [_row([_cell(cell) for cell in row]) for row in table.rows]
    return "\n".join(lines)


def _row(cells: list[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _cell(cell: Cell) -> str:
    parts = re.split(r"(`[^`]+`)", cell.text)  # code stays as it is
    text = "".join(part if n % 2 else escape_markdown(part) for n, part in enumerate(parts))
    marked = f"**{text}**" if cell.best or cell.strong else text
    return f"{marked} {escape_markdown(cell.note)}".strip()


def _picture(picture: Picture, folder: Path) -> str:
    link = Path(os.path.relpath(picture.path, folder)).as_posix()
    return f"![{picture.caption}](<{link}>)"


def _fenced(text: str, language: str = "") -> str:
    # No text of an utterance can end a fence that is longer than its longest row of backticks.
    longest = max(map(len, re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text}\n{fence}"


def escape_markdown(text: str) -> str:
    """Keep signs such as the brackets of <unk> from being taken for markup."""
    return _MARKDOWN_SIGNS.sub(r"\\\1", text)
