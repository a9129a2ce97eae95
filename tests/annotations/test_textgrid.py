"""Praat's TextGrids: both text forms and all encodings are one, and broken ones are told."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "hostile"))
from budgets import examples
from hypothesis import given
from hypothesis import strategies as st
from made_up_tiers import grids, tier_sets

from arborvox.annotations import Annotation, TextGrid, Tier, read_textgrid, write_textgrid
from arborvox.annotations.textgrid import MOST_MIB
from arborvox.errors import ArborvoxError

# As Praat writes it, and with what it passes over.
LONG = """File type = "ooTextFile"
Object class = "TextGrid"

xmin = 0 
xmax = 1.5 
tiers? <exists> 
size = 2 
item []: 
    item [1]:
        class = "IntervalTier" 
        name = "words" 
        xmin = 0 
        xmax = 1.5 
        intervals: size = 2 
        intervals [1]:
            xmin = 0 
            xmax = 0.25 
            text = "" 
        intervals [2]:
            xmin = 0.25 
            xmax = 1.5 
            text = "say ""ah"" 5
<exists>" 
    item [2]:
        class = "TextTier" 
        name = "bell" 
        xmin = 0 
        xmax = 1.5 
        points: size = 1 
        points [1]:
            number = 1.0e-1 
            mark = "ding" 
"""  # noqa: W291
SHORT = """File type = "ooTextFile short"
"TextGrid"
0
1.5 ! of a second: 7 "no"
<exists>
2
"IntervalTier" "words" 0 1.5
2 0 0.25 ""
0.25 1.5 "say ""ah"" 5
<exists>"
"TextTier" "bell" 0 1.5 1 0.1 "ding"
"""
GRID = TextGrid(
    0.0,
    1.5,
    (
        Tier("words", (Annotation(0, 0.25, ""), Annotation(0.25, 1.5, 'say "ah" 5\n<exists>'))),
        Tier("bell", (Annotation(0.1, 0.1, "ding"),), is_point=True),
    ),
)


@pytest.mark.parametrize("text", [LONG, SHORT], ids=["long", "short"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_both_forms_in_any_encoding_are_one(text: str, encoding: str) -> None:
    assert read_textgrid(text.encode(encoding)) == GRID


@examples(200, 2000)
@given(grid=grids(), short=st.booleans(), encoding=st.sampled_from(["utf-8", "utf-16"]))
def test_what_is_written_comes_back(grid: TextGrid, short: bool, encoding: str) -> None:
    assert read_textgrid(write_textgrid(grid, short=short, encoding=encoding)) == grid


@examples(100, 1000)
@given(tiers=tier_sets())
def test_intervals_follow_each_other_whatever_overlaps(tiers: tuple[Tier, ...]) -> None:
    found = read_textgrid(write_textgrid(TextGrid(0.0, 7200.0, tiers)))
    for tier in found.tiers:
        edges = [0.0, *(annotation.end_s for annotation in tier.annotations)]
        assert [annotation.start_s for annotation in tier.annotations] == edges[:-1]
        assert edges[-1] == 7200.0
        assert all(annotation.start_s < annotation.end_s for annotation in tier.annotations)


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ('"ooTextFile"', '"Sound"', "line 2: not a TextGrid"),
        ("size = 2 \nitem", "size = 9 \nitem", "the file ends where a text in quotes"),
        ("size = 2 \nitem", "size = 1e300 \nitem", "line 7: a count should stand here"),
        ("size = 2 \nitem", "size = 1.5 \nitem", "line 7: a count should stand here"),
        ("xmax = 0.25", "xmax = <exists>", "line 17: a number should stand here"),
        ("xmax = 0.25", "xmax = 1e999", "line 17: a time that no recording has"),
        ('"IntervalTier"', '"Spectrum"', "a tier is an IntervalTier or a TextTier"),
        ('"ding"', '"ding', "the file ends where a text in quotes"),
        ('"ding"', f'"{"x" * 100_001}"', "a text of more than 100,000 characters"),
    ],
)
def test_what_is_wrong_is_told_with_its_line(old: str, new: str, told: str) -> None:
    with pytest.raises(ArborvoxError) as caught:
        read_textgrid(LONG.replace(old, new, 1).encode(), "x.TextGrid")
    assert str(caught.value).startswith("x.TextGrid, line ")
    assert told in str(caught.value)


def test_other_encodings_binary_and_huge_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ArborvoxError, match="neither UTF-8 nor UTF-16"):
        read_textgrid(LONG.replace("ding", "dïng").encode("latin-1"))
    with pytest.raises(ArborvoxError, match="save it as a text file"):
        read_textgrid(b"ooBinaryFile\x08TextGrid")
    path = tmp_path / "x.TextGrid"
    with path.open("wb") as file:
        file.truncate(1 << 30)
    with pytest.raises(ArborvoxError, match=rf"is larger than {MOST_MIB} MiB"):
        read_textgrid(path)


@examples(200, 2000)
@given(
    cuts=st.lists(
        st.tuples(st.integers(0, len(LONG)), st.integers(0, 40), st.text(max_size=6)),
        min_size=1,
        max_size=3,
    )
)
def test_a_torn_file_is_read_or_refused(cuts: list[tuple[int, int, str]]) -> None:
    text = LONG
    for at, length, new in cuts:
        text = text[:at] + new + text[at + length :]
    try:
        read_textgrid(text.encode("utf-8", "surrogatepass"), "x.TextGrid")
    except ArborvoxError as error:
        assert len(str(error).splitlines()) == 1
        assert str(error).startswith("x.TextGrid")
