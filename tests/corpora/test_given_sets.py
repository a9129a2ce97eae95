"""A corpus's own split, in every shape in which corpora have one."""

import json
from pathlib import Path
from typing import Any

import pytest
from releases import tone
from test_common_voice import read_cuts, read_skipped

from arborvox.config import FolderCorpus
from arborvox.corpora import prepare
from arborvox.errors import ArborvoxError

SPLITS = ("train", "dev", "test")
WORDS = "nol satu dua tiga empat lima enam tujuh lapan sembilan".split()


def sentence(number: int) -> str:
    return f"{WORDS[number // 10]} {WORDS[number % 10]}"


def sets_of(source: Path, out: Path, **keys: Any) -> dict[str, set[str]]:
    """Prepare; return the ids of each set."""
    prepare(FolderCorpus(source=str(source), **{"language": "iba", **keys}), out, jobs=1)
    return {split: {cut["id"] for cut in read_cuts(out, split)} for split in SPLITS}


def make_kaldi(folder: Path, ids: list[str], audio: str, prefix: str = "", tab: str = "\t") -> None:
    """Write Kaldi tables; `audio` is where the recordings are said to lie."""
    folder.mkdir(parents=True, exist_ok=True)
    numbers = [int(identity[1:]) for identity in ids]
    tables = {
        "wav.scp": [f"{u}{tab}{audio}/{u}.wav" for u in ids],
        "text": [f"{u}  {sentence(n)}  " for u, n in zip(ids, numbers, strict=True)],
        "utt2spk": [f"{u}{tab}s{n % 4}" for u, n in zip(ids, numbers, strict=True)],
    }
    for name, lines in tables.items():
        (folder / f"{prefix}{name}").write_text("\n".join(lines) + "\n")


@pytest.fixture
def recordings(tmp_path: Path) -> Path:
    """data/wav/u0.wav to u59.wav."""
    for number in range(60):
        tone(tmp_path / f"data/wav/u{number}.wav", seconds=0.5)
    return tmp_path / "data"


TRAIN_IDS, TEST_IDS = [f"u{i}" for i in range(40)], [f"u{i}" for i in range(40, 60)]


@pytest.mark.parametrize("audio", ["asr_iban/data/wav", "/home/somebody/iban/data/wav", "../wav"])
@pytest.mark.parametrize("split", ["auto", "given"])
def test_kaldi_folders_side_by_side_with_prefixes(
    recordings: Path, tmp_path: Path, audio: str, split: str
) -> None:
    make_kaldi(recordings / "train", TRAIN_IDS, audio, "train_")
    make_kaldi(recordings / "test", TEST_IDS, audio, "test_")
    sets = sets_of(recordings, tmp_path / "out", split=split)
    assert sets["test"] == set(TEST_IDS)
    assert sets["train"] | sets["dev"] == set(TRAIN_IDS)
    assert len(sets["dev"]) == 2  # 5 % of training, as there was none
    cut = read_cuts(tmp_path / "out", "test")[0]
    assert cut["recording"]["sources"][0]["source"] == str(recordings / f"wav/{cut['id']}.wav")
    assert cut["supervisions"][0]["speaker"].startswith("s")


def test_a_prefix_is_taken_off(recordings: Path, tmp_path: Path) -> None:
    make_kaldi(recordings, TRAIN_IDS, "x_wav")
    sets = sets_of(recordings, tmp_path / "out", strip_prefix="x_")
    assert set.union(*sets.values()) == set(TRAIN_IDS)


def test_audio_is_looked_for_below_the_source_alone(recordings: Path, tmp_path: Path) -> None:
    make_kaldi(recordings / "kaldi/train", TRAIN_IDS, "/elsewhere/wav")
    make_kaldi(recordings / "kaldi/test", TEST_IDS, "/elsewhere/../wav")
    with pytest.raises(ArborvoxError, match="no usable utterance"):
        sets_of(recordings / "kaldi", tmp_path / "out")
    assert set(read_skipped(tmp_path / "out").values()) == {"no such file"}


def test_two_recordings_never_become_one_file(recordings: Path, tmp_path: Path) -> None:
    lines = [f"u{i} /a/wav/u{i}.wav" for i in range(40)] + ["u40 /b/wav/u0.wav"]
    make_kaldi(recordings, [f"u{i}" for i in range(41)], "x")
    (recordings / "wav.scp").write_text("\n".join(lines) + "\n")
    sets = sets_of(recordings, tmp_path / "out")
    assert set.union(*sets.values()) == set(TRAIN_IDS)
    reason = read_skipped(tmp_path / "out")["wav.scp: u40"]
    assert reason == "two recordings end alike: /b/wav/u0.wav and /a/wav/u0.wav"


