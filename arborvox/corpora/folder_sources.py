"""The three shapes a user's recordings come in, each read to the same rows."""

import math
import os
from collections.abc import Iterator
from pathlib import Path

from arborvox.config import FolderCorpus
from arborvox.corpora.manifests import Skipped
from arborvox.corpora.rows import Row, keep_unique
from arborvox.corpora.tables import (
    TABLE_ENDINGS,
    Columns,
    clip,
    decode_text,
    is_unicode,
    read_cells,
    show_name,
)
from arborvox.errors import ArborvoxError
from arborvox.text.codes import check_language

AUDIO_ENDINGS = frozenset(
    ".wav .flac .mp3 .ogg .oga .opus .m4a .aac .mp4 .wma .webm .aif .aiff".split()
)
# A transcript of one recording is not longer, in bytes.
LONGEST_TEXT = 1_000_000


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
    return keep_unique(rows, skipped)


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
        shown = show_name(str(path.relative_to(root)))
        text_file = texts.pop(path.with_suffix(""), None)
        if text_file is None:
            why = "belongs to another recording" if path.with_suffix("") in taken else "is missing"
            skipped.append(Skipped(shown, f"no text: {show_name(path.stem)}.txt {why}"))
            continue
        taken.add(path.with_suffix(""))
        text, problem = _read_text(text_file)
        if problem:
            skipped.append(Skipped(shown, f"text file: {problem}"))
            continue
        yield Row(str(path.relative_to(root).with_suffix("")), path, text, language, shown)
    for text_file in texts.values():
        skipped.append(
            Skipped(show_name(str(text_file.relative_to(root))), "no audio of that name")
        )


def _read_text(path: Path) -> tuple[str, str]:
    """Read a transcript; return it and what is wrong with it, if anything."""
    try:
        if not path.is_file():  # a pipe would keep us waiting for ever
            return "", "not a regular file"
        if path.stat().st_size > LONGEST_TEXT:
            return "", f"longer than {LONGEST_TEXT:,} bytes"
        text = decode_text(path.read_bytes())
    except OSError as error:
        return "", (error.strerror or str(error)).lower()
    return text, "" if is_unicode(text) else "not UTF-8"


def _read_table(table: Path, config: FolderCorpus, skipped: list[Skipped]) -> Iterator[Row]:
    """A CSV, TSV or JSONL table with a column each for the audio file and its text."""
    root = Path(config.audio_root).resolve() if config.audio_root else table.parent.resolve()
    columns = Columns(
        audio=config.audio_column,
        text=config.text_column,
        speaker=config.speaker_column,
        language=config.language_column,
    )
    without_language: list[int] = []
    has_language = config.language is not None
    for cells in read_cells(table, columns, _looks_like_audio, skipped):
        where = f"{table.name}, line {cells.line}"
        language = config.language or cells.language
        path = inside(root, cells.audio)
        has_language = has_language or bool(language)
        if not cells.audio:
            skipped.append(Skipped(where, f"no {config.audio_column}"))
        elif not cells.text.strip():
            skipped.append(Skipped(where, f"no {config.text_column}"))
        elif not language:
            without_language.append(cells.line)
            skipped.append(Skipped(where, f"no {config.language_column}"))
        elif path is None:
            skipped.append(Skipped(where, f"path outside the corpus: {clip(cells.audio)}"))
        else:
            check_language(language, f"{table}, line {cells.line}")
            identity = str(path.relative_to(root).with_suffix(""))
            shown = str(path.relative_to(root))
            yield Row(identity, path, cells.text, language, shown, cells.speaker or None)
    if without_language and not has_language:
        raise ArborvoxError(
            f"{table}, line {without_language[0]}: no language; give --language, or a column "
            f"{config.language_column}."
        )


def _looks_like_audio(name: str) -> bool:
    return Path(name.strip()).suffix.lower() in AUDIO_ENDINGS


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
            if not (math.isfinite(start_s) and math.isfinite(segment_s)):
                skipped.append(Skipped(f"segments: {identity}", "times are no numbers"))
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
            path = inside(root or source.resolve(), entry, below=root is not None)
            if path is None:
                reason = f"path outside the corpus: {clip(entry)}"
                skipped.append(Skipped(f"wav.scp: {recording}", reason))
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


def inside(root: Path, name: str, *, below: bool = True) -> Path | None:
    """Return a path as seen from the root; None where it must be `below` and is not, or is none."""
    path = Path(os.path.normpath(root / name))
    is_below = path != root and path.is_relative_to(root)
    return path if "\0" not in name and (is_below or not below) else None
