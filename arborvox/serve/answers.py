"""Transcripts in the shapes that clients ask for."""

import json
import zlib
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from arborvox.config.choices import ResponseFormat
from arborvox.decode.transcript import (
    Segment,
    TierLayout,
    Transcript,
    timed_words,
    to_eaf,
    to_srt,
    to_textgrid,
    to_txt,
    to_vtt,
)
from arborvox.serve.messages import Heard

UNKNOWN_LANGUAGE = "und"
_TIERS = TierLayout(parts=("words",))
JSON, TEXT, XML = "application/json", "text/plain; charset=utf-8", "application/xml"


@dataclass(frozen=True)
class Result:
    """All that was found in a recording."""

    duration_s: float
    heard: tuple[Heard, ...]
    language: str | None = None  # what the request said
    languages: tuple[str, ...] = ()  # what the model knows
    granularities: frozenset[str] = frozenset()

    @property
    def transcript(self) -> Transcript:
        """The text with its times."""
        return Transcript(self.duration_s, tuple(each.segment for each in self.heard))

    @property
    def told_language(self) -> str:
        """The language of most of it, as far as that is known."""
        only = self.languages[0] if len(self.languages) == 1 else None
        return self.transcript.language or self.language or only or UNKNOWN_LANGUAGE


def _json(result: Result) -> str:
    usage = {"type": "duration", "seconds": round(result.duration_s, 3)}
    return json.dumps({"text": result.transcript.text, "usage": usage}, ensure_ascii=False)


def _verbose_json(result: Result) -> str:
    """Write every field that OpenAI's typed client requires, and what was asked of ours."""
    granularities = result.granularities or {"segment"}
    whole: dict[str, Any] = {
        "task": "transcribe",
        "language": result.told_language,
        "duration": round(result.duration_s, 3),
        "text": result.transcript.text,
        "usage": {"type": "duration", "seconds": round(result.duration_s, 3)},
    }
    if "word" in granularities:
        whole["words"] = [word for each in result.heard for word in word_times(each.segment)]
    if "segment" in granularities:
        whole["segments"] = [_segment(n, each) for n, each in enumerate(result.heard)]
    return json.dumps(whole, ensure_ascii=False)


def _segment(number: int, heard: Heard) -> dict[str, Any]:
    segment = heard.segment
    data = segment.text.encode()
    fields: dict[str, Any] = {
        "id": number,
        "seek": round(segment.start_s * 100),  # OpenAI counts in hundredths
        "start": segment.start_s,
        "end": segment.end_s,
        "text": segment.text,
        "tokens": list(heard.tokens),
        "temperature": 0.0,
        "avg_logprob": heard.mean_log_prob,
        "compression_ratio": round(len(data) / len(zlib.compress(data)), 3),
        "no_speech_prob": 0.0,  # what is silent is not in a segment
        "confidence": segment.confidence,
    }
    if heard.alternatives:
        fields["alternatives"] = [{"text": t, "score": s} for t, s in heard.alternatives]
    if heard.choices:
        fields["units"] = [asdict(choice) for choice in heard.choices]
    return fields


def word_times(segment: Segment) -> list[dict[str, Any]]:
    """Return words with their times, as OpenAI writes them."""
    return [
        {"word": text, "start": round(start_s, 3), "end": round(end_s, 3)}
        for text, start_s, end_s in timed_words(segment)
    ]


ANSWERS: dict[ResponseFormat, tuple[str, Callable[[Result], str]]] = {
    "json": (JSON, _json),
    "text": (TEXT, lambda result: to_txt(result.transcript)),
    "srt": (TEXT, lambda result: to_srt(result.transcript)),
    "vtt": ("text/vtt; charset=utf-8", lambda result: to_vtt(result.transcript)),
    "verbose_json": (JSON, _verbose_json),
    "eaf": (XML, lambda result: to_eaf(result.transcript, _TIERS)),
    "textgrid": (TEXT, lambda result: to_textgrid(result.transcript, _TIERS)),
}


def event(value: dict[str, Any]) -> bytes:
    """Write a server-sent event."""
    return f"data: {json.dumps(value, ensure_ascii=False)}\n\n".encode()


def delta(before: Sequence[Heard], heard: Heard) -> str:
    """Return what a new segment adds to the text."""
    text = heard.segment.text
    spaced = bool(text) and any(each.segment.text for each in before)
    return f" {text}" if spaced else text
