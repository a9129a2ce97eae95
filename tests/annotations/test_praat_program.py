"""Praat itself opens the TextGrids that are written, and writes the same ones again."""

import shutil
import subprocess
from pathlib import Path

import pytest

from arborvox.annotations import (
    Annotation,
    TextGrid,
    Tier,
    add_grid_tiers,
    read_textgrid,
    write_textgrid,
)
from arborvox.decode.transcript import Segment, TierLayout, Transcript, to_textgrid
from arborvox.decode.words import Word

GRID = TextGrid(
    0.0,
    7200.125,
    (
        Tier("words", (Annotation(0.1, 0.5, 'say "ah"'), Annotation(0.5, 3.75, "t͡ʃʼ ŋ̊ بۇ 𐎀"))),
        Tier("bell", (Annotation(1.5, 1.5, "ding"), Annotation(2.0, 2.0, "")), is_point=True),
        Tier("empty"),
    ),
)
WORDS = (Word("bon", 0.5, 1.0, 0.7), Word("dia", 1.0, 2.0, 0.7))
HEARD = Transcript(5.0, (Segment(0.5, 2.0, "bon dia", 0.7, WORDS),))
MORE = Tier("heard", (Annotation(1.0, 2.0, "sí"), Annotation(1.5, 2.5, "no")))
SCRIPT = """
form: "Open and save"
    infile: "Source", ""
    outfile: "Target", ""
endform
Read from file: source$
number = Get number of tiers
for tier to number
    interval = Is interval tier: tier
    if interval
        count = Get number of intervals: tier
        appendInfoLine: "intervals ", count
    else
        count = Get number of points: tier
        appendInfoLine: "points ", count
    endif
endfor
Save as text file: target$
"""


def grids() -> dict[str, bytes]:
    long = write_textgrid(GRID)
    short = write_textgrid(GRID, short=True)
    wide = write_textgrid(GRID, encoding="utf-16")
    layout = TierLayout("heard", ("words", "units", "confidence"))
    return {
        "long": long,
        "short": short,
        "wide": wide,
        "heard": to_textgrid(HEARD, layout).encode(),
        **{f"{n} more": add_grid_tiers(d, (MORE,), n)
           for n, d in (("long", long), ("short", short), ("wide", wide))},
    }  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", grids())
def test_praat_opens_what_is_written(name: str, tmp_path: Path) -> None:
    praat = shutil.which("praat")
    if praat is None:
        pytest.skip("needs the program praat (Debian: apt-get install praat)")
    written = grids()[name]
    (tmp_path / "in.TextGrid").write_bytes(written)
    (tmp_path / "open.praat").write_text(SCRIPT, encoding="utf-8")
    done = subprocess.run(
        [praat, "--run", "open.praat", "in.TextGrid", "out.TextGrid"],
        cwd=tmp_path,
        capture_output=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr.decode()
    ours = read_textgrid(written)
    told = done.stdout.decode("utf-8", "replace").split("\n")
    for tier, line in zip(ours.tiers, told, strict=False):
        kind = "points" if tier.is_point else "intervals"
        assert line.strip() == f"{kind} {len(tier.annotations)}"
    again = read_textgrid(tmp_path / "out.TextGrid")
    assert [tier.name for tier in again.tiers] == [tier.name for tier in ours.tiers]
    for mine, praats in zip(ours.tiers, again.tiers, strict=True):
        assert praats.annotations == mine.annotations
