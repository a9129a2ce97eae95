"""Transcripts, and how they are written: text, JSON, subtitles, and tiers for ELAN and Praat."""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from arborvox.annotations import Annotation, TextGrid, Tier, make_eaf, write_textgrid
from arborvox.annotations.tiers import Constraint
from arborvox.config.choices import DependentTier
from arborvox.decode.words import Word, cut_clusters, cut_text, num_columns

# What people can read while it stands there: two lines of a usual width, for a few seconds.
CUE_LINE_COLUMNS, CUE_LINES = 42, 2
CUE_MAX_S = 7.0
CUE_PAUSE_S = 0.6  # a new cue after it
CUE_LINGER_S = 0.5  # a cue stays when its last word is over, if there is time


@dataclass(frozen=True)
class Segment:
    """What was said without a pause."""

    start_s: float
    end_s: float
    text: str
    confidence: float  # mean over tokens
    words: tuple[Word, ...]
    language: str | None = None
    units: tuple[Word, ...] = ()  # what the words were written with


@dataclass(frozen=True)
class Transcript:
    """What was said in a recording."""

    duration_s: float
    segments: tuple[Segment, ...]

    @property
    def text(self) -> str:
        """All of it on one line."""
        return " ".join(segment.text for segment in self.segments if segment.text)

    @property
    def language(self) -> str | None:
        """The language that most of the speech is in, for models that tell languages apart."""
        seconds: dict[str, float] = {}
        for segment in self.segments:
            if segment.language is not None:
                length_s = segment.end_s - segment.start_s
                seconds[segment.language] = seconds.get(segment.language, 0.0) + length_s
        return max(seconds, key=lambda name: seconds[name]) if seconds else None


@dataclass(frozen=True)
class TierLayout:
    """Which tiers a file for ELAN or Praat gets."""

    name: str = "arborvox"
    parts: tuple[DependentTier, ...] = ()
    participant: str = ""


PLAIN = TierLayout()


@dataclass(frozen=True)
class Cue:
    """What stands on the screen at once."""

    start_s: float
    end_s: float
    text: str  # with line breaks


@dataclass(frozen=True)
class _Piece:
    """What no line break may part, with its times."""

    text: str
    start_s: float
    end_s: float
    spaced: bool  # whether a space stands before it


def cut_into_cues(transcript: Transcript) -> list[Cue]:
    """Cut segments into subtitles at pauses, and where they would be too long to read."""
    cues: list[Cue] = []
    for segment in transcript.segments:
        groups: list[list[_Piece]] = []
        for piece in _timed_pieces(segment):
            if not groups or not _fits(groups[-1], piece):
                groups.append([])
            groups[-1].append(piece)
        for place, group in enumerate(groups):
            later = groups[place + 1][0].start_s if place + 1 < len(groups) else segment.end_s
            start, end = group[0].start_s, group[-1].end_s
            lines = _fill_lines(group)
            cues.append(Cue(start, max(end, min(end + CUE_LINGER_S, later)), "\n".join(lines)))
    return cues


def _timed_pieces(segment: Segment) -> Iterator[_Piece]:
    """Yield words, or characters where there are no spaces, with spaces as the text has them."""
    rest = segment.text
    for text, start_s, end_s in timed_words(segment):
        spaced = rest[:1].isspace()
        rest = rest.lstrip()[len(text) :]
        pieces = _cut_wide(text)
        per_char = (end_s - start_s) / len(text)
        done = 0
        for piece in pieces:
            begin_s = start_s + done * per_char
            done += len(piece)
            piece_end_s = end_s if done == len(text) else start_s + done * per_char
            yield _Piece(piece, begin_s, piece_end_s, spaced)
            spaced = False


def _cut_wide(text: str) -> list[str]:
    """Cut a word at its characters where it has no other joints, or no line could hold it."""
    pieces: list[str] = []
    for piece in cut_text(text):
        pieces += [piece] if num_columns(piece) <= CUE_LINE_COLUMNS else cut_clusters(piece)
    return pieces


def timed_words(segment: Segment) -> list[tuple[str, float, float]]:
    """Return words with their times; where the model cannot tell, by their share of the text."""
    timed = [
        (word.text, word.start_s, word.end_s)
        for word in segment.words
        if word.text and word.start_s is not None and word.end_s is not None
    ]
    if _spells([text for text, _, _ in timed], segment.text):
        return timed
    texts = segment.text.split()
    per_char = (segment.end_s - segment.start_s) / max(sum(map(len, texts)), 1)
    words, done = [], 0
    for text in texts:
        start = segment.start_s + done * per_char
        done += len(text)
        words.append((text, start, segment.start_s + done * per_char))
    return words


def _spells(words: Sequence[str], text: str) -> bool:
    """Whether a text is these words, with or without spaces between them."""
    rest = text
    for word in words:
        rest = rest.lstrip()
        if not rest.startswith(word):
            return False
        rest = rest[len(word) :]
    return not rest.strip()


