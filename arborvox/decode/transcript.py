"""Transcripts, and how they are written: text, JSON, and two kinds of subtitles."""

import json
import textwrap
from collections.abc import Callable
from dataclasses import asdict, dataclass

# What people can read while it stands there: two lines of a usual width, for a few seconds.
CUE_LINE_CHARS, CUE_LINES = 42, 2
CUE_MAX_S = 7.0
CUE_PAUSE_S = 0.6  # a new cue after it
CUE_LINGER_S = 0.5  # a cue stays when its last word is over, if there is time


@dataclass(frozen=True)
class Word:
    """A word, or a phone, with its times in the recording; None where the model cannot tell."""

    text: str
    start_s: float | None
    end_s: float | None
    confidence: float


@dataclass(frozen=True)
class Segment:
    """What was said without a pause."""

    start_s: float
    end_s: float
    text: str
    confidence: float  # mean over tokens
    words: tuple[Word, ...]
    language: str | None = None


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
class Cue:
    """What stands on the screen at once."""

    start_s: float
    end_s: float
    text: str  # with line breaks


def cut_into_cues(transcript: Transcript) -> list[Cue]:
    """Cut segments into subtitles at pauses, and where they would be too long to read."""
    cues: list[Cue] = []
    for segment in transcript.segments:
        groups: list[list[tuple[str, float, float]]] = []
        for word in _timed_words(segment):
            if not groups or not _fits(groups[-1], word):
                groups.append([])
            groups[-1].append(word)
        for place, group in enumerate(groups):
            later = groups[place + 1][0][1] if place + 1 < len(groups) else segment.end_s
            start, end = group[0][1], group[-1][2]
            lines = textwrap.wrap(" ".join(text for text, _, _ in group), CUE_LINE_CHARS)
            cues.append(Cue(start, max(end, min(end + CUE_LINGER_S, later)), "\n".join(lines)))
    return cues


def _timed_words(segment: Segment) -> list[tuple[str, float, float]]:
    """Return words with their times; where the model cannot tell, by their share of the text."""
    timed = [
        (word.text, word.start_s, word.end_s)
        for word in segment.words
        if word.start_s is not None and word.end_s is not None
    ]
    if "".join(text for text, _, _ in timed) == segment.text.replace(" ", ""):
        return timed
    texts = segment.text.split()
    per_char = (segment.end_s - segment.start_s) / max(sum(map(len, texts)), 1)
    words, done = [], 0
    for text in texts:
        start = segment.start_s + done * per_char
        done += len(text)
        words.append((text, start, segment.start_s + done * per_char))
    return words


def _fits(group: list[tuple[str, float, float]], word: tuple[str, float, float]) -> bool:
    """Whether a word may stand in the same cue as those before it."""
    text = " ".join([*(text for text, _, _ in group), word[0]])
    return (
        len(textwrap.wrap(text, CUE_LINE_CHARS)) <= CUE_LINES
        and word[2] - group[0][1] <= CUE_MAX_S
        and word[1] - group[-1][2] < CUE_PAUSE_S
    )


def to_txt(transcript: Transcript) -> str:
    """Write one line for each segment."""
    return "".join(f"{segment.text}\n" for segment in transcript.segments if segment.text)


def to_json(transcript: Transcript) -> str:
    """Write everything that is known."""
    whole = {
        "text": transcript.text,
        "language": transcript.language,
        "duration_s": transcript.duration_s,
        "segments": [asdict(segment) for segment in transcript.segments],
    }
    return json.dumps(whole, ensure_ascii=False, indent=2) + "\n"


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


WRITERS: dict[str, Callable[[Transcript], str]] = {
    "txt": to_txt,
    "json": to_json,
    "srt": to_srt,
    "vtt": to_vtt,
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
