"""New tiers for TextGrids: all else in a file stays, byte for byte, but the number of its tiers."""

import re
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "hostile"))
from budgets import examples
from hypothesis import given
from hypothesis import strategies as st
from made_up_tiers import grids, tier_sets
from test_textgrid import GRID, LONG, SHORT

from arborvox.annotations import (
    Annotation,
    TextGrid,
    Tier,
    add_grid_tiers,
    read_textgrid,
    write_textgrid,
)
from arborvox.annotations.textgrid import fill_gaps
from arborvox.errors import ArborvoxError

NEW = (Tier("new", (Annotation(0.5, 1.0, 'a "b"'),)), Tier("new words", ()))


@examples(100, 1000)
@given(
    grid=grids(), tiers=tier_sets("new"), short=st.booleans(),
    encoding=st.sampled_from(["utf-8", "utf-16"]),
)  # fmt: skip
def test_old_tiers_stay_and_new_ones_come_behind(
    grid: TextGrid, tiers: tuple[Tier, ...], short: bool, encoding: str
) -> None:
    data = write_textgrid(grid, short=short, encoding=encoding)
    edited = read_textgrid(add_grid_tiers(data, tiers, "x"))
    assert edited.tiers[: len(grid.tiers)] == grid.tiers
    filled = [fill_gaps(tier, grid.start_s, grid.end_s) for tier in tiers]
    assert list(edited.tiers[len(grid.tiers) :]) == filled


@pytest.mark.parametrize("text", [LONG, SHORT], ids=["long", "short"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("tail", ["", "! said by nobody 5"])
def test_every_byte_remains_but_the_number_of_tiers(
    text: str, encoding: str, end: str, tail: str
) -> None:
    mark = "\ufeff" if encoding.startswith("utf-16") else ""
    before = f"{text.rstrip()}{tail}".replace("\n", end)
    data = f"{mark}{before}".encode(encoding)
    edited = add_grid_tiers(data, NEW, "x.TextGrid")
    after = edited.decode(encoding)
    assert after.encode(encoding) == edited
    counts = r"(<exists>\s*?(?:size = )?)[24]"
    old_head, new_head = (re.search(counts, each) for each in (data.decode(encoding), after))
    assert old_head is not None and new_head is not None
    assert (old_head[0][-1], new_head[0][-1]) == ("2", "4")
    restored = after[: new_head.end() - 1] + "2" + after[new_head.end() :]
    assert restored.startswith(f"{mark}{before}".removesuffix(tail).rstrip())
    assert tail in restored
    assert (end == "\r\n") == ("\r\n" in after[len(before) :])
    found = read_textgrid(edited)
    assert [tier.name for tier in found.tiers] == ["words", "bell", "new", "new words"]
    assert found.tiers[0].annotations[0] == GRID.tiers[0].annotations[0]


def test_a_name_that_is_taken_and_a_file_without_tiers_are_refused() -> None:
    with pytest.raises(ArborvoxError, match=r"x has a tier 'words' already"):
        add_grid_tiers(LONG.encode(), (Tier("words"),), "x")
    absent = 'File type = "ooTextFile"\nObject class = "TextGrid"\n0\n1\n<absent>\n'
    with pytest.raises(ArborvoxError, match=r"x says that it has no tiers"):
        add_grid_tiers(absent.encode(), NEW, "x")
