"""Recordings into a project: found, cut at their pauses, and shared out over the sets."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import soundfile

from arborvox import audio
from arborvox.config.choices import SpeakerFrom, VoiceActivity
from arborvox.console import progress, warn
from arborvox.corpora.folder_sources import read_text
from arborvox.corpora.rows import speaker_of
from arborvox.corpora.tables import show_name
from arborvox.decode.segments import SpeechSegment, split_at_pauses
from arborvox.decode.sound import BLOCK_S, CountedBlocks
from arborvox.decode.voice_activity import VOICE_ACTIVITIES
from arborvox.digests import digest_files
from arborvox.errors import ArborvoxError, one_line
from arborvox.files import atomic_folder, hold, path_below
from arborvox.project.held_out import Piece, choose_sets
from arborvox.project.items import NO_SPEAKER
from arborvox.project.ledger import Ledger, item_id
from arborvox.project.log import Event
from arborvox.project.project import Project, check_text
from arborvox.text.codes import check_language
from arborvox.transcribe import find_recordings

RATE = 16_000  # of the pieces; what is brought stays where it is, as it is
MOST_PIECE_S = 15.0  # what a person can hold in mind while typing
IMPORTED = "import"  # who confirmed the texts that came with recordings
TEXT_SUFFIX = ".txt"

_NO_NAME = re.compile(r'[/\\:<>"|?*\x00-\x1f\x7f]')
_LONGEST_NAME = 60  # characters


@dataclass(frozen=True)
class Added:
    """What became of recordings that were brought."""

    recordings: tuple[str, ...]
    num_items: int
    seconds: float
    num_known: int  # were there already
    skipped: tuple[tuple[str, str], ...]  # name, reason


@dataclass(frozen=True)
class Brought:
    """A recording that lies in the project's folder, but is not yet in its log."""

    id: str
    speaker: str | None
    duration_s: float
    digest: str
    spans: tuple[tuple[float, float], ...]
    text: str  # that came with it


def add_recordings(
    project: Project,
    sources: Sequence[Path],
    *,
    language: str | None = None,
    speaker: str | None = None,
    speaker_from: SpeakerFrom | None = None,
    vad: VoiceActivity = "energy",
) -> Added:
    """Bring files and folders of recordings into a project; those it has already stay as they are.

    The speaker is the one named, or else by rule, or else the sub-folder that a recording is in. A
    text beside a recording that needs no cutting counts as confirmed.
    """
    language = check_language(language or project.settings.language, "language")
    files = list(find_recordings(sources, beside=TEXT_SUFFIX))
    refusal = f"Another process is adding recordings to {project.folder}; wait for it."
    with hold(project.folder / ".adding.lock", refusal):
        known = {recording.digest for recording in project.recordings()}
        taken = {recording.id for recording in project.recordings()}
        brought: list[Brought] = []
        skipped: list[tuple[str, str]] = []
        num_known = 0
        with progress("cutting recordings", len(files)) as advance:
            for path, name in files:
                advance()
                try:
                    digest = digest_files(path)
                    if digest in known:
                        num_known += 1
                        continue
                    known.add(digest)
                    who = speaker or speaker_of(path, "", speaker_from)
                    if who is None and len(name.parts) > 1:
                        who = name.parent.name
                    who = None if who is None else one_line(show_name(who), _LONGEST_NAME)
                    home = _free_name(who, name.name, taken)
                    taken.add(home)
                    found = _bring(project.folder, path, home, who, digest, vad)
                except (audio.AudioProblem, ArborvoxError) as problem:
                    skipped.append((show_name(str(path)), str(problem)))
                    continue
                if found.spans:
                    brought.append(found)
                else:
                    skipped.append((show_name(str(path)), "nobody speaks in it"))
        for shown, reason in skipped:
            warn(f"{shown}: {reason}; left out.")
        project.add_events(lambda ledger: _events(ledger, brought, language))
    return Added(
        recordings=tuple(recording.id for recording in brought),
        num_items=sum(len(recording.spans) for recording in brought),
        seconds=sum(end - start for recording in brought for start, end in recording.spans),
        num_known=num_known,
        skipped=tuple(skipped),
    )