def test_several_tables_of_recordings_are_named(recordings: Path, tmp_path: Path) -> None:
    for name in ("a_wav.scp", "b_wav.scp"):
        (recordings / name).write_text("u0 wav/u0.wav\n")
    with pytest.raises(ArborvoxError, match=r"several tables of recordings \(a_wav.scp, b_wav.scp"):
        sets_of(recordings, tmp_path / "out")


def make_pairs(folder: Path, numbers: range, suffix: str = ".txt") -> None:
    for number in numbers:
        tone(folder / f"ana_x{number}.wav", seconds=0.5)
        (folder / f"ana_x{number}{suffix}").write_text(sentence(number))


def test_folders_of_pairs_with_another_suffix_and_other_names(tmp_path: Path) -> None:
    source = tmp_path / "src"
    make_pairs(source / "train", range(40), ".mb.cleaned")
    make_pairs(source / "dev", range(40, 50), ".mb.cleaned")
    make_pairs(source / "all", range(50), ".mb.cleaned")
    for path in list(source.rglob("*.mb.cleaned")):
        path.with_name(f"{path.name}.split").write_text("not this")
        path.with_name(path.name.replace(".cleaned", "")).write_text("nor this")
    keys = {"text_suffix": ".mb.cleaned", "speaker_from": "name"}
    sets = sets_of(source, tmp_path / "out", test_sets=("dev",), **keys)
    assert sets["test"] == {f"dev/ana_x{i}" for i in range(40, 50)}
    assert len(sets["dev"]) == 2
    assert {c["supervisions"][0]["speaker"] for c in read_cuts(tmp_path / "out", "test")} == {"ana"}
    usual = sets_of(source, tmp_path / "usual", **keys)
    assert usual["dev"] == sets["test"]
    assert len(usual["test"]) == 4 and usual["test"] < {f"train/ana_x{i}" for i in range(40)}


