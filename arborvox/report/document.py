"""What a report is made of: blocks that know nothing of HTML or Markdown."""

from dataclasses import dataclass
from pathlib import Path

from arborvox.score import Metric


@dataclass(frozen=True)
class Heading:
    """The start of a section."""

    text: str


@dataclass(frozen=True)
class Paragraph:
    """Running text; `code` and **strong** words are marked as in Markdown."""

    text: str
    emphasis: bool = False  # the finding of the report, set apart from the rest


@dataclass(frozen=True)
class Cell:
    """A value in a table, what is said small beside it, and whether it stands out."""

    text: str
    note: str = ""
    best: bool = False  # of its column
    strong: bool = False  # worth noticing, for better or worse


@dataclass(frozen=True)
class Table:
    """Rows under a header; the first `num_labels` columns are words, the others numbers."""

    header: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    caption: str = ""
    num_labels: int = 1
    name: str = ""  # under which the JSON of the report has it


@dataclass(frozen=True)
class Bar:
    """One value with its interval."""

    label: str
    value: float
    low: float
    high: float


@dataclass(frozen=True)
class BarGroup:
    """Bars that are to be compared with each other."""

    label: str
    bars: tuple[Bar, ...]


@dataclass(frozen=True)
class BarChart:
    """Groups of bars on one scale; the numbers stand in a table nearby."""

    caption: str
    groups: tuple[BarGroup, ...]


@dataclass(frozen=True)
class Line:
    """Points of a curve; lines of one label share a color (the seeds of a model)."""

    label: str
    points: tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class LineChart:
    """Curves over one axis."""

    title: str
    x_label: str
    lines: tuple[Line, ...]


@dataclass(frozen=True)
class Charts:
    """Line charts side by side; Markdown shows the pictures that training drew instead."""

    charts: tuple[LineChart, ...]
    caption: str
    pictures: tuple["Picture", ...] = ()


@dataclass(frozen=True)
class Picture:
    """An SVG or PNG file."""

    path: Path
    caption: str


@dataclass(frozen=True)
class Hearing:
    """What one model heard, to be laid beside what was said."""

    label: str
    text: str
    note: str


@dataclass(frozen=True)
class Example:
    """An utterance and what the models heard."""

    title: str
    reference: str
    metric: Metric  # its units are what is aligned
    hearings: tuple[Hearing, ...]


@dataclass(frozen=True)
class Code:
    """Text to be copied as it is."""

    text: str
    language: str = ""


@dataclass(frozen=True)
class Details:
    """What only some readers want to see."""

    summary: str
    blocks: tuple["Block", ...]


@dataclass(frozen=True)
class Notes:
    """Sentences in a list."""

    notes: tuple[str, ...]


Block = Heading | Paragraph | Table | BarChart | Charts | Picture | Example | Code | Details | Notes


@dataclass(frozen=True)
class Document:
    """A whole report."""

    title: str
    subtitle: str
    blocks: tuple[Block, ...]
