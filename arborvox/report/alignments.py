"""An alignment that people can read: reference above hypothesis, marks below the errors."""

import unicodedata
from collections.abc import Sequence

from rich.cells import cell_len

from arborvox.report.document import Example
from arborvox.score import AlignedUnit, Edit, Metric, align, split_units

MARKS = {Edit.hit: "", Edit.substitution: "S", Edit.deletion: "D", Edit.insertion: "I"}
NOTHING, VISIBLE_SPACE, DOTTED_CIRCLE, UNPRINTABLE = "*", "␣", "◌", "�"


def draw_example(example: Example) -> str:
    """Draw what each model heard of an utterance, one below the other."""
    return "\n\n".join(
        f"{hearing.label} ({hearing.note})\n"
        + draw_alignment(example.reference, hearing.text, example.metric)
        for hearing in example.hearings
    )


def draw_alignment(reference: str, hypothesis: str, metric: Metric, *, width: int = 88) -> str:
    """Draw the alignment of two texts in blocks of lines that are `width` cells wide at most."""
    units = align(split_units(reference, metric), split_units(hypothesis, metric))
    gap = "" if metric is Metric.cer else " "
    blocks: list[list[tuple[str, str, str]]] = [[]]
    used = 0
    for unit in units:
        column = _column(unit)
        cells = cell_len(column[0]) + len(gap)
        if blocks[-1] and used + cells > width - len("REF  "):
            blocks.append([])
            used = 0
        blocks[-1].append(column)
        used += cells
    return "\n\n".join(_draw_block(block, gap) for block in blocks)


def _draw_block(columns: Sequence[tuple[str, str, str]], gap: str) -> str:
    heads = ("REF  ", "HYP  ", "     ")
    lines = (head + gap.join(column[line] for column in columns) for line, head in enumerate(heads))
    return "\n".join(line.rstrip() for line in lines if line.strip())


def _column(unit: AlignedUnit[str]) -> tuple[str, str, str]:
    """Pad reference, hypothesis and mark to one width."""
    is_error = unit.edit is not Edit.hit
    cells = (
        _visible(unit.reference, is_error),
        _visible(unit.hypothesis, is_error),
        MARKS[unit.edit],
    )
    width = max(map(cell_len, cells))
    first, second, third = (cell + " " * (width - cell_len(cell)) for cell in cells)
    return first, second, third


def _visible(unit: str | None, is_error: bool) -> str:
    """Give every unit a form that can be seen: spaces in errors, and accents on their own, too."""
    if unit is None:
        return NOTHING
    if unit.isspace():
        return VISIBLE_SPACE if is_error else " "
    if unicodedata.category(unit[0]).startswith("M"):
        unit = DOTTED_CIRCLE + unit
    return "".join(sign if sign.isprintable() else UNPRINTABLE for sign in unit)
