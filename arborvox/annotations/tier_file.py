"""The files of one tier that ELAN exchanges with recognizers, in AVATecH's form.

<TIER columns="text"><span start="1.25" end="2.5"><v>bon dia</v></span></TIER>

A time with a point is in seconds, one without it in milliseconds.
"""

import re
from collections.abc import Sequence
from pathlib import Path

from arborvox.annotations.safe_xml import escaped, quoted, walk_file
from arborvox.annotations.tiers import MOST_SECONDS, Annotation
from arborvox.errors import ArborvoxError

_TIME = re.compile(r"\d{1,12}(\.\d{0,12})?")


def read_tier_file(path: Path) -> list[Annotation]:
    """Read the spans of a file; of several values the first one counts."""
    reader = _Reader(path)
    walk_file(path, reader)
    if reader.root not in ("TIER", "TIERS"):
        shown = ascii(reader.root)[:40]
        raise ArborvoxError(f"{path} is no tier file: its outermost element is {shown}, not TIER.")
    return reader.found


def write_tier_file(name: str, annotations: Sequence[Annotation]) -> bytes:
    """Write a tier; ELAN takes the words of `columns` for names, so a name has no spaces."""
    lines = [
        f'    <span start="{a.start_s:.3f}" end="{a.end_s:.3f}"><v>{escaped(a.value)}</v></span>\n'
        for a in annotations
    ]
    column = quoted("_".join(name.split()) or "tier")
    head = (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        '<TIER xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" '
        f'xsi:noNamespaceSchemaLocation="file:avatech-tier.xsd" columns={column}>\n'
    )
    return "".join([head, *lines, "</TIER>\n"]).encode()


class _Reader:
    """Takes spans and their first values from the stream."""

    def __init__(self, path: Path) -> None:
        self.root = ""
        self.found: list[Annotation] = []
        self._path = path
        self._span: tuple[float, float] | None = None
        self._values: list[str] = []
        self._inside = False

    def encoding(self, name: str) -> None:
        pass

    def start(self, tag: str, attributes: dict[str, str], at: int) -> None:
        self.root = self.root or tag
        if tag == "span":
            begin, end = (self._seconds(attributes.get(key, "")) for key in ("start", "end"))
            self._span, self._values = (begin, end), []
        elif tag == "v" and self._span is not None:
            self._values.append("")
            self._inside = True

    def end(self, tag: str, at: int) -> None:
        if tag == "v":
            self._inside = False
        elif tag == "span" and self._span is not None:
            value = self._values[0].strip() if self._values else ""
            self.found.append(Annotation(*self._span, value))
            self._span = None

    def text(self, data: str) -> None:
        if self._inside and len(self._values) == 1:
            self._values[0] += data

    def _seconds(self, text: str) -> float:
        told = text.strip()
        if not _TIME.fullmatch(told) or not told.isascii():
            raise ArborvoxError(f"{self._path}: {ascii(told)[:40]} is no time of a span.")
        seconds = float(told) if "." in told else int(told) / 1000
        if seconds > MOST_SECONDS:
            raise ArborvoxError(f"{self._path}: {told} is a time that no recording has.")
        return seconds
