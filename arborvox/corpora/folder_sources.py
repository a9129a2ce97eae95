"""The three shapes a user's recordings come in, each read to the same rows."""

import os
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

from arborvox.config import FolderCorpus
from arborvox.corpora.given_sets import Part, find_parts, kaldi_prefix, name_sets
from arborvox.corpora.kaldi_folders import read_kaldi
from arborvox.corpora.manifests import Skipped
from arborvox.corpora.rows import Row, inside, keep_unique, one_language, speaker_of, strip
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
    parts = find_parts(source, config)
    rows = chain.from_iterable(_read_part(part, source, config, skipped) for part in parts)
    return keep_unique(rows, skipped)


def _read_part(
    part: Part, source: Path, config: FolderCorpus, skipped: list[Skipped]
) -> Iterator[Row]:
    """Read a source, or one of the sets in it, by its shape."""
    if part.path.is_file():
        if part.path.suffix.lower() not in TABLE_ENDINGS:
            raise ArborvoxError(f"{part.path}: a table ends in .csv, .tsv or .jsonl.")
        return _read_table(part, config, skipped)
    if kaldi_prefix(part.path) is not None:
        return read_kaldi(part, source, config, skipped)
    return _read_pairs(part, source, config, skipped)


def _read_pairs(
    part: Part, source: Path, config: FolderCorpus, skipped: list[Skipped]
) -> Iterator[Row]:
    """Audio files, each with a text file of the same name beside it."""
    language = one_language(config, source)
    root, suffix = source.resolve(), config.text_suffix
    texts: dict[str, Path] = {}  # by path without an ending, as recordings will ask for them
    taken: set[str] = set()
    recordings = []
    # Links are not followed, so there are no loops.
    for folder, subfolders, names in os.walk(part.path.resolve()):
        subfolders.sort()
        for name in sorted(names):
            path = Path(folder) / name
            ending = path.suffix.lower()
            if ending in AUDIO_ENDINGS:
                recordings.append(path)
            elif name.lower().endswith(suffix.lower()):
                texts[str(path)[: -len(suffix)]] = path
    if not recordings:
        raise ArborvoxError(
            f"{part.path} holds no audio file, no wav.scp; to read a table, name the table itself."
        )
    for path in recordings:
        shown = show_name(str(path.relative_to(root)))
        stem = str(path.with_suffix(""))
        text_file = texts.pop(stem, None)
        if text_file is None:
            why = "belongs to another recording" if stem in taken else "is missing"
            skipped.append(Skipped(shown, f"no text: {show_name(path.stem)}{suffix} {why}"))
            continue
        taken.add(stem)
        text, problem = read_text(text_file)
        if problem:
            skipped.append(Skipped(shown, f"text file: {problem}"))
            continue
        identity = str(path.relative_to(root).with_suffix(""))
        speaker = speaker_of(path, "", config.speaker_from)
        yield Row(identity, path, text, language, shown, speaker, given=part.given)
    for text_file in texts.values():
        skipped.append(
            Skipped(show_name(str(text_file.relative_to(root))), "no audio of that name")
        )


def read_text(path: Path) -> tuple[str, str]:
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


def _read_table(part: Part, config: FolderCorpus, skipped: list[Skipped]) -> Iterator[Row]:
    """A CSV, TSV or JSONL table with a column each for the audio file and its text."""
    table, sets = part.path, name_sets(config)
    root = Path(config.audio_root).resolve() if config.audio_root else table.parent.resolve()
    columns = Columns(
        audio=config.audio_column,
        text=config.text_column,
        speaker=config.speaker_column,
        language=config.language_column,
        split=config.split_column,
    )
    without_language: list[int] = []
    has_language = config.language is not None
    for cells in read_cells(table, columns, _looks_like_audio, skipped):
        where = f"{table.name}, line {cells.line}"
        language = config.language or cells.language
        path = inside(root, strip(cells.audio, config))
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
            yield Row(
                id=identity,
                audio=path,
                text=cells.text,
                language=language,
                shown=shown,
                speaker=speaker_of(path, cells.speaker, config.speaker_from),
                given=part.given or sets.get(cells.split.casefold()),
                called=cells.split,
            )
    if without_language and not has_language:
        raise ArborvoxError(
            f"{table}, line {without_language[0]}: no language; give --language, or a column "
            f"{config.language_column}."
        )


def _looks_like_audio(name: str) -> bool:
    return Path(name.strip()).suffix.lower() in AUDIO_ENDINGS
