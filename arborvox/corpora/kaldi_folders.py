"""Kaldi data folders: wav.scp, text, and where they are there, utt2spk and segments.

Their paths are relative to where somebody's scripts ran, or absolute on another machine: audio
that is not there is looked for by the end of its path, below the source alone.
"""

import math
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from arborvox.config import FolderCorpus
from arborvox.console import say
from arborvox.corpora.given_sets import RECORDINGS_NAME, Part, kaldi_prefix
from arborvox.corpora.manifests import Skipped
from arborvox.corpora.rows import Row, inside, one_language, speaker_of, strip
from arborvox.corpora.tables import clip
from arborvox.errors import ArborvoxError

# No path has more folders in it; a longer one is not searched for by its end.
MOST_FOLDERS = 50


def read_kaldi(
    part: Part, source: Path, config: FolderCorpus, skipped: list[Skipped]
) -> Iterator[Row]:
    """Read a Kaldi folder, which may be one of several in the source."""
    language = one_language(config, source)
    files = _Files(part.path, kaldi_prefix(part.path) or "", skipped)
    recordings = files.read(RECORDINGS_NAME)  # rec1 audio/rec1.wav
    texts = files.read("text")  # utt1 bon dia
    speakers = files.read("utt2spk", needed=False) or {}
    segments = files.read("segments", needed=False)  # utt1 rec1 0.50 2.75
    finder = _AudioFinder(part.path, source, config)
    for identity in segments if segments is not None else recordings or {}:
        recording, start_s, segment_s = identity, 0.0, None
        if segments is not None:
            span = _span_of(segments[identity])
            if isinstance(span, str):
                skipped.append(Skipped(f"segments: {identity}", span))
                continue
            recording, start_s, segment_s = span
        entry = (recordings or {}).get(recording, "")
        if not entry:
            skipped.append(Skipped(f"segments: {identity}", f"no such recording: {recording}"))
        elif entry.endswith("|"):
            reason = "command in wav.scp: only files are read, nothing is run"
            skipped.append(Skipped(f"wav.scp: {recording}", reason))
        elif identity not in (texts or {}):
            skipped.append(Skipped(f"wav.scp: {identity}", "no text"))
        else:
            path = finder.find(recording, entry)
            if isinstance(path, str):
                skipped.append(Skipped(f"wav.scp: {recording}", path))
                continue
            yield Row(
                id=identity,
                audio=path,
                text=(texts or {})[identity],
                language=language,
                shown=entry if segments is None else f"{entry} ({identity})",
                speaker=speaker_of(path, speakers.get(identity, ""), config.speaker_from),
                recording_id=recording,
                start_s=start_s,
                segment_s=segment_s,
                given=part.given,
            )
    finder.tell()


def _span_of(line: str) -> tuple[str, float, float] | str:
    """Return recording, start and length of a segment, or what is wrong with it."""
    try:
        recording, start, end = line.split()
        start_s, segment_s = float(start), float(end) - float(start)
    except ValueError:
        return "not: recording start end"
    if not (math.isfinite(start_s) and math.isfinite(segment_s)):
        return "times are no numbers"
    if start_s < 0 or segment_s <= 0:
        return "ends before it starts"
    return recording, start_s, segment_s


class _Files:
    """The tables of a folder, whose names may have something before them."""

    def __init__(self, folder: Path, prefix: str, skipped: list[Skipped]) -> None:
        self._folder = folder
        self._prefix = prefix
        self._skipped = skipped

    def read(self, name: str, *, needed: bool = True) -> dict[str, str] | None:
        """Read `key rest of line` lines; None where the table is not there and not needed."""
        path = self._folder / f"{self._prefix}{name}"
        if not path.is_file():
            path = self._folder / name
        if not path.is_file():
            if not needed:
                return None
            wanted = " or ".join(dict.fromkeys((f"{self._prefix}{name}", name)))
            first = f"{self._prefix}{RECORDINGS_NAME}"
            raise ArborvoxError(f"{self._folder} has a {first} but no {wanted}.")
        table: dict[str, str] = {}
        for number, line in enumerate(path.read_bytes().splitlines(), start=1):
            where = f"{path.name}, line {number}"
            try:
                key, *rest = line.decode().split(maxsplit=1)
            except UnicodeDecodeError:
                self._skipped.append(Skipped(where, "not UTF-8"))
                continue
            except ValueError:  # an empty line
                continue
            if key in table:
                self._skipped.append(Skipped(where, f"duplicate row: {key} came before"))
            else:
                table[key] = rest[0].strip() if rest else ""
        return table


class _AudioFinder:
    """Finds the files that a wav.scp names, and remembers what was taken off their paths."""

    def __init__(self, folder: Path, source: Path, config: FolderCorpus) -> None:
        self._root = Path(config.audio_root).resolve() if config.audio_root else None
        self._folder = folder.resolve()
        self._below = self._root or source.resolve()  # where a path's end may be looked for
        self._config = config
        self._taken_off: Counter[str] = Counter()
        self._last = 1  # most often as many folders are taken off as the time before
        self._entry_of: dict[Path, str] = {}

    def find(self, recording: str, entry: str) -> Path | str:
        """Return the path of a recording, or why it cannot be used."""
        name = strip(entry, self._config)
        path = inside(self._root or self._folder, name, below=self._root is not None)
        if path is not None and _is_file(path):
            return path
        found = self._find_by_end(name)
        if found is not None:
            first = self._entry_of.setdefault(found, entry)
            if first != entry:
                return f"two recordings end alike: {clip(entry)} and {clip(first)}"
            return found
        return path if path is not None else f"path outside the corpus: {clip(entry)}"

    def _find_by_end(self, name: str) -> Path | None:
        # /home/somebody/corpus/data/wav/x.wav is SOURCE/wav/x.wav
        folders = Path(name).parts
        if ".." in folders or len(folders) > MOST_FOLDERS:
            return None
        for count in dict.fromkeys((self._last, *range(len(folders)))):
            if count >= len(folders):
                continue
            path = inside(self._below, str(Path(*folders[count:])))
            if path is not None and _is_file(path):
                self._last = count
                self._taken_off[str(Path(*folders[:count])) if count else ""] += 1
                return path
        return None

    def tell(self) -> None:
        """Say what was taken off how many paths."""
        for prefix, count in self._taken_off.most_common(3):
            if prefix:
                say(f"{count:,} recordings found below {self._below} without {clip(prefix)}/")


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):  # a name that is too long
        return False
