"""A report on standard output: the same blocks as on a page, drawn for a terminal."""

from collections.abc import Iterator

from rich import box
from rich.console import Console, RenderableType
from rich.table import Table as RichTable
from rich.text import Text

from arborvox.report.alignments import draw_example
from arborvox.report.document import Block, Document, Example, Heading, Notes, Paragraph, Table

# Output that goes to a file or a pipe has no edge to wrap at.
PIPE_WIDTH = 1000


def show(document: Document) -> None:
    """Print the blocks, never cut off in a pipe; pictures and what is to be folded are left out."""
    console = Console(highlight=False, markup=False)
    if not console.is_terminal:
        console = Console(highlight=False, markup=False, width=PIPE_WIDTH)
    for block in document.blocks:
        for part in _parts(block):
            console.print(part, soft_wrap=isinstance(part, str))


def _parts(block: Block) -> Iterator[RenderableType]:
    match block:
        case Heading(text):
            yield Text(text, style="bold italic")
        case Paragraph(text):
            yield text
        case Table():
            yield _table(block)
        case Example(title):
            yield f"{title}\n\n{draw_example(block)}\n"
        case Notes(notes):
            yield "\n".join(notes)


def _table(table: Table) -> RichTable:
    caption = Text(table.caption) if table.caption else None
    drawn = RichTable(title=caption, box=box.SIMPLE_HEAD, title_justify="left")
    for place, name in enumerate(table.header):
        drawn.add_column(Text(name), justify="left" if place < table.num_labels else "right")
    for row in table.rows:
        drawn.add_row(
            *(
                Text(
                    f"{cell.text} {cell.note}".strip(),
                    style="bold" if cell.best or cell.strong else "",
                )
                for cell in row
            )
        )
    return drawn
