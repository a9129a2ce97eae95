"""Transcripts are written as the formats want them."""

import json

import pytest
import regex

from arborvox.decode.transcript import (
    CUE_LINE_COLUMNS,
    CUE_LINES,
    CUE_MAX_S,
    Segment,
    Transcript,
    cut_into_cues,
    to_json,
    to_srt,
    to_txt,
    to_vtt,
)
from arborvox.decode.words import Word, cut_text, cut_word, num_columns

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
        assert max(map(len, lines)) <= CUE_LINE_COLUMNS
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


CHINESE = "今天天气很好我们一起去公园散步吧" * 9  # 144 characters, 28 s
THAI = "น้ำเป็นสิ่งที่จำเป็นต่อชีวิตของทุกคน" * 5
TAMIL = "தமிழ்மொழிஎன்பதுதிராவிடமொழிகளில்ஒன்று" * 5
FAMILIES = "👨‍👩‍👧‍👦" * 60


def _one_word(text: str, *, timed: bool) -> Segment:
    word = Word(text, 0.0, 28.0, 0.9) if timed else Word(text, None, None, 0.9)
    return Segment(0.0, 28.0, text, 0.9, (word,), None)


@pytest.mark.parametrize("timed", [True, False])
@pytest.mark.parametrize("text", [CHINESE, THAI, TAMIL, FAMILIES, "aa" + "o\u0301" * 200])
def test_text_without_spaces_can_be_read(text: str, timed: bool) -> None:
    cues = cut_into_cues(Transcript(28.0, (_one_word(text, timed=timed),)))
    assert "".join(cue.text.replace("\n", "") for cue in cues) == text
    assert len(cues) > 3
    clusters = [cluster for cue in cues for line in cue.text.split("\n") for cluster in _cut(line)]
    assert clusters == _cut(text), "no letter is parted from its marks"
    for cue, later in zip(cues, [*cues[1:], None], strict=True):
        lines = cue.text.split("\n")
        assert len(lines) <= CUE_LINES
        assert max(map(num_columns, lines)) <= CUE_LINE_COLUMNS
        assert 0 < cue.end_s - cue.start_s <= CUE_MAX_S + 0.5
        assert later is None or cue.end_s <= later.start_s + 1e-9


def _cut(text: str) -> list[str]:
    return list(regex.findall(r"\X", text))


def test_wide_letters_take_two_columns_and_marks_none() -> None:
    assert num_columns("abc") == 3
    assert num_columns("漢字ｶﾅ") == 6
    assert num_columns("น้ำ") == 2  # the tone stands on top, am beside


def test_subtitles_follow_the_times_of_the_characters() -> None:
    """A pause between two characters begins a new cue, as it does between two words."""
    words = [
        Word(c, 0.3 * n + (n >= 4), 0.3 * n + 0.3 + (n >= 4), 0.9)
        for n, c in enumerate("今天天气很好")
    ]
    segment = Segment(0.0, 2.8, "今天天气很好", 0.9, tuple(words), "zh")
    cues = cut_into_cues(Transcript(2.8, (segment,)))
    assert [cue.text for cue in cues] == ["今天天气", "很好"]
    assert cues[1].start_s == pytest.approx(2.2)


def test_spaces_that_are_written_stay_in_subtitles() -> None:
    segment = Segment(0.0, 3.0, "我用 arborvox 写字 ครับ", 0.9, (), None)
    assert cut_into_cues(Transcript(3.0, (segment,)))[0].text == segment.text


def test_words_of_scripts_without_spaces_are_what_a_reader_sees() -> None:
    assert cut_text("我用arborvox写") == ["我", "用", "arborvox", "写"]
    assert cut_text("น้ำใจ") == ["น้ำ", "ใ", "จ"]
    assert cut_text("தமிழ்") == ["தமிழ்"], "Tamil has spaces"
    assert cut_text("don't") == ["don't"]
    assert cut_text("コーヒー") == ["コ", "ー", "ヒ", "ー"]


def test_characters_have_the_times_of_their_units() -> None:
    units = [Word("น", 0.0, 0.1, 0.8), Word("้", 0.1, 0.2, 0.6), Word("ำใจ", 0.2, 0.5, 1.0)]
    found = list(cut_word(Word("น้ำใจ", 0.0, 0.5, 0.8), units))
    assert found == [
        Word("น้ำ", 0.0, 0.3, 0.8),
        Word("ใ", 0.3, 0.4, 1.0),
        Word("จ", 0.4, 0.5, 1.0),
    ]
    untimed = list(cut_word(Word("汉字", None, None, 0.5), [Word("?", None, None, 0.5)]))
    assert [(word.text, word.start_s) for word in untimed] == [("汉", None), ("字", None)]
    whole = Word("bon", 0.5, 1.0, 0.9)
    assert list(cut_word(whole, [])) == [whole]
