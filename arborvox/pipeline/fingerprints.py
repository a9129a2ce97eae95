"""Marks by which a stage knows whether anything that it was made from has changed."""

import os
from pathlib import Path
from typing import Any

from arborvox.corpora.folder_sources import AUDIO_ENDINGS
from arborvox.digests import digest_value


def digest_source(source: Path) -> str:
    """Return the mark of a corpus as its owner keeps it, without reading any of it.

    Tables and texts count with size and time; a folder counts with its time, which changes when
    a recording is added or removed. Recordings are never edited in place, and reading terabytes of
    them would cost more than the stage.
    """
    if source.is_file():
        return digest_value(_facts(source))
    facts: dict[str, Any] = {}
    for folder, subfolders, names in os.walk(source):
        subfolders.sort()
        here = Path(folder)
        inside = here.relative_to(source).as_posix()
        facts[inside] = here.stat().st_mtime_ns
        for name in names:
            if os.path.splitext(name)[1].lower() not in AUDIO_ENDINGS:  # noqa: PTH122 (10 x faster)
                facts[f"{inside}/{name}"] = _facts(here / name)
    return digest_value(facts)


def digest_listing(folder: Path) -> str:
    """Return the mark of a folder of recordings by their names and sizes."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return digest_value([[p.relative_to(folder).as_posix(), p.stat().st_size] for p in files])


def _facts(path: Path) -> list[int]:
    try:
        status = path.stat()
    except FileNotFoundError:  # a link to nowhere, as published corpora have some
        status = path.lstat()
    return [status.st_size, status.st_mtime_ns]


def flatten(value: Any, prefix: str = "") -> dict[str, Any]:
    """Return nested mappings as one with dotted keys."""
    if not isinstance(value, dict):
        return {prefix: value}
    flat: dict[str, Any] = {}
    for key, inner in value.items():
        flat |= flatten(inner, f"{prefix}.{key}" if prefix else str(key))
    return flat
