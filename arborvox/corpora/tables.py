"""A user's table, CSV, TSV or JSONL, row by row: what is wrong with a row costs that row alone."""

import codecs
import csv
import json
import os
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from arborvox.corpora.manifests import Skipped
from arborvox.errors import ArborvoxError
from arborvox.files import clean_cell

TABLE_ENDINGS = frozenset({".csv", ".tsv", ".jsonl"})
# Programs differ in what they put between the cells of a .csv: the header shows it.
DELIMITERS = {".csv": ",;\t", ".tsv": "\t"}
# No path, text or name is longer (it is a little less than what Python's csv module takes).
LONGEST_CELL = 100_000
MOST_NAMES_SHOWN = 12
LONGEST_SHOWN = 200
UNCLOSED_QUOTE = "unclosed quote: it opens in this line"

_BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
# Half a character, or a byte that is none: what decoding leaves, or JSON's \ud800.
_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True)
class Columns:
    """The columns of a table that are read; audio and text must be there."""

    audio: str
    text: str
    speaker: str
    language: str
    split: str

    @property
    def needed(self) -> set[str]:
        """Those without which there is no utterance."""
        return {self.audio, self.text}

    @property
    def names(self) -> tuple[str, ...]:
        """All of them, in the order of a row's cells."""
        return self.audio, self.text, self.speaker, self.language, self.split


@dataclass(frozen=True, slots=True)
class Cells:
    """What a row has in the columns that are read, "" where there is nothing."""

    line: int
    audio: str
    text: str
    speaker: str
    language: str
    split: str


class _RowProblem(Exception):  # noqa: N818  (a verdict on a row, not a failure of ours)
    """Why a row cannot be used."""


def read_cells(
    table: Path, columns: Columns, looks_like_audio: Callable[[str], bool], skipped: list[Skipped]
) -> Iterator[Cells]:
    """Yield the rows that can be read; the others go to `skipped`."""
    lines = _split_lines(decode_text(table.read_bytes()))
    if table.suffix.lower() == ".jsonl":
        rows = _read_jsonl(lines)
    else:
        rows = _read_separated(table, lines, columns, looks_like_audio)
    for number, row in rows:
        where = f"{table.name}, line {number}"
        if isinstance(row, _RowProblem):
            skipped.append(Skipped(where, str(row)))
            continue
        try:
            audio, text, speaker, language, split = (
                _cell_text(row.get(name), name) for name in columns.names
            )
        except _RowProblem as problem:
            skipped.append(Skipped(where, str(problem)))
            continue
        yield Cells(number, audio.strip(), text, speaker.strip(), language.strip(), split.strip())


def decode_text(raw: bytes) -> str:
    """Decode UTF-8, or what a byte-order mark says; what is no character becomes a surrogate."""
    for mark, encoding in _BYTE_ORDER_MARKS:
        if raw.startswith(mark):
            return raw.decode(encoding, "replace").replace("\ufffd", "\udcff")
    return raw.decode("utf-8-sig", "surrogateescape")


def is_unicode(text: str) -> bool:
    """Whether a text can be written down again: it holds no half characters."""
    return _SURROGATE.search(text) is None


def show_name(name: str) -> str:
    """Return a file's name for a message, bytes that are no UTF-8 as \\xff."""
    return os.fsencode(name).decode("utf-8", "backslashreplace")


def clip(text: str) -> str:
    """Shorten a stranger's text for a message."""
    return text if len(text) <= LONGEST_SHOWN else text[:LONGEST_SHOWN] + "…"


def _split_lines(text: str) -> list[str]:
    """Split at line ends of all systems, and at nothing else that Unicode takes for one."""
    return text.replace("\r\n", "\n").replace("\r", "\n").split("\n")


