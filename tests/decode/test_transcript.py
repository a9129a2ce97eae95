"""Transcripts are written as the formats want them."""

import json

import pytest

from arborvox.decode.transcript import (
    CUE_LINE_CHARS,
    CUE_LINES,
    CUE_MAX_S,
    Segment,
    Transcript,
    Word,
    cut_into_cues,
    to_json,
    to_srt,
    to_txt,
    to_vtt,
)

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


def _long_segment(*, timed: bool) -> Segment:
    """A minute of words of half a second, with a pause of a second after the tenth."""
    words = []
    for number in range(100):
        start = 0.5 * number + (1.0 if number >= 10 else 0.0)
        times = (start, start + 0.4) if timed else (None, None)
        words.append(Word(f"word{number}", *times, 0.9))
    text = " ".join(word.text for word in words)
    return Segment(0.0, 52.0, text, 0.9, tuple(words), None)


@pytest.mark.parametrize("timed", [True, False])
def test_subtitles_can_be_read(timed: bool) -> None:
    segment = _long_segment(timed=timed)
    cues = cut_into_cues(Transcript(52.0, (segment,)))
    assert " ".join(cue.text.replace("\n", " ") for cue in cues) == segment.text
    for cue, later in zip(cues, [*cues[1:], None], strict=True):
        lines = cue.text.split("\n")
        assert len(lines) <= CUE_LINES
        assert max(map(len, lines)) <= CUE_LINE_CHARS
        assert 0.4 < cue.end_s - cue.start_s <= CUE_MAX_S + 0.5
        assert later is None or cue.end_s <= later.start_s + 1e-9


def test_a_pause_begins_a_new_subtitle() -> None:
    cues = cut_into_cues(Transcript(52.0, (_long_segment(timed=True),)))
    after = next(cue for cue in cues if "word10" in cue.text.split())
    assert after.text.startswith("word10")
    assert after.start_s == 6.0
    assert cues[cues.index(after) - 1].end_s == 5.4  # lingers after 4.9


def test_language_is_that_of_most_speech() -> None:
    assert TRANSCRIPT.language == "es"
    assert Transcript(0.0, ()).language is None
