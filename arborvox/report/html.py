"""A report as one HTML file that needs nothing else: styles, charts and pictures are inside."""

import base64
import re
from collections.abc import Hashable
from html import escape

from arborvox.report.charts import bar_rows, line_charts
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
    Hearing,
    Notes,
    Paragraph,
    Picture,
    Table,
)
from arborvox.report.style import STYLE
from arborvox.score import Edit, align, split_units
from arborvox.version import VERSION

MEDIA_TYPES = {".svg": "image/svg+xml", ".png": "image/png"}


def render_html(document: Document) -> str:
    """Return the whole page."""
    body = "\n".join(_render(block) for block in document.blocks)
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(document.title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n"
        f'<h1>{escape(document.title)}</h1>\n<p class="subtitle">{_inline(document.subtitle)}</p>\n'
        f"{body}\n<footer>Made by arborvox {VERSION}.</footer>\n</body>\n</html>\n"
    )


def _render(block: Block) -> str:
    match block:
        case Heading(text):
            return f"<h2>{escape(text)}</h2>"
        case Paragraph(text, emphasis):
            return (
                f'<p class="finding">{_inline(text)}</p>' if emphasis else f"<p>{_inline(text)}</p>"
            )
        case Table():
            return _table(block)
        case BarChart():
            return _figure(bar_rows(block), block.caption)
        case Charts():
            return _figure(line_charts(block.charts), block.caption)
        case Picture():
            return _picture(block)
        case Example():
            return _example(block)
        case Code(text):
            return f"<pre>{escape(text.rstrip())}</pre>"
        case Details(summary, blocks):
            inner = "\n".join(_render(inside) for inside in blocks)
            return f"<details><summary>{escape(summary)}</summary>\n{inner}\n</details>"
        case Notes(notes):
            return f"<ul>{''.join(f'<li>{escape(note)}</li>' for note in notes)}</ul>"


def _inline(text: str) -> str:
    """Turn the two marks that paragraphs may hold into HTML."""
    text = re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text, quote=False))
    return re.sub(r"\*\*([^*]+)\*\*", r"<strong>\1</strong>", text)


def _table(table: Table) -> str:
    head = "".join(
        f'<th class="word" scope="col">{escape(name)}</th>'
        if place < table.num_labels
        else f'<th scope="col">{escape(name)}</th>'
        for place, name in enumerate(table.header)
    )
    rows = "\n".join(
        "<tr>"
        + "".join(_cell(cell, place < table.num_labels) for place, cell in enumerate(row))
        + "</tr>"
        for row in table.rows
    )
    caption = f"<figcaption>{_inline(table.caption)}</figcaption>" if table.caption else ""
    return (
        f'<figure class="table">{caption}<div class="scroll"><table>\n'
        f"<thead><tr>{head}</tr></thead>\n<tbody>\n{rows}\n</tbody>\n</table></div></figure>"
    )


def _cell(cell: Cell, is_word: bool) -> str:
    marks = {"word": is_word, "best": cell.best, "strong": cell.strong}
    names = " ".join(name for name, on in marks.items() if on)
    note = f"<small>{escape(cell.note)}</small>" if cell.note else ""
    attribute = f' class="{names}"' if names else ""
    return f"<td{attribute}>{_inline(cell.text)}{note}</td>"


def _figure(content: str, caption: str) -> str:
    return f"<figure><figcaption>{_inline(caption)}</figcaption>{content}</figure>"


def _picture(picture: Picture) -> str:
    data = base64.b64encode(picture.path.read_bytes()).decode()
    source = f"data:{MEDIA_TYPES[picture.path.suffix]};base64,{data}"
    image = f'<img alt="{escape(picture.caption)}" src="{source}">'
    return _figure(f'<div class="picture">{image}</div>', picture.caption)


def _example(example: Example) -> str:
    hearings = "".join(_hearing(hearing, example) for hearing in example.hearings)
    return f'<div class="example"><h3>{escape(example.title)}</h3>{hearings}</div>'


def _hearing(hearing: Hearing, example: Example) -> str:
    units = align(
        split_units(example.reference, example.metric), split_units(hearing.text, example.metric)
    )
    pairs = "".join(
        f'<span class="{unit.edit.value}"><span>{_unit(unit.reference, unit.edit)}</span>'
        f"<span>{_unit(unit.hypothesis, unit.edit)}</span></span>"
        for unit in units
    )
    return (
        f'<div class="hearing"><span>{escape(hearing.label)} · {escape(hearing.note)}</span>'
        f'<div class="pairs {example.metric.value}">{pairs}</div></div>'
    )


def _unit(unit: Hashable | None, edit: Edit) -> str:
    """Show one side of an alignment; what has no shape gets one where it is an error."""
    if unit is None:
        return "·"
    return "␣" if edit is not Edit.hit and str(unit).isspace() else escape(str(unit))
