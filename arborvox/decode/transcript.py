"""Transcripts, and how they are written: text, JSON, and two kinds of subtitles."""

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass


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
    spoken = [segment for segment in transcript.segments if segment.text]
    return "".join(
        f"{number}\n{_clock(segment.start_s, ',')} --> {_clock(segment.end_s, ',')}\n"
        f"{segment.text}\n\n"
        for number, segment in enumerate(spoken, start=1)
    )


def to_vtt(transcript: Transcript) -> str:
    """Write WebVTT subtitles."""
    cues = "".join(
        f"{_clock(segment.start_s, '.')} --> {_clock(segment.end_s, '.')}\n"
        f"{_escape(segment.text)}\n\n"
        for segment in transcript.segments
        if segment.text
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
