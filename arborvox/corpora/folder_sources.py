"""The three shapes a user's recordings come in, each read to the same rows."""

import csv
import io
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from arborvox.config import FolderCorpus
from arborvox.corpora.manifests import Skipped
from arborvox.errors import ArborvoxError
from arborvox.text.codes import check_language

AUDIO_ENDINGS = frozenset(
    ".wav .flac .mp3 .ogg .oga .opus .m4a .aac .mp4 .wma .webm .aif .aiff".split()
)
TABLE_ENDINGS = frozenset({".csv", ".tsv", ".jsonl"})


@dataclass(frozen=True, slots=True)
class Row:
    """One utterance as its source tells it, before text and audio are looked at."""

    id: str
    audio: Path
    text: str
    language: str
    shown: str  # how the list of left-out files names it
    speaker: str | None = None
    recording_id: str | None = None
    start_s: float = 0.0
    segment_s: float | None = None


def read_rows(source: Path, config: FolderCorpus, skipped: list[Skipped]) -> list[Row]:
    """Read a source of any of the three shapes; rows that are no good go to `skipped`."""
    if not source.exists():
        raise ArborvoxError(f"There is no file or folder {source}.")
    if source.is_file():
        if source.suffix.lower() not in TABLE_ENDINGS:
            raise ArborvoxError(f"{source}: a table ends in .csv, .tsv or .jsonl.")
        rows = _read_table(source, config, skipped)
    elif (source / "wav.scp").is_file():
        rows = _read_kaldi(source, config, skipped)
    else:
        rows = _read_pairs(source, config, skipped)
    unique: dict[str, Row] = {}
    for row in rows:
        if row.id in unique:
            skipped.append(Skipped(row.shown, f"duplicate row: {row.id} came before"))
        else:
            unique[row.id] = row
    return list(unique.values())


def _read_pairs(source: Path, config: FolderCorpus, skipped: list[Skipped]) -> Iterator[Row]:
    """Audio files, each with a text file of the same name beside it."""
    language = _one_language(config, source)
    root = source.resolve()
    texts: dict[Path, Path] = {}
    taken: set[Path] = set()
    recordings = []
    for folder, subfolders, names in os.walk(root):  # does not follow links: no loops
        subfolders.sort()
        for name in sorted(names):
            path = Path(folder) / name
            ending = path.suffix.lower()
            if ending in AUDIO_ENDINGS:
                recordings.append(path)
            elif ending == ".txt":
                texts[path.with_suffix("")] = path
    if not recordings:
        raise ArborvoxError(
            f"{source} holds no audio file, no wav.scp; to read a table, name the table itself."
        )
    for path in recordings:
        shown = str(path.relative_to(root))
        text_file = texts.pop(path.with_suffix(""), None)
        if text_file is None:
            why = "belongs to another recording" if path.with_suffix("") in taken else "is missing"
            skipped.append(Skipped(shown, f"no text: {path.stem}.txt {why}"))
            continue
        taken.add(path.with_suffix(""))
        try:
            text = text_file.read_text(encoding="utf-8-sig")
        except (UnicodeDecodeError, OSError) as error:
            reason = "not UTF-8" if isinstance(error, UnicodeDecodeError) else _os_reason(error)
            skipped.append(Skipped(shown, f"text file: {reason}"))
            continue
        yield Row(str(path.relative_to(root).with_suffix("")), path, text, language, shown)
    for text_file in texts.values():
        skipped.append(Skipped(str(text_file.relative_to(root)), "no audio of that name"))


def _read_table(table: Path, config: FolderCorpus, skipped: list[Skipped]) -> Iterator[Row]:
    """A CSV, TSV or JSONL table with a column each for the audio file and its text."""
    root = Path(config.audio_root).resolve() if config.audio_root else table.parent.resolve()
    for number, cells in _table_cells(table, config, skipped):
        where = f"{table.name}, line {number}"
        name = str(cells.get(config.audio_column) or "").strip()
        language = config.language or str(cells.get(config.language_column) or "").strip()
        if not name:
            skipped.append(Skipped(where, f"no {config.audio_column}"))
            continue
        if not language:
            raise ArborvoxError(
                f"{table}, line {number}: no language; give --language, or a column "
                f"{config.language_column}."
            )
        check_language(language, f"{table}, line {number}")
        path = _inside(root, name)
        if path is None:
            skipped.append(Skipped(where, f"path outside the corpus: {name}"))
            continue
        speaker = str(cells.get(config.speaker_column) or "").strip() or None
        text = str(cells.get(config.text_column) or "")
        identity = str(path.relative_to(root).with_suffix(""))
        yield Row(identity, path, text, language, str(path.relative_to(root)), speaker)


