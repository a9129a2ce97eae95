"""Folders of TextGrids: intervals become utterances, and what cannot is listed."""

from pathlib import Path
from typing import Any

import pytest
from releases import tone
from test_common_voice import read_cuts, read_skipped

from arborvox.annotations import Annotation, TextGrid, Tier, write_textgrid
from arborvox.config.corpus import PraatCorpus
from arborvox.corpora import prepare
from arborvox.errors import ArborvoxError

LETTERS = "abcdefghijklmnopqrstuvwxyz"


@pytest.fixture
def grids(tmp_path: Path) -> Path:
    """Twelve TextGrids of both forms and encodings."""
    for number in range(12):
        tone(tmp_path / f"g/r{number}.wav", seconds=4.0)
        found = [
            Annotation(n + 0.2, n + 0.9, f"mot {LETTERS[number]} {LETTERS[n]}") for n in (0, 2)
        ]
        tiers = (
            Tier("words", tuple(found)),
            Tier("bell", (Annotation(1, 1, "x"),), is_point=True),
        )
        data = write_textgrid(
            TextGrid(0.0, 4.0, tiers),
            short=number % 2 == 0,
            encoding="utf-16" if number % 3 else "utf-8",
        )
        (tmp_path / f"g/r{number}.TextGrid").write_bytes(data)
    return tmp_path / "g"


def run(source: Path, out: Path, **keys: Any) -> list[dict[str, Any]]:
    config = PraatCorpus(source=str(source), **{"language": "ca", "tier": ("words",), **keys})
    prepare(config, out, jobs=1)
    return [cut for split in ("train", "dev", "test") for cut in read_cuts(out, split)]


def test_intervals_with_a_text_become_utterances(grids: Path, tmp_path: Path) -> None:
    cuts = run(grids, tmp_path / "out")
    assert len(cuts) == 24
    cut = next(c for c in cuts if c["id"] == "r5-words-00002200-00002900")
    assert cut["supervisions"][0]["text"] == "mot f c"
    assert (cut["start"], cut["duration"]) == pytest.approx((2.2, 0.7))
    assert read_skipped(tmp_path / "out") == {}
    sides = [
        {c["recording"]["id"] for c in read_cuts(tmp_path / "out", side)}
        for side in ("train", "dev", "test")
    ]
    assert sum(map(len, sides)) == len(set.union(*sides)) == 12


def test_what_cannot_be_learned_from_is_listed(grids: Path, tmp_path: Path) -> None:
    (grids / "r0.wav").unlink()
    (grids / "r1.TextGrid").write_bytes(b"no grid")
    (grids / "r2.TextGrid").write_bytes(write_textgrid(TextGrid(0.0, 4.0, (Tier("other"),))))
    assert len(run(grids, tmp_path / "out")) == 18
    listed = read_skipped(tmp_path / "out")
    assert listed["r0.TextGrid"] == "no recording: none has the file's name"
    assert listed["r1.TextGrid"].startswith("not read: ")
    assert listed["r2.TextGrid"] == "no such tier"


@pytest.mark.parametrize(
    ("keys", "told"),
    [
        ({"tier": None}, "with --tier"),
        ({"language": None}, "give --language"),
        ({"tier": ("bell",)}, "there are: bell, words"),
    ],
)
def test_what_was_not_said_is_asked_for(
    grids: Path, tmp_path: Path, keys: dict[str, Any], told: str
) -> None:
    with pytest.raises(ArborvoxError, match=told):
        run(grids, tmp_path / "out", **keys)


def speakers_of(cuts: list[dict[str, Any]]) -> set[str | None]:
    return {cut["supervisions"][0].get("speaker") for cut in cuts}


def test_speakers_are_those_that_tiers_or_files_name(grids: Path, tmp_path: Path) -> None:
    for number, path in enumerate(sorted(grids.glob("*.TextGrid"))):
        found = (Annotation(0.2, 0.9, f"mot {LETTERS[number]}"),)
        tiers = (Tier(f"tx@{'ABCD'[number % 4]}", found),)
        path.write_bytes(write_textgrid(TextGrid(0.0, 4.0, tiers)))
    cuts = run(grids, tmp_path / "named", tier=("tx",), split="speaker")
    assert len(cuts) == 12 and speakers_of(cuts) == set("ABCD")
    sides = [speakers_of(read_cuts(tmp_path / "named", side)) for side in ("train", "test")]
    assert not sides[0] & sides[1]
    for rule, wanted in (("name", {f"r{n}" for n in range(12)}), ("tier", {"words"})):
        plain = tmp_path / rule
        plain.mkdir()
        for path in grids.glob("*.wav"):
            (plain / path.name).write_bytes(path.read_bytes())
            found = (Annotation(0.2, 0.9, f"mot {LETTERS[int(path.stem[1:])]}"),)
            data = write_textgrid(TextGrid(0.0, 4.0, (Tier("words", found),)))
            (plain / f"{path.stem}.TextGrid").write_bytes(data)
        cuts = run(plain, tmp_path / f"{rule} out", speaker_from=rule)
        assert speakers_of(cuts) == wanted


def test_a_split_by_speakers_that_nobody_names_is_refused_up_front(
    grids: Path, tmp_path: Path
) -> None:
    for path in grids.glob("*.wav"):  # no recording is looked at first
        path.write_bytes(b"no sound")
    with pytest.raises(ArborvoxError, match=r"--split speaker: nobody says who speaks in r0"):
        run(grids, tmp_path / "out", split="speaker")
