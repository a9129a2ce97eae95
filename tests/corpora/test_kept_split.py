"""A split that is written down can be kept: what was held out stays so when recordings come."""

from pathlib import Path
from typing import Any

import pytest
from releases import tone
from test_common_voice import read_skipped
from test_given_sets import SPLITS, make_table, sentence, sets_of

from arborvox.errors import ArborvoxError


def add_rows(table: Path, rows: list[tuple[str, str, str]]) -> None:
    for path, _, _ in rows:
        tone(table.parent / path, seconds=0.5)
    with table.open("a") as file:
        file.writelines("\t".join(row) + "\n" for row in rows)


@pytest.fixture
def before(tmp_path: Path) -> dict[str, set[str]]:
    return sets_of(make_table(tmp_path, speakers=9), tmp_path / "before")


def test_the_split_is_written_down(tmp_path: Path, before: dict[str, set[str]]) -> None:
    lines = (tmp_path / "before/split.tsv").read_text().splitlines()
    assert lines[0] == "id\tset"
    written: dict[str, set[str]] = {split: set() for split in SPLITS}
    for line in lines[1:]:
        identity, split = line.split("\t")
        written[split].add(identity)
    assert written == before


def test_what_was_held_out_stays_and_new_ones_are_for_training(
    tmp_path: Path, before: dict[str, set[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    table = tmp_path / "t.tsv"
    held = min(before["test"], key=int)
    new = [(f"{i}.wav", sentence(i), "somebody") for i in range(60, 70)]
    like_test = [("a.wav", sentence(int(held)), "x"), ("b.wav", "baru", f"s{int(held) % 9}")]
    add_rows(table, [*new, *like_test])
    kept = tmp_path / "before/split.tsv"
    after = sets_of(table, tmp_path / "after", keep_split=str(kept))
    assert (after["test"], after["dev"]) == (before["test"], before["dev"])
    assert after["train"] == before["train"] | {str(i) for i in range(60, 70)}
    # Sentences and speakers were apart, and still are.
    skipped = {Path(name).name: why for name, why in read_skipped(tmp_path / "after").items()}
    assert skipped["a.wav"] == "sentence is in another split"
    assert skipped["b.wav"] == "speaker is in another split"
    told = " ".join(capsys.readouterr().err.split())
    assert "of 12 new ones 10 are for training" in told
    drawn = sets_of(table, tmp_path / "drawn")
    assert drawn["test"] != before["test"]  # which is why a split is kept


def test_a_kept_split_may_share_voices_as_it_did(tmp_path: Path) -> None:
    table = make_table(tmp_path, speakers=2)
    before = sets_of(table, tmp_path / "before")
    add_rows(table, [("new.wav", "baru", "s0")])
    kept: dict[str, Any] = {"keep_split": str(tmp_path / "before/split.tsv")}
    after = sets_of(table, tmp_path / "after", **kept)
    assert after == {**before, "train": before["train"] | {"new"}}


def test_a_new_recording_of_a_given_test_set_is_left_out(tmp_path: Path) -> None:
    table = make_table(tmp_path, speakers=2, count=12)
    body = table.read_text().splitlines()
    names = ["split", *["train"] * 8, *["dev"] * 2, *["test"] * 2]
    table.write_text("".join(f"{row}\t{name}\n" for row, name in zip(body, names, strict=True)))
    before = sets_of(table, tmp_path / "before")
    add_rows(table, [("new.wav", "baru", "s0\ttest"), ("more.wav", "baru lagi", "s0\ttrain")])
    after = sets_of(table, tmp_path / "after", keep_split=str(tmp_path / "before/split.tsv"))
    assert after == {**before, "train": before["train"] | {"more"}}
    assert list(read_skipped(tmp_path / "after").values()) == ["not in the split that is kept"]


def test_what_is_gone_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = make_table(tmp_path, speakers=2)
    sets_of(table, tmp_path / "before")
    table.write_text("\n".join(table.read_text().splitlines()[:-3]) + "\n")
    sets_of(table, tmp_path / "after", keep_split=str(tmp_path / "before/split.tsv"))
    assert "3 utterances of" in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("a\ttrain\n", "line 1: not `id` and `set`"),
        ("id\tset\na\tlater\n", "line 2: not an id, a tab, and one of train, dev, test"),
        ("id\tset\na train\n", "line 2: not an id"),
        ("id\tset\na\ttest\na\tdev\n", "line 3: a stands there twice"),
    ],
)
def test_a_table_that_is_no_split_is_named_by_line(tmp_path: Path, content: str, told: str) -> None:
    (tmp_path / "split.tsv").write_text(content)
    table = make_table(tmp_path, speakers=2, count=4)
    with pytest.raises(ArborvoxError, match=told):
        sets_of(table, tmp_path / "out", keep_split=str(tmp_path / "split.tsv"))
    with pytest.raises(ArborvoxError, match="There is no split"):
        sets_of(table, tmp_path / "out", keep_split=str(tmp_path / "none.tsv"))


def test_fewer_minutes_of_training_are_part_of_more_and_what_is_held_out_stays(
    tmp_path: Path, before: dict[str, set[str]]
) -> None:
    table, kept = tmp_path / "t.tsv", []
    for minutes in (0.001, 0.05, 0.1, 100.0):  # half a second an utterance
        found = sets_of(table, tmp_path / str(minutes), train_minutes=minutes)
        assert (found["test"], found["dev"]) == (before["test"], before["dev"])
        kept.append(found["train"])
    assert [len(train) for train in kept] == [1, 6, 12, len(before["train"])]
    assert kept[0] < kept[1] < kept[2] < kept[3]
    reasons = set(read_skipped(tmp_path / "0.05").values())
    assert reasons == {"not sampled"}


def test_a_split_that_is_not_there_is_missed_before_any_recording_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make_table(tmp_path, speakers=2)
    monkeypatch.setattr("arborvox.corpora.own_rows.check_recordings", pytest.fail)
    with pytest.raises(ArborvoxError, match=r"There is no split .*gone\.tsv"):
        sets_of(table, tmp_path / "after", keep_split=str(tmp_path / "gone.tsv"))
    assert not (tmp_path / "after").exists()