def _table_cells(
    table: Path, config: FolderCorpus, skipped: list[Skipped]
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield each row of a table as a mapping, with its line."""
    needed = {config.audio_column, config.text_column}
    raw = table.read_bytes()
    if table.suffix.lower() == ".jsonl":
        # {"path": "a.wav", "text": "bon dia", "speaker": "s1"}
        for number, line in enumerate(raw.splitlines(), start=1):
            if not line.strip():
                continue
            try:
                cells = json.loads(line)
            except (json.JSONDecodeError, UnicodeDecodeError):
                cells = None
            if isinstance(cells, dict):
                yield number, cells
            else:
                skipped.append(Skipped(f"{table.name}, line {number}", "not a JSON object"))
        return
    # A byte that is no UTF-8 spoils its own row, not the table.
    text = raw.decode("utf-8-sig", "surrogateescape")
    is_csv = table.suffix.lower() == ".csv"
    lines = io.StringIO(text)
    if is_csv:
        reader = csv.reader(lines)
    else:
        reader = csv.reader(lines, delimiter="\t", quoting=csv.QUOTE_NONE)
    header = next(reader, [])
    missing = sorted(needed - set(header))
    if missing:
        raise ArborvoxError(
            f"{table}, line 1: no column {', '.join(missing)} (it has {', '.join(header)}); name "
            "yours with --audio-column and --text-column."
        )
    try:
        for values in reader:
            where = f"{table.name}, line {reader.line_num}"
            if not values:
                continue
            if len(values) != len(header):
                reason = f"ragged row: {len(values)} columns, not {len(header)}"
                skipped.append(Skipped(where, reason))
            elif any("\udc80" <= char <= "\udcff" for value in values for char in value):
                skipped.append(Skipped(where, "not UTF-8"))
            else:
                yield reader.line_num, dict(zip(header, values, strict=True))
    except csv.Error as error:
        raise ArborvoxError(f"{table}, line {reader.line_num}: {error}.") from None


def _read_kaldi(source: Path, config: FolderCorpus, skipped: list[Skipped]) -> Iterator[Row]:
    """A Kaldi data folder: wav.scp, text, and where they are there, utt2spk and segments."""
    language = _one_language(config, source)
    recordings = _kaldi_table(source / "wav.scp", skipped)  # rec1 audio/rec1.wav
    texts = _kaldi_table(source / "text", skipped)  # utt1 bon dia
    speakers = _kaldi_table(source / "utt2spk", skipped) if (source / "utt2spk").is_file() else {}
    segments = None
    if (source / "segments").is_file():
        segments = _kaldi_table(source / "segments", skipped)  # utt1 rec1 0.50 2.75
    root = Path(config.audio_root).resolve() if config.audio_root else None
    for identity in segments if segments is not None else recordings:
        recording, start_s, segment_s = identity, 0.0, None
        if segments is not None:
            try:
                recording, start, end = segments[identity].split()
                start_s, segment_s = float(start), float(end) - float(start)
            except ValueError:
                skipped.append(Skipped(f"segments: {identity}", "not: recording start end"))
                continue
            if start_s < 0 or segment_s <= 0:
                skipped.append(Skipped(f"segments: {identity}", "ends before it starts"))
                continue
        entry = recordings.get(recording, "")
        if not entry:
            skipped.append(Skipped(f"segments: {identity}", f"no such recording: {recording}"))
        elif entry.endswith("|"):
            reason = "command in wav.scp: only files are read, nothing is run"
            skipped.append(Skipped(f"wav.scp: {recording}", reason))
        elif identity not in texts:
            skipped.append(Skipped(f"wav.scp: {identity}", "no text"))
        else:
            # Kaldi's own paths are relative to where its scripts ran, or absolute.
            path = _inside(root, entry) if root else (source / entry).resolve()
            if path is None:
                skipped.append(
                    Skipped(f"wav.scp: {recording}", f"path outside the corpus: {entry}")
                )
                continue
            yield Row(
                id=identity,
                audio=path,
                text=texts[identity],
                language=language,
                shown=entry if segments is None else f"{entry} ({identity})",
                speaker=speakers.get(identity),
                recording_id=recording,
                start_s=start_s,
                segment_s=segment_s,
            )


def _kaldi_table(path: Path, skipped: list[Skipped]) -> dict[str, str]:
    """Read `key rest of line` lines."""
    table: dict[str, str] = {}
    try:
        lines = path.read_bytes().splitlines()
    except FileNotFoundError:
        raise ArborvoxError(f"{path.parent} has a wav.scp but no {path.name}.") from None
    for number, line in enumerate(lines, start=1):
        where = f"{path.name}, line {number}"
        try:
            key, _, rest = line.decode().strip().partition(" ")
        except UnicodeDecodeError:
            skipped.append(Skipped(where, "not UTF-8"))
            continue
        if key in table:
            skipped.append(Skipped(where, f"duplicate row: {key} came before"))
        elif key:
            table[key] = rest.strip()
    return table


def _one_language(config: FolderCorpus, source: Path) -> str:
    if not config.language:
        raise ArborvoxError(f"{source} does not say its language: give --language, such as sah.")
    return config.language


def _inside(root: Path, name: str) -> Path | None:
    """Return the path below the root, or None where it points elsewhere."""
    path = Path(os.path.normpath(root / name))
    return path if path.is_relative_to(root) and "\0" not in name else None


def _os_reason(error: OSError) -> str:
    return (error.strerror or str(error)).lower()