def _cell_text(value: Any, column: str) -> str:
    """Return a cell as text; a number or truth value counts as it is written."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if not isinstance(value, str):
        raise _RowProblem(f"{column} is {'a list' if isinstance(value, list) else 'an object'}")
    if len(value) > LONGEST_CELL:
        raise _RowProblem(f"cell too long: {len(value):,} characters in {column}")
    if not is_unicode(value):
        raise _RowProblem("not UTF-8")
    if "\0" in value:
        raise _RowProblem(f"zero byte in {column}")
    return value


def _read_jsonl(lines: Sequence[str]) -> Iterator[tuple[int, dict[str, Any] | _RowProblem]]:
    # {"path": "a.wav", "text": "bon dia", "speaker": 7}
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            # Numbers stay as they are written: 7.50 is a name here, not a quantity.
            value = json.loads(
                line,
                parse_int=str,
                parse_float=str,
                parse_constant=str,
                object_pairs_hook=_unique_keys,
            )
        except _RowProblem as problem:
            yield number, problem
            continue
        except (ValueError, RecursionError):
            value = None
        yield number, value if isinstance(value, dict) else _RowProblem("not a JSON object")


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    unique = dict(pairs)
    if len(unique) < len(pairs):
        twice = next(key for key, count in Counter(key for key, _ in pairs).items() if count > 1)
        raise _RowProblem(f"two values of one name: {clip(twice)}")
    return unique


def _read_separated(
    table: Path, lines: list[str], columns: Columns, looks_like_audio: Callable[[str], bool]
) -> Iterator[tuple[int, dict[str, Any] | _RowProblem]]:
    """Read a CSV or TSV table; a quote that is never closed spoils its own line, not the rest."""
    delimiter, header, at = _read_header(table, lines, columns.needed)
    layout = _Layout(
        delimiter, len(header), header.index(columns.audio), table.suffix.lower() == ".csv"
    )
    while at < len(lines):
        number, span = at + 1, 1
        if lines[at]:
            try:
                cells, span = _read_row(lines, at, layout, looks_like_audio)
            except _RowProblem as problem:
                yield number, problem
            else:
                yield number, dict(zip(header, cells, strict=True))
        at += span


@dataclass(frozen=True)
class _Layout:
    """How the rows of a table are laid out."""

    delimiter: str
    num_columns: int
    audio_at: int
    is_quoted: bool


def _read_row(
    lines: list[str], at: int, layout: _Layout, looks_like_audio: Callable[[str], bool]
) -> tuple[list[str], int]:
    """Return the cells of the row that begins in a line, and how many lines it takes."""
    cells, span = _read_record(lines, at, layout.delimiter, is_quoted=layout.is_quoted)
    is_ragged = len(cells) != layout.num_columns
    if span > 1:
        # Cells may have line ends in them, but a row within a cell was swallowed by a quote.
        within = [line.split(layout.delimiter) for line in lines[at + 1 : at + span]]
        names = [row[layout.audio_at] for row in within if len(row) > layout.audio_at]
        if is_ragged or any(map(looks_like_audio, names)):
            raise _RowProblem(UNCLOSED_QUOTE)
    if is_ragged:
        raise _RowProblem(f"ragged row: {len(cells)} columns, not {layout.num_columns}")
    return cells, span


def _read_header(table: Path, lines: list[str], needed: set[str]) -> tuple[str, list[str], int]:
    """Return the delimiter, the names of the columns, and where the rows begin."""
    ending = table.suffix.lower()
    fullest: list[str] = []
    for delimiter in DELIMITERS[ending]:
        try:
            cells, span = _read_record(lines, 0, delimiter, is_quoted=ending == ".csv")
        except _RowProblem as problem:
            raise ArborvoxError(f"{table}, line 1: {problem}.") from None
        names = [name.strip() for name in cells]
        twice = [name for name, count in Counter(names).items() if name and count > 1]
        if needed <= set(names):
            if twice:
                raise ArborvoxError(
                    f"{table}, line 1: two columns are called {_show_names(twice)}; rename one."
                )
            return delimiter, names, span
        fullest = max(fullest, names, key=len)
    if "\0" in lines[0]:
        raise ArborvoxError(f"{table} is not UTF-8 text; save it as UTF-8.")
    raise ArborvoxError(
        f"{table}, line 1: no column {', '.join(sorted(needed - set(fullest)))} (it has "
        f"{_show_names(fullest)}); name yours with --audio-column and --text-column."
    )


def _show_names(names: list[str]) -> str:
    shown = ", ".join(clean_cell(clip(name)) for name in names[:MOST_NAMES_SHOWN])
    return shown + (", …" if len(names) > MOST_NAMES_SHOWN else "")


def _read_record(
    lines: list[str], at: int, delimiter: str, *, is_quoted: bool
) -> tuple[list[str], int]:
    """Return the cells of the record that begins in a line, and how many lines it takes."""
    line = lines[at]
    if not is_quoted or '"' not in line:
        return line.split(delimiter), 1
    # audio/1.wav,"he said ""no"", twice",s1
    rest = (f"{lines[index]}\n" for index in range(at, len(lines)))
    strict = csv.reader(rest, delimiter=delimiter, strict=True)
    try:
        return next(strict), strict.line_num
    except csv.Error:
        pass
    # Quotes that are not doubled are forgiven as long as they are closed in the same line.
    lenient = csv.reader([f"{line}\n", "\n"], delimiter=delimiter)
    try:
        cells = next(lenient)
    except csv.Error:
        raise _RowProblem(f"cell too long: {len(line):,} characters in the line") from None
    if lenient.line_num > 1:
        raise _RowProblem(UNCLOSED_QUOTE)
    return cells, 1
