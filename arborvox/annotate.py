"""A transcript as new tiers of a file that exists: everything else in the file stays as it is."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Protocol
from urllib.parse import unquote

from arborvox.annotations import (
    Annotation,
    Tier,
    add_grid_tiers,
    add_tiers,
    read_eaf,
    read_textgrid,
    spoken_spans,
)
from arborvox.annotations.safe_xml import read_xml
from arborvox.annotations.textgrid import read_grid_bytes
from arborvox.config import DecodeConfig
from arborvox.console import say, warn
from arborvox.decode.transcript import TierLayout, Transcript, transcript_tiers
from arborvox.errors import ArborvoxError
from arborvox.files import atomic_path
from arborvox.recognizer import load


class _TierFile(Protocol):
    """A file of tiers that can be given more of them."""

    @property
    def tiers(self) -> Sequence[Tier]:
        """All that it has."""

    def marked(self, tier: Tier) -> list[Annotation]:
        """Return the stretches that a tier marks."""

    def origin_s(self, recording: Path) -> float:
        """Return where in a recording the file's times begin."""

    def with_tiers(self, tiers: Sequence[Tier]) -> bytes:
        """Return the file's bytes with more tiers."""


class _EafFile:
    """An .eaf file of ELAN."""

    def __init__(self, path: Path) -> None:
        self._name, self._data = str(path), read_xml(path)
        self._document = read_eaf(self._data, self._name)
        self.tiers = self._document.tiers
        for problem in self._document.problems:
            warn(f"{path}: {problem}.")

    def marked(self, tier: Tier) -> list[Annotation]:
        return spoken_spans(self._document, tier)

    def origin_s(self, recording: Path) -> float:
        media = self._document.media
        named = (each for each in media if unquote(each.url).endswith(recording.name))
        return next((each.origin_s for each in named), 0.0)

    def with_tiers(self, tiers: Sequence[Tier]) -> bytes:
        return add_tiers(self._data, tiers, self._name)


class _GridFile:
    """A TextGrid of Praat; what is marked on a tier are the intervals that have a text."""

    def __init__(self, path: Path) -> None:
        self._name, self._data = str(path), read_grid_bytes(path)
        self.tiers = read_textgrid(self._data, self._name).tiers

    def marked(self, tier: Tier) -> list[Annotation]:
        return [annotation for annotation in tier.annotations if annotation.value.strip()]

    def origin_s(self, recording: Path) -> float:
        return 0.0

    def with_tiers(self, tiers: Sequence[Tier]) -> bytes:
        return add_grid_tiers(self._data, tiers, self._name)


TIER_FILES: dict[str, type[_EafFile] | type[_GridFile]] = {".eaf": _EafFile, ".textgrid": _GridFile}


def transcribe_into(
    run: Path,
    recording: Path,
    config: DecodeConfig,
    into: Path,
    layout: TierLayout,
    *,
    segments_from: str | None = None,
    out: Path | None = None,
) -> Path:
    """Transcribe a recording, or the stretches of a tier, into a file; return what was written.

    The file itself is replaced in one stroke, or left alone if `out` names a folder for the new
    one.
    """
    kind = TIER_FILES.get(into.suffix.lower())
    if kind is None:
        raise ArborvoxError(f"{into}: tiers are added to .eaf and .TextGrid files alone.")
    file: _TierFile = kind(into)
    spans = None
    if segments_from is not None:
        spans, participant = _spans_of(file, segments_from, into)
        layout = replace(layout, participant=layout.participant or participant)
    # A name that is taken is told before hours of work, not after.
    file.with_tiers(transcript_tiers(Transcript(0.0, ()), layout))
    recognizer = load(run, config)
    origin_s = file.origin_s(recording)
    if spans is None:
        transcript = recognizer.transcribe(recording)
    else:
        shifted = [(start_s + origin_s, end_s + origin_s) for start_s, end_s in spans]
        transcript = recognizer.transcribe_spans(recording, shifted)
    tiers = [_moved(tier, -origin_s) for tier in transcript_tiers(transcript, layout)]
    edited = file.with_tiers(tiers)
    target = into if out is None else out / into.name
    with atomic_path(target) as part:
        part.write_bytes(edited)
    say(f"wrote the tier {layout.name} into {target}")
    return target


def _moved(tier: Tier, by_s: float) -> Tier:
    """Return a tier whose times are later."""
    moved = (replace(a, start_s=a.start_s + by_s, end_s=a.end_s + by_s) for a in tier.annotations)
    return replace(tier, annotations=tuple(moved))


def _spans_of(file: _TierFile, name: str, into: Path) -> tuple[list[tuple[float, float]], str]:
    """Return the stretches that a tier marks, and whose they are."""
    tier = next((tier for tier in file.tiers if tier.name == name), None)
    if tier is None:
        there = ", ".join(each.name for each in file.tiers)
        raise ArborvoxError(f"{into} has no tier {name!r}; there are: {there}.")
    marked = [(span.start_s, span.end_s) for span in file.marked(tier)]
    spans = [(start_s, end_s) for start_s, end_s in marked if start_s < end_s]
    if len(spans) < len(marked):
        warn(f"{into}: {len(marked) - len(spans)} annotations of {name} have no length.")
    if not spans:
        raise ArborvoxError(f"{into}: nothing with a length and a text is on the tier {name!r}.")
    return spans, tier.participant