def _fits(group: list[_Piece], piece: _Piece) -> bool:
    """Whether a word may stand in the same cue as those before it."""
    return (
        len(_fill_lines([*group, piece])) <= CUE_LINES
        and piece.end_s - group[0].start_s <= CUE_MAX_S
        and piece.start_s - group[-1].end_s < CUE_PAUSE_S
    )


def _fill_lines(pieces: Sequence[_Piece]) -> list[str]:
    """Break a line before the piece that would make it too wide."""
    lines: list[str] = []
    for piece in pieces:
        longer = f"{lines[-1]}{' ' * piece.spaced}{piece.text}" if lines else piece.text
        if lines and num_columns(longer) <= CUE_LINE_COLUMNS:
            lines[-1] = longer
        else:
            lines.append(piece.text)
    return lines


def to_txt(transcript: Transcript) -> str:
    """Write one line for each segment."""
    return "".join(f"{segment.text}\n" for segment in transcript.segments if segment.text)


def to_json(transcript: Transcript, *, with_units: bool = False) -> str:
    """Write everything that is known; units where they are what was asked for."""
    whole = {
        "text": transcript.text,
        "language": transcript.language,
        "duration_s": transcript.duration_s,
        "segments": [_segment_fields(segment, with_units) for segment in transcript.segments],
    }
    return json.dumps(whole, ensure_ascii=False, indent=2) + "\n"


def _segment_fields(segment: Segment, with_units: bool) -> dict[str, Any]:
    fields = asdict(segment)
    if not with_units:
        del fields["units"]
    return fields


def to_srt(transcript: Transcript) -> str:
    """Write SubRip subtitles."""
    return "".join(
        f"{number}\n{_clock(cue.start_s, ',')} --> {_clock(cue.end_s, ',')}\n{cue.text}\n\n"
        for number, cue in enumerate(cut_into_cues(transcript), start=1)
    )


def to_vtt(transcript: Transcript) -> str:
    """Write WebVTT subtitles."""
    cues = "".join(
        f"{_clock(cue.start_s, '.')} --> {_clock(cue.end_s, '.')}\n{_escape(cue.text)}\n\n"
        for cue in cut_into_cues(transcript)
    )
    return f"WEBVTT\n\n{cues}"


def to_eaf(
    transcript: Transcript,
    layout: TierLayout = PLAIN,
    media: Path | None = None,
    folder: Path | None = None,
) -> str:
    """Write a file for ELAN, which is to lie in a folder."""
    tiers = transcript_tiers(transcript, layout)
    return make_eaf(tiers, media, datetime.now(UTC), folder).decode()


def to_textgrid(transcript: Transcript, layout: TierLayout = PLAIN) -> str:
    """Write a TextGrid for Praat, which finds a recording by its name."""
    tiers = transcript_tiers(transcript, layout)
    end_s = max([transcript.duration_s, *(segment.end_s for segment in transcript.segments)])
    return write_textgrid(TextGrid(0.0, end_s, tuple(tiers))).decode()


def transcript_tiers(transcript: Transcript, layout: TierLayout) -> list[Tier]:
    """Return a tier of what was said, and those that hang on it."""
    segments = [segment for segment in transcript.segments if segment.text]
    spoken = tuple(Annotation(s.start_s, s.end_s, s.text) for s in segments)
    tiers = [Tier(layout.name, spoken, layout.participant, "arborvox")]

    def add(part: DependentTier, found: list[Annotation], constraint: Constraint) -> None:
        name, kind = f"{layout.name} {part}", f"arborvox-{part}"
        tiers.append(Tier(name, tuple(found), layout.participant, kind, layout.name, constraint))

    if "words" in layout.parts:
        add("words", [a for s in segments for a in _timed_parts(s, s.words)], "Included_In")
    if "units" in layout.parts:
        add("units", [a for s in segments for a in _timed_parts(s, s.units)], "Included_In")
    if "confidence" in layout.parts:
        sure = [
            Annotation(s.start_s, s.end_s, f"{s.confidence:.2f}", place)
            for place, s in enumerate(segments)
        ]
        add("confidence", sure, "Symbolic_Association")
    return tiers


def _timed_parts(segment: Segment, parts: Sequence[Word]) -> Iterator[Annotation]:
    """Yield the parts whose times are known, within their segment and one after the other."""
    reached = segment.start_s
    for part in parts:
        if part.text and part.start_s is not None and part.end_s is not None:
            begin, end = max(part.start_s, reached), min(part.end_s, segment.end_s)
            if begin < end:
                yield Annotation(begin, end, part.text)
                reached = end


WRITERS: dict[str, Callable[[Transcript], str]] = {
    "txt": to_txt,
    "json": to_json,
    "srt": to_srt,
    "vtt": to_vtt,
    "eaf": to_eaf,
    "textgrid": to_textgrid,
}


def _escape(text: str) -> str:
    """Keep WebVTT from reading <unk> and its like as markup."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _clock(seconds: float, point: str) -> str:
    """Return 00:01:02,345 for 62.345 s."""
    millis = round(seconds * 1000)
    minutes, millis = divmod(millis, 60_000)
    hours, minutes = divmod(minutes, 60)
    return f"{hours:02d}:{minutes:02d}:{millis // 1000:02d}{point}{millis % 1000:03d}"
