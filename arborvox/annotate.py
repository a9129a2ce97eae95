"""A transcript as new tiers of a file that exists: everything else in the file stays as it is."""

from dataclasses import replace
from pathlib import Path
from urllib.parse import unquote

from arborvox.annotations import EafDocument, Tier, add_tiers, read_eaf, spoken_spans
from arborvox.annotations.safe_xml import read_xml
from arborvox.config import DecodeConfig
from arborvox.console import say, warn
from arborvox.decode.transcript import TierLayout, Transcript, transcript_tiers
from arborvox.errors import ArborvoxError
from arborvox.files import atomic_path
from arborvox.recognizer import load


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
    """Transcribe a recording, or the stretches of a tier, into an EAF; return what was written.

    The file itself is replaced in one stroke, or left alone if `out` names a folder for the new
    one.
    """
    if into.suffix.lower() != ".eaf":
        raise ArborvoxError(f"{into}: tiers are added to .eaf files alone.")
    data = read_xml(into)
    document = read_eaf(data, str(into))
    for problem in document.problems:
        warn(f"{into}: {problem}.")
    spans = None
    if segments_from is not None:
        spans, participant = _spans_of(document, segments_from, into)
        layout = replace(layout, participant=layout.participant or participant)
    # A name that is taken is told before hours of work, not after.
    add_tiers(data, transcript_tiers(Transcript(0.0, ()), layout), str(into))
    recognizer = load(run, config)
    # The file's times may begin somewhere within the recording.
    named = (media for media in document.media if unquote(media.url).endswith(recording.name))
    origin_s = next((media.origin_s for media in named), 0.0)
    if spans is None:
        transcript = recognizer.transcribe(recording)
    else:
        shifted = [(start_s + origin_s, end_s + origin_s) for start_s, end_s in spans]
        transcript = recognizer.transcribe_spans(recording, shifted)
    tiers = [_moved(tier, -origin_s) for tier in transcript_tiers(transcript, layout)]
    edited = add_tiers(data, tiers, str(into))
    target = into if out is None else out / into.name
    with atomic_path(target) as part:
        part.write_bytes(edited)
    say(f"wrote the tier {layout.name} into {target}")
    return target


def _moved(tier: Tier, by_s: float) -> Tier:
    """Return a tier whose times are later."""
    moved = (replace(a, start_s=a.start_s + by_s, end_s=a.end_s + by_s) for a in tier.annotations)
    return replace(tier, annotations=tuple(moved))


def _spans_of(
    document: EafDocument, name: str, into: Path
) -> tuple[list[tuple[float, float]], str]:
    """Return the stretches that a tier marks, and whose they are."""
    tier = document.tier(name)
    if tier is None:
        there = ", ".join(each.name for each in document.tiers)
        raise ArborvoxError(f"{into} has no tier {name!r}; there are: {there}.")
    marked = [(span.start_s, span.end_s) for span in spoken_spans(document, tier)]
    spans = [(start_s, end_s) for start_s, end_s in marked if start_s < end_s]
    if len(spans) < len(marked):
        warn(f"{into}: {len(marked) - len(spans)} annotations of {name} have no length.")
    if not spans:
        raise ArborvoxError(f"{into}: no annotation of the tier {name!r} has a length.")
    return spans, tier.participant
