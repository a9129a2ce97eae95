"""Transcripts are written as the formats want them."""

import json

from arborvox.decode.transcript import Segment, Transcript, Word, to_json, to_srt, to_txt, to_vtt

TRANSCRIPT = Transcript(
    duration_s=3700.0,
    segments=(
        Segment(0.5, 2.25, "bon dia", 0.9, (Word("bon", 0.5, 1.0, 0.9),), "ca"),
        Segment(3.0, 4.0, "", 0.0, (), None),
        Segment(3661.0004, 3662.9999, "a < b & c", 0.5, (), "es"),
    ),
)


def test_text_has_a_line_for_each_segment() -> None:
    assert to_txt(TRANSCRIPT) == "bon dia\na < b & c\n"
    assert TRANSCRIPT.text == "bon dia a < b & c"


def test_json_holds_everything() -> None:
    whole = json.loads(to_json(TRANSCRIPT))
    assert whole["text"] == TRANSCRIPT.text
    assert whole["segments"][0]["words"] == [
        {"text": "bon", "start_s": 0.5, "end_s": 1.0, "confidence": 0.9}
    ]


def test_subrip_counts_what_was_said() -> None:
    assert to_srt(TRANSCRIPT) == (
        "1\n00:00:00,500 --> 00:00:02,250\nbon dia\n\n"
        "2\n01:01:01,000 --> 01:01:03,000\na < b & c\n\n"
    )


def test_webvtt_escapes_markup() -> None:
    assert to_vtt(TRANSCRIPT) == (
        "WEBVTT\n\n00:00:00.500 --> 00:00:02.250\nbon dia\n\n"
        "01:01:01.000 --> 01:01:03.000\na &lt; b &amp; c\n\n"
    )


def test_language_is_that_of_most_speech() -> None:
    assert TRANSCRIPT.language == "es"
    assert Transcript(0.0, ()).language is None
