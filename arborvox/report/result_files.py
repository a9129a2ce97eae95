"""The files of a result beside each other: Markdown to read, CSV and JSON to compute with."""

import csv
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from arborvox.console import say
from arborvox.files import write_json_atomic, write_text_atomic


def result_prefix(out: Path | None, folder: Path, name: str) -> Path:
    """Settle where results go: the prefix that was asked for, or the usual name in a folder."""
    if out is None:
        return folder / name
    return out / name if out.is_dir() else out


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
