"""One language of a Common Voice release, row by row: judged when read, written if it stays."""

import os
from array import array
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from gzip import GzipFile
from io import BytesIO
from itertools import islice
from pathlib import Path

import numpy as np
import numpy.typing as npt

from arborvox.config import ReleaseCorpus
from arborvox.corpora.checks import count_units
from arborvox.corpora.common_voice_tables import (
    NOT_OFFICIAL,
    ClipColumns,
    as_numpy,
    file_name,
    look_up,
    read_durations,
    read_header,
    read_official,
    read_phones,
)
from arborvox.corpora.espeak import PhoneReader
from arborvox.corpora.manifests import (
    NOT_OFFICIAL_REASON,
    NOT_SAMPLED_REASON,
    NOT_VALIDATED_REASON,
    SENTENCE_REASON,
    SPEAKER_REASON,
    Skipped,
    reason_kind,
)
from arborvox.corpora.sampling import SENTENCE_ELSEWHERE, SPEAKER_ELSEWHERE, TRAIN, dense_ids
from arborvox.files import clean_cell, open_gzip_reproducible, path_below
from arborvox.manifest import SPLIT_NAMES, Utterance, cut_line
from arborvox.text import Normalizer
from arborvox.text.codes import file_stem
from arborvox.text.look_alikes import LetterCounter, LookAlike, LookAlikes

# Fates below zero, beside SENTENCE_ELSEWHERE: why a row is in no split.
NOT_SAMPLED, REFUSED = -2, -4
OFFICIAL_SETS = {"official": SPLIT_NAMES, "official-test": ("test",)}
PACK_BYTES = 1 << 18
BLOCK_ROWS = 1 << 16
# Look-alikes are told from so many sentences; to be unified, they are looked for in all.
MOST_SENTENCES_COUNTED = 50_000
LEFT_OUT = {
    SENTENCE_ELSEWHERE: SENTENCE_REASON,
    SPEAKER_ELSEWHERE: SPEAKER_REASON,
    NOT_SAMPLED: NOT_SAMPLED_REASON,
    NOT_OFFICIAL: NOT_OFFICIAL_REASON,
}


@dataclass
class LanguageScan:
    """What the first reading leaves of a language: a few numbers a row, and its rows on disk."""

    language: str
    folder: Path
    rows_file: Path
    fates: npt.NDArray[np.int8]  # a split code, or why not
    speakers: npt.NDArray[np.int64]  # dense ids
    sentences: npt.NDArray[np.int64]
    durations_s: npt.NDArray[np.float32]  # NaN where not yet known
    rates: npt.NDArray[np.int32]
    channels: npt.NDArray[np.int8]
    num_units: npt.NDArray[np.int32]  # how long the texts are
    official: npt.NDArray[np.int8] | None
    durations_from: str
    skipped: list[Skipped] = field(default_factory=list)
    look_alikes: tuple[LookAlike, ...] = ()

    def refuse(self, row: int, file: str, reason: str) -> None:
        """Take a row out and remember why."""
        self.fates[row] = REFUSED
        self.skipped.append(Skipped(file, reason))

    def clip(self, name: str) -> str:
        """Return a clip's name as the list of left-out files gives it."""
        return f"{self.language}/clips/{name}"

    def names(self, wanted: npt.NDArray[np.bool_]) -> list[str]:
        """Return the file names of the wanted rows."""
        if not wanted.any():
            return []
        with self.rows_file.open("rb") as rows:
            return [
                line.partition(b"\t")[0].decode()
                for line, take in zip(rows, wanted, strict=True)
                if take
            ]

    def numbers(self) -> Iterator[tuple[int, int, int, float]]:
        """Yield fate, rate, channels and duration of each row.

        In blocks of plain numbers: single look-ups in NumPy arrays cost more than the rows' JSON.
        """
        for start in range(0, len(self.fates), BLOCK_ROWS):
            block = slice(start, start + BLOCK_ROWS)
            columns = (self.fates, self.rates, self.channels, self.durations_s)
            yield from zip(*(column[block].tolist() for column in columns), strict=True)