def _bring(
    folder: Path, path: Path, home: str, speaker: str | None, digest: str, vad: VoiceActivity
) -> Brought:
    """Cut a recording into pieces, which appear together in its folder."""
    spans: list[tuple[float, float]] = []
    blocks = CountedBlocks(audio.stream(path, RATE, BLOCK_S))
    with atomic_folder(path_below(folder / "audio", *home.split("/"))) as part:
        stretches = split_at_pauses(blocks, RATE, MOST_PIECE_S, VOICE_ACTIVITIES[vad]())
        for number, stretch in enumerate(stretches, start=1):
            _write_piece(part / Path(item_id("", number)[1:]).with_suffix(".flac"), stretch)
            end_s = stretch.start_s + len(stretch.samples) / RATE
            spans.append((round(stretch.start_s, 3), round(end_s, 3)))
        if not spans:
            (part / "empty").touch()
    return Brought(
        id=home,
        speaker=speaker,
        duration_s=round(blocks.num_samples / RATE, 3),
        digest=digest,
        spans=tuple(spans),
        text=_text_beside(path, len(spans)),
    )


def _write_piece(path: Path, stretch: SpeechSegment) -> None:
    samples = np.clip(stretch.samples, -1.0, 1.0)
    soundfile.write(path, samples, RATE, subtype="PCM_16", format="FLAC")


def _text_beside(path: Path, num_pieces: int) -> str:
    """Return the text that came with a recording, if it can be the text of its one piece."""
    beside = path.with_suffix(TEXT_SUFFIX)
    if not beside.is_file():
        return ""
    if num_pieces > 1:
        warn(
            f"{beside}: the recording was cut into {num_pieces} pieces, and nothing says which "
            "words belong to which; the text is left out (`arborvox align` finds it out)."
        )
        return ""
    text, problem = read_text(beside)
    try:
        if problem:
            raise ArborvoxError(problem)
        return check_text(text)
    except ArborvoxError as error:
        warn(f"{beside}: {error}; the text is left out.")
        return ""


def _free_name(speaker: str | None, name: str, taken: set[str]) -> str:
    """Return SPEAKER/NAME for a recording, in signs that every file system takes."""
    who, clean = _clean(speaker or NO_SPEAKER), _clean(name)
    known = {place.casefold() for place in taken}
    for number in range(1, len(taken) + 2):
        home = f"{who}/{clean}" if number == 1 else f"{who}/{clean}-{number}"
        if home.casefold() not in known:  # some disks do not tell A from a
            return home
    raise AssertionError  # one of so many is free


def _clean(name: str) -> str:
    shown = "".join(c if c.isprintable() else "_" for c in _NO_NAME.sub("_", show_name(name)))
    clean = shown[:_LONGEST_NAME].strip(". ") or "_"
    try:
        return path_below(Path(), clean).name
    except ArborvoxError:
        return f"_{clean[: _LONGEST_NAME // 4]}"  # a device of Windows, or signs of many bytes


def _events(ledger: Ledger, brought: Sequence[Brought], language: str) -> Iterator[Event]:
    """Yield what the log is told about new recordings; the sets are chosen here, once."""
    pieces = [Piece(b.id, b.speaker, start_s, end_s) for b in brought for start_s, end_s in b.spans]
    there = list(ledger.entries.values())
    known_s = sum(entry.end_s - entry.start_s for entry in there)
    test_s = sum(entry.end_s - entry.start_s for entry in there if entry.split == "test")
    sets = iter(choose_sets(pieces, known_s, test_s))
    for recording in brought:
        yield {
            "kind": "recording",
            "recording": recording.id,
            "speaker": recording.speaker,
            "language": language,
            "duration_s": recording.duration_s,
            "digest": recording.digest,
            "items": [[start_s, end_s, next(sets)] for start_s, end_s in recording.spans],
        }
        if recording.text:
            item = item_id(recording.id, 1)
            yield {"kind": "save", "item": item, "text": recording.text, "author": IMPORTED}