def test_a_table_for_each_set(tmp_path: Path) -> None:
    make_pairs(tmp_path / "train", range(30))
    for name, numbers in (("train.csv", range(20)), ("valid.tsv", range(20, 24))):
        between = "," if name.endswith("csv") else "\t"
        rows = [("path", "text"), *((f"train/ana_x{i}.wav", sentence(i)) for i in numbers)]
        (tmp_path / name).write_text("".join(f"{between.join(row)}\n" for row in rows))
    rows = [{"path": f"train/ana_x{i}.wav", "text": sentence(i)} for i in range(23, 30)]
    (tmp_path / "test.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    sets = sets_of(tmp_path, tmp_path / "out")
    assert {split: len(ids) for split, ids in sets.items()} == {"train": 20, "dev": 3, "test": 7}
    assert list(read_skipped(tmp_path / "out").values()) == [
        "duplicate row: train/ana_x23 came before"  # the test set stays whole
    ]


@pytest.mark.parametrize("column", ["split", "part"])
def test_a_column_names_the_sets(tmp_path: Path, column: str) -> None:
    make_pairs(tmp_path, range(24))
    names = ["Train"] * 16 + ["dev"] * 3 + ["test"] * 3 + ["spare", ""]
    rows = [f"ana_x{i}.wav\t{sentence(i)}\t{name}" for i, name in enumerate(names)]
    (tmp_path / "t.tsv").write_text("\n".join([f"path\ttext\t{column}", *rows]) + "\n")
    keys = {} if column == "split" else {"split_column": "part"}
    sets = sets_of(tmp_path / "t.tsv", tmp_path / "out", **keys)
    assert {split: len(ids) for split, ids in sets.items()} == {"train": 16, "dev": 3, "test": 3}
    assert read_skipped(tmp_path / "out") == {
        "ana_x22.wav": "no set of that name: spare",
        "ana_x23.wav": "no set of that name: none",
    }
    drawn = sets_of(tmp_path / "t.tsv", tmp_path / "drawn", **keys, split="sentence")
    assert sum(map(len, drawn.values())) == 24  # another split than the given one may be asked for


def test_a_split_that_is_not_there_is_said_with_what_is(tmp_path: Path) -> None:
    make_pairs(tmp_path, range(4))
    rows = [f"ana_x{i}.wav\t{sentence(i)}\tfold{i}" for i in range(4)]
    (tmp_path / "t.tsv").write_text("\n".join(["path\ttext\tsplit", *rows]) + "\n")
    with pytest.raises(ArborvoxError, match=r"no split of its own: .* \(it has fold0, fold1"):
        sets_of(tmp_path / "t.tsv", tmp_path / "out", split="given")
    assert sum(map(len, sets_of(tmp_path / "t.tsv", tmp_path / "out").values())) == 4


def test_a_column_without_a_held_out_set_is_no_split(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = make_table(tmp_path, speakers=9)
    header, *rows = table.read_text().splitlines()
    table.write_text("\n".join([f"{header}\tsplit", *(f"{row}\ttrain" for row in rows)]) + "\n")
    sets = sets_of(table, tmp_path / "out")
    assert sets["test"] and "split by speaker" in capsys.readouterr().err


def test_a_set_that_is_cut_by_speaker_has_other_speakers(recordings: Path, tmp_path: Path) -> None:
    make_kaldi(recordings / "train", TRAIN_IDS, "../wav")
    make_kaldi(recordings / "test", TEST_IDS, "../wav")
    out = tmp_path / "out"
    sets_of(recordings, out, cut_by="speaker", dev_share=0.3)
    speakers = [{c["supervisions"][0]["speaker"] for c in read_cuts(out, s)} for s in SPLITS[:2]]
    assert speakers[1] and not speakers[0] & speakers[1]


def test_sentences_that_repeat_are_listed_and_stay(recordings: Path, tmp_path: Path) -> None:
    make_kaldi(recordings / "train", TRAIN_IDS, "../wav")
    make_kaldi(recordings / "test", TEST_IDS, "../wav")
    with (recordings / "test/text").open("r+") as table:
        changed = table.read().replace(sentence(45), sentence(5)).replace(sentence(46), sentence(6))
        table.seek(0)
        table.truncate()
        table.write(changed)
    sets = sets_of(recordings, tmp_path / "out", dev_share=0.5)  # the sentences may be in dev now
    assert sets["test"] == set(TEST_IDS)
    listed = (tmp_path / "out/repeated.tsv").read_text()
    assert listed == "id\tset\nu45\ttest\nu46\ttest\n"
    assert json.loads((tmp_path / "out/stats.json").read_text())["repeated"] == {"test": 2}


def make_table(folder: Path, speakers: int, count: int = 60) -> Path:
    for number in range(count):
        tone(folder / f"{number}.wav", seconds=0.5)
    rows = [f"{i}.wav\t{sentence(i)}\ts{i % speakers}" for i in range(count)]
    (folder / "t.tsv").write_text("\n".join(["path\ttext\tspeaker", *rows]) + "\n")
    return folder / "t.tsv"


@pytest.mark.parametrize(("speakers", "by_speaker"), [(3, False), (7, False), (8, True)])
def test_few_voices_are_not_given_away_without_asking(
    tmp_path: Path, speakers: int, by_speaker: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    table = make_table(tmp_path, speakers)
    sets_of(table, tmp_path / "out")
    told = " ".join(capsys.readouterr().err.split())
    heard = {c["supervisions"][0]["speaker"] for c in read_cuts(tmp_path / "out", "train")}
    assert (len(heard) < speakers) is by_speaker
    assert ("split by speaker" in told) is by_speaker
    assert (f"{speakers} speakers, fewer than 8, so the split is by sentence" in told) is not (
        by_speaker
    )
    asked = tmp_path / "asked"
    sets_of(table, asked, split="speaker")
    sides = [{c["supervisions"][0]["speaker"] for c in read_cuts(asked, s)} for s in SPLITS]
    assert not (sides[0] & sides[1] or sides[0] & sides[2] or sides[1] & sides[2])


def test_a_split_by_speaker_needs_speakers(tmp_path: Path) -> None:
    table = make_table(tmp_path, speakers=2, count=6)
    with pytest.raises(
        ArborvoxError, match="speaker needs 3 known speakers, but of iba 2 speakers"
    ):
        sets_of(table, tmp_path / "out", split="speaker")


def test_utterances_are_drawn_at_random_where_asked(tmp_path: Path) -> None:
    table = make_table(tmp_path, speakers=2)
    sets = sets_of(table, tmp_path / "out", split="utterance")
    assert [len(sets[split]) for split in SPLITS] == [51, 3, 6]


@pytest.mark.parametrize("source", ["folder", "name"])
def test_speakers_come_from_places_or_names(tmp_path: Path, source: str) -> None:
    make_pairs(tmp_path / "src/eva", range(20))
    sets_of(tmp_path / "src", tmp_path / "out", speaker_from=source)
    heard = {c["supervisions"][0]["speaker"] for c in read_cuts(tmp_path / "out", "train")}
    assert heard == {"eva" if source == "folder" else "ana"}