def scan_language(language: str, folder: Path, work: Path, config: ReleaseCorpus) -> LanguageScan:
    """Judge every row of validated.tsv; audio is only looked for, not opened."""
    rows_file = path_below(work, f"{file_stem(language)}.rows")
    skipped: list[Skipped] = []
    fates, clips = array("b"), array("q")
    speakers, sentences, num_units = array("q"), array("q"), array("i")
    look_alikes = _find_look_alikes(folder / "validated.tsv", config)
    with (
        (folder / "validated.tsv").open("rb") as file,
        rows_file.open("wb") as rows,
        ExitStack() as stack,
    ):
        columns = read_header(file)
        if columns is None:
            skipped.append(Skipped(f"{language}/validated.tsv", "no header row"))
        else:
            judge = stack.enter_context(_Judge(language, folder, columns, look_alikes, config))
            for number, line in enumerate(file, start=2):
                name, speaker, text, problem = judge(line)
                if problem:
                    clip = f"{language}/clips/{_show(name)}"
                    row = f"{language}/validated.tsv, line {number}"
                    skipped.append(Skipped(clip if name else row, problem))
                fates.append(REFUSED if problem else TRAIN)
                clips.append(hash(name))
                speakers.append(hash(speaker))
                sentences.append(hash(text))
                num_units.append(count_units(text.decode(), config))
                rows.write(b"%b\t%b\t%b\n" % (name, speaker, text))
    keys = as_numpy(clips)
    has_durations = (folder / "clip_durations.tsv").is_file()
    scan = LanguageScan(
        language=language,
        folder=folder,
        rows_file=rows_file,
        fates=np.array(fates, dtype=np.int8),
        speakers=dense_ids(as_numpy(speakers)),
        sentences=dense_ids(as_numpy(sentences)),
        durations_s=read_durations(folder, keys),
        rates=np.zeros(len(keys), np.int32),
        channels=np.ones(len(keys), np.int8),
        num_units=np.array(num_units, dtype=np.int32),
        official=read_official(folder, keys, OFFICIAL_SETS.get(config.split, ())),
        durations_from="clip_durations.tsv" if has_durations else "audio",
        skipped=skipped,
        look_alikes=look_alikes.found,
    )
    _refuse_duplicates(scan, keys)
    _compare_with_listing(scan, keys)
    return scan


def write_language(scan: LanguageScan, work: Path) -> dict[str, int]:
    """Write the rows that stay and the list of those that do not; return the counts by reason."""
    counts = Counter(reason_kind(row.reason) for row in scan.skipped)
    clips = scan.folder / "clips"
    files = [BytesIO() for _ in SPLIT_NAMES]
    stem = file_stem(scan.language)
    with ExitStack() as stack:
        rows = stack.enter_context(scan.rows_file.open("rb"))
        left_out = stack.enter_context(path_below(work, f"{stem}.skipped").open("wb"))
        packed = [
            stack.enter_context(open_gzip_reproducible(path_below(work, f"{stem}.{split}")))
            for split in SPLIT_NAMES
        ]
        for skipped in scan.skipped:
            left_out.write(f"{clean_cell(skipped.file)}\t{clean_cell(skipped.reason)}\n".encode())
        for line, (fate, rate, channels, duration_s) in zip(rows, scan.numbers(), strict=True):
            if fate == REFUSED:
                continue
            name, speaker, text = line[:-1].decode("utf-8", "replace").split("\t")
            if fate < 0:
                counts[LEFT_OUT[fate]] += 1
                left_out.write(f"{clean_cell(scan.clip(name))}\t{LEFT_OUT[fate]}\n".encode())
                continue
            utterance = Utterance(
                id=f"{scan.language}-{name.rpartition('.')[0]}",
                audio=f"{clips}/{name}",
                language=scan.language,
                text=text,
                sampling_rate=rate,
                num_samples=round(duration_s * rate),
                num_channels=channels,
                speaker=speaker or None,
            )
            files[fate].write(cut_line(utterance).encode())
            if files[fate].tell() > PACK_BYTES:
                _flush(files[fate], packed[fate])
        for file, target in zip(files, packed, strict=True):
            _flush(file, target)
    return dict(counts)


def _flush(lines: BytesIO, packed: GzipFile) -> None:
    """Pack the lines gathered so far; line by line, packing would take twice as long."""
    packed.write(lines.getvalue())
    lines.seek(0)
    lines.truncate()


def _find_look_alikes(table: Path, config: ReleaseCorpus) -> LookAlikes:
    """Find letters that look alike in the sentences; those of phones are not looked at."""
    counter = LetterCounter()
    with table.open("rb") as file:
        columns = read_header(file) if config.unit == "text" else None
        most = None if config.look_alikes == "unify" else MOST_SENTENCES_COUNTED
        for line in islice(file, most if columns else 0):
            cells = line.rstrip(b"\r\n").split(b"\t")
            if columns and len(cells) == columns.count:
                counter.add(cells[columns.sentence].decode("utf-8", "ignore"))
    return counter.find()


