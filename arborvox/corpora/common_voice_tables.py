"""The tables of a Common Voice release that stand beside its rows: what is looked up in them."""

from array import array
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
import numpy.typing as npt

from arborvox.corpora.tables import is_unicode
from arborvox.errors import ArborvoxError
from arborvox.manifest import SPLIT_NAMES

NOT_OFFICIAL = -3  # the fate of a row that is in none of the release's own splits


@dataclass(frozen=True)
class ClipColumns:
    """Where the columns are that we read."""

    count: int
    speaker: int
    path: int
    sentence: int


def read_header(file: BinaryIO) -> ClipColumns | None:
    """Find the columns by name; None where the table has no header at all."""
    names = file.readline().rstrip(b"\r\n").removeprefix(b"\xef\xbb\xbf").split(b"\t")
    if names == [b""]:
        return None
    for needed in (b"client_id", b"path", b"sentence"):
        if needed not in names:
            raise ArborvoxError(
                f"{file.name}, line 1: no column {needed.decode()}; a Common Voice table has "
                "client_id, path and sentence."
            )
        if names.count(needed) > 1:
            raise ArborvoxError(
                f"{file.name}, line 1: two columns are called {needed.decode()}; rename one."
            )
    index = names.index
    return ClipColumns(len(names), index(b"client_id"), index(b"path"), index(b"sentence"))


def read_phones(table: Path) -> dict[bytes, str]:
    """Read the phone transcriptions that a corpus has beside its sentences."""
    phones = {}
    with table.open("rb") as file:
        file.readline()
        # es_000012.flac⇥b w e n o s d i a s
        for line in file:
            path, _, transcription = line.partition(b"\t")
            # What is not UTF-8 is as good as missing.
            text = transcription.decode("utf-8", "surrogateescape")
            phones[file_name(path)] = " ".join(text.split()) if is_unicode(text) else ""
    return phones


def file_name(name: bytes) -> bytes:
    """Return the clip's file name; the oldest releases leave the ending out."""
    name = name.removeprefix(b"clips/")
    return name if b"." in name else name + b".mp3"


def as_numpy(numbers: "array[int]") -> npt.NDArray[np.int64]:
    return np.frombuffer(numbers, dtype=np.int64) if numbers else np.zeros(0, np.int64)


def read_durations(folder: Path, clips: npt.NDArray[np.int64]) -> npt.NDArray[np.float32]:
    """Look the rows' durations up in clip_durations.tsv, where the release has it."""
    durations = np.full(len(clips), np.nan, dtype=np.float32)
    table = folder / "clip_durations.tsv"
    if not table.is_file() or not len(clips):
        return durations
    keys, milliseconds = array("q"), array("d")
    with table.open("rb") as file:
        file.readline()
        # common_voice_ca_17698757.mp3⇥4272
        for line in file:
            name, _, value = line.rstrip(b"\r\n").partition(b"\t")
            try:
                milliseconds.append(float(value))
            except ValueError:
                continue  # the clip's own header will tell
            keys.append(hash(file_name(name)))
    found, position = look_up(as_numpy(keys), clips)
    values = np.frombuffer(milliseconds, dtype=np.float64) if keys else np.zeros(0)
    durations[found] = values[position] / 1000
    durations[~(durations > 0)] = np.nan
    return durations


def read_official(
    folder: Path, clips: npt.NDArray[np.int64], splits: tuple[str, ...]
) -> npt.NDArray[np.int8] | None:
    """Look up which of the release's own splits each row is in; None where one is not there."""
    if not splits:
        return None
    codes = np.full(len(clips), NOT_OFFICIAL, dtype=np.int8)
    for split in splits:
        table = folder / f"{split}.tsv"
        if not table.is_file():
            return None
        keys = array("q")
        with table.open("rb") as file:
            columns = read_header(file)
            for line in file:
                cells = line.rstrip(b"\r\n").split(b"\t")
                if columns and len(cells) == columns.count:
                    keys.append(hash(file_name(cells[columns.path])))
        found, _ = look_up(as_numpy(keys), clips)
        codes[found] = SPLIT_NAMES.index(split)
    return codes


def look_up(
    keys: npt.NDArray[np.int64], wanted: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.int64]]:
    """Find wanted keys: a mask of those that are there, and where each of those is."""
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    position = np.searchsorted(ordered, wanted)
    position[position == len(ordered)] = 0
    found = ordered[position] == wanted if len(ordered) else np.zeros(len(wanted), np.bool_)
    return found, order[position[found]]