class _Judge:
    """Looks at one row of validated.tsv and says what is wrong with it, if anything."""

    def __init__(
        self,
        language: str,
        folder: Path,
        columns: ClipColumns,
        look_alikes: LookAlikes,
        config: ReleaseCorpus,
    ) -> None:
        self.columns = columns
        self.unify = look_alikes.unify if config.look_alikes == "unify" else None
        self.normalizer = Normalizer(
            language, digits=config.digits, foreign=config.foreign, harakat=config.harakat
        )
        self.phones: dict[bytes, str] | None = None
        self.reader: PhoneReader | None = None
        if config.unit == "phones":
            table = folder / "phones.tsv"
            if table.is_file():
                self.phones = read_phones(table)
            else:
                self.reader = PhoneReader(language)

    def __enter__(self) -> "_Judge":
        return self

    def __exit__(self, *_: object) -> None:
        if self.reader is not None:
            self.reader.__exit__()

    def __call__(self, line: bytes) -> tuple[bytes, bytes, bytes, str]:
        """Return file name, speaker, normalized text and problem; no name: the row is no good."""
        # client_id⇥path⇥sentence⇥up_votes⇥…, no quoting; newer releases have more columns.
        columns = self.columns
        cells = line.rstrip(b"\r\n").split(b"\t")
        if len(cells) != columns.count:
            return b"", b"", b"", f"ragged row: {len(cells)} columns, not {columns.count}"
        path, speaker = cells[columns.path], cells[columns.speaker]
        problem = _path_problem(path)
        if problem:
            return b"", speaker, b"", problem
        name = file_name(path)
        try:
            written = cells[columns.sentence].decode()
        except UnicodeDecodeError:
            return name, speaker, b"", "sentence is not UTF-8"
        if self.phones is not None:
            text = self.phones.get(name, "")
            return name, speaker, text.encode(), "" if text else "no phones in phones.tsv"
        if self.unify is not None:
            written = self.unify(written)
        text, problem = self.normalizer(written)
        if self.reader is not None and not problem:
            text = " ".join(self.reader.read(written))
            problem = "" if text else "nothing to pronounce"
        return name, speaker, text.encode(), problem


def _path_problem(name: bytes) -> str:
    """Say what is wrong with a path cell, or nothing."""
    if not name:
        return "no path"
    bare = name.removeprefix(b"clips/")
    if b"/" in bare or b"\\" in bare or bare in (b".", b"..") or b"\0" in bare:
        return f"path outside the corpus: {_show(name)}"
    try:
        name.decode()
    except UnicodeDecodeError:
        return "path is not UTF-8"
    return ""


def _show(name: bytes) -> str:
    return name.decode("utf-8", "backslashreplace")


def _refuse_duplicates(scan: LanguageScan, clips: npt.NDArray[np.int64]) -> None:
    """Keep the first row of a clip only."""
    _, first = np.unique(clips, return_index=True)
    again = np.ones(len(clips), np.bool_)
    again[first] = False
    again &= scan.fates != REFUSED
    for row, name in zip(np.flatnonzero(again), scan.names(again), strict=True):
        line = f"{scan.language}/validated.tsv, line {row + 2}"
        scan.refuse(int(row), line, f"duplicate row: {name} came before")


def _compare_with_listing(scan: LanguageScan, clips: npt.NDArray[np.int64]) -> None:
    """Refuse rows whose clip is not there, and list clips that no row names."""
    folder = scan.folder / "clips"
    listed = array("q")
    if folder.is_dir():
        with os.scandir(folder) as entries:
            for entry in entries:
                listed.append(hash(os.fsencode(entry.name)))
    keys = as_numpy(listed)
    present, _ = look_up(keys, clips)
    missing = (scan.fates != REFUSED) & ~present
    for row, name in zip(np.flatnonzero(missing), scan.names(missing), strict=True):
        scan.refuse(int(row), scan.clip(name), "no such file")
    named, _ = look_up(clips, keys)
    stray = set(keys[~named].tolist())
    if stray:
        with os.scandir(folder) as entries:
            names = sorted(
                _show(os.fsencode(e.name)) for e in entries if hash(os.fsencode(e.name)) in stray
            )
        scan.skipped += [Skipped(scan.clip(name), NOT_VALIDATED_REASON) for name in names]
