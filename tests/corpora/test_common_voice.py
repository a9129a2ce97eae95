"""Common Voice releases: nothing lost, nothing twice, the same bytes each time."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from releases import make_release, row, tone, write_table

from arborvox.config import CommonVoiceCorpus
from arborvox.corpora import prepare
from arborvox.errors import ArborvoxError

SPLITS = ("train", "dev", "test")


def read_cuts(out: Path, split: str) -> list[dict[str, Any]]:
    with gzip.open(out / f"cuts_{split}.jsonl.gz", "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def read_skipped(out: Path) -> dict[str, str]:
    lines = (out / "skipped.tsv").read_text(encoding="utf-8").splitlines()
    assert lines[0] == "file\treason"
    return dict(line.split("\t") for line in lines[1:])


def run(source: Path, out: Path, strict: bool = False, **keys: Any) -> Path:
    config = CommonVoiceCorpus(source=str(source), **keys)
    prepare(config, out, jobs=1, strict=strict)
    return out


def all_of(out: Path, key: str) -> list[set[str]]:
    return [{cut["supervisions"][0][key] for cut in read_cuts(out, split)} for split in SPLITS]


def test_every_clip_is_in_exactly_one_place(tmp_path: Path) -> None:
    source = make_release(tmp_path / "cv")
    out = run(source, tmp_path / "out", ratio=0.5)
    places = [
        Path(cut["recording"]["sources"][0]["source"])
        for split in SPLITS
        for cut in read_cuts(out, split)
    ]
    left_out = [source.resolve() / name for name in read_skipped(out)]
    clips = sorted(source.resolve().glob("*/clips/*"))
    assert sorted(places + left_out) == clips
    assert len(set(places + left_out)) == len(clips)


@pytest.mark.parametrize("key", ["speaker", "text"])
def test_no_speaker_and_no_sentence_crosses_splits(tmp_path: Path, key: str) -> None:
    out = run(make_release(tmp_path / "cv"), tmp_path / "out")
    train, dev, test = all_of(out, key)
    assert train and dev and test
    assert not (train & dev or train & test or dev & test)


def test_twice_gives_the_same_bytes_and_another_seed_another_split(tmp_path: Path) -> None:
    source = make_release(tmp_path / "cv")
    first, again = run(source, tmp_path / "a"), run(source, tmp_path / "b")
    other = run(source, tmp_path / "c", seed=1)
    names = sorted(path.name for path in first.iterdir())
    assert names == sorted(path.name for path in again.iterdir())
    for name in names:
        assert (first / name).read_bytes() == (again / name).read_bytes()
    assert all_of(first, "id") != all_of(other, "id")


def test_a_language_is_split_alike_with_and_without_its_neighbors(tmp_path: Path) -> None:
    source = make_release(tmp_path / "cv")
    both, alone = run(source, tmp_path / "a"), run(source, tmp_path / "b", languages=("es",))
    in_both = [{i for i in ids if i.startswith("es-")} for ids in all_of(both, "id")]
    assert in_both == all_of(alone, "id")


def test_hours_are_reached(tmp_path: Path) -> None:
    source = make_release(tmp_path / "cv", clips=100, speakers=50)
    whole = json.loads((run(source, tmp_path / "a") / "stats.json").read_text())
    target = whole["total"]["train"]["hours"] * 0.4
    thinned = json.loads((run(source, tmp_path / "b", hours=target) / "stats.json").read_text())
    assert thinned["total"]["train"]["hours"] == pytest.approx(target, rel=0.01)
    assert thinned["total"]["test"] == whole["total"]["test"]


def test_manifests_load_in_lhotse_and_give_the_audio(tmp_path: Path) -> None:
    from lhotse import CutSet

    out = run(make_release(tmp_path / "cv"), tmp_path / "out")
    cuts = CutSet.from_jsonl_lazy(out / "cuts_train.jsonl.gz")
    cut = next(iter(cuts))
    assert cut.load_audio().shape == (1, cut.recording.num_samples)
    assert cut.supervisions[0].language in {"ca", "es"}


def test_official_splits_are_the_releases_own(tmp_path: Path) -> None:
    source = make_release(tmp_path / "cv", languages=["ca"], clips=6)
    names = [f"common_voice_ca_{i}.flac" for i in range(6)]
    for split, part in zip(SPLITS, (names[:3], names[3:4], names[4:5]), strict=True):
        write_table(source / "ca", [row("s", name, "x") for name in part], f"{split}.tsv")
    out = run(source, tmp_path / "out", split="official")
    assert [len(ids) for ids in all_of(out, "id")] == [3, 1, 1]
    assert read_skipped(out) == {f"ca/clips/{names[5]}": "not in the release's own splits"}


def make_official_test(tmp_path: Path) -> Path:
    """A release whose test set shares speakers and sentences with the rest."""
    folder = tmp_path / "cv/IbibioVoice"
    rows = []
    for i in range(60):
        tone(folder / f"clips/c{i}.flac")
        rows.append(row(f"s{i % 6}", f"c{i}.flac", f"mot {chr(97 + i // 3)} {chr(97 + i // 30)}"))
    write_table(folder, rows)
    write_table(folder, [line for line in rows if line.startswith("s0\t")][:4], "test.tsv")
    return folder


def test_around_the_official_test_set_nothing_is_like_it(tmp_path: Path) -> None:
    folder = make_official_test(tmp_path)
    out = run(folder, tmp_path / "out", split="official-test", language="ibb", dev_share=0.1)
    assert all_of(out, "language")[0] == {"ibb"}
    for key in ("speaker", "text"):
        train, dev, test = all_of(out, key)
        assert train and dev and test
        assert not (test & (train | dev))
        assert key == "speaker" or not train & dev
    counts = [len(read_cuts(out, split)) for split in SPLITS]
    reasons = list(read_skipped(out).values())
    assert counts[2] == 4
    assert reasons.count("speaker is in another split") == 6  # the other clips of s0
    assert sum(counts) + len(reasons) == 60


def test_a_folder_whose_name_is_no_language_is_asked_for_one(tmp_path: Path) -> None:
    folder = make_official_test(tmp_path)
    for wanted in (None, ("ibb",)):
        with pytest.raises(ArborvoxError, match=r"'IbibioVoice' is no language code; .*--language"):
            run(folder, tmp_path / "out", languages=wanted)
    with pytest.raises(ArborvoxError, match=r"has no validated\.tsv of its own"):
        run(folder.parent, tmp_path / "out", language="ibb")
    (folder / "test.tsv").unlink()
    with pytest.raises(ArborvoxError, match=r"has no test\.tsv: use another --split"):
        run(folder, tmp_path / "out", language="ibb", split="official-test")


def test_look_alikes_of_a_release_are_told_and_unified(tmp_path: Path) -> None:
    folder = make_official_test(tmp_path)
    table = folder / "validated.tsv"
    table.write_text(table.read_text().replace("mot a", "mәt a").replace("mot b", "məәt b"))
    found = {}
    for choice in ("report", "unify"):
        out = run(folder, tmp_path / choice, language="ibb", look_alikes=choice, split="utterance")
        texts = set.union(*all_of(out, "text"))
        notes = json.loads((out / "stats.json").read_text())["look_alikes"]["ibb"]
        found[choice] = any("\u04d9" in text for text in texts)
        assert [(n["codes"], n["count"], n["like_codes"]) for n in notes] == [
            ("U+04D9", 6, "U+0259")
        ]
        assert notes[0]["unified"] is (choice == "unify")
    assert found == {"report": True, "unify": False}


def test_durations_come_from_the_table_of_the_release(tmp_path: Path) -> None:
    source = make_release(tmp_path / "cv", languages=["ca"], clips=20)
    lines = ["clip\tduration[ms]", *(f"common_voice_ca_{i}.flac\t{1000 + i}" for i in range(20))]
    (source / "ca" / "clip_durations.tsv").write_text("\n".join(lines) + "\n")
    table_only = CommonVoiceCorpus(source=str(source))
    from arborvox.corpora import checks

    kept = checks.DECODE_MOST
    checks.DECODE_MOST = 0  # as in a release too large to decode
    try:
        prepare(table_only, tmp_path / "out", jobs=1)
    finally:
        checks.DECODE_MOST = kept
    cuts = [cut for split in SPLITS for cut in read_cuts(tmp_path / "out", split)]
    got = {cut["id"]: cut["duration"] for cut in cuts}
    assert got["ca-common_voice_ca_7"] == pytest.approx(1.007, abs=1e-4)
    assert cuts[0]["recording"]["sampling_rate"] == 16_000


def test_single_language_folders_work(tmp_path: Path) -> None:
    source = make_release(tmp_path / "cv", languages=["ca"])
    assert all_of(run(source / "ca", tmp_path / "out"), "language")[0] == {"ca"}


def test_an_unknown_language_names_those_there_are(tmp_path: Path) -> None:
    source = make_release(tmp_path / "cv")
    with pytest.raises(ArborvoxError, match=r"has no fr; it has ca, es"):
        run(source, tmp_path / "out", languages=("fr",))


def test_a_missing_column_is_named(tmp_path: Path) -> None:
    tone(tmp_path / "cv/ca/clips/a.flac")
    (tmp_path / "cv/ca/validated.tsv").write_text("client_id\tpath\nx\ta.flac\n")
    with pytest.raises(ArborvoxError, match=r"validated\.tsv, line 1: no column sentence"):
        run(tmp_path / "cv", tmp_path / "out")


def test_one_speaker_alone_is_warned_about(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = make_release(tmp_path / "cv", languages=["ca"], speakers=1)
    run(source, tmp_path / "out")
    assert "too few speakers" in capsys.readouterr().err


@pytest.mark.real_data
def test_real_clips_are_all_accounted_for(data_root: Path, tmp_path: Path) -> None:
    source = data_root / "common_voice"
    out = run(source, tmp_path / "out", languages=("ca", "pt"), check="headers")
    total = sum(len(read_cuts(out, split)) for split in SPLITS) + len(read_skipped(out))
    assert total == 200
    for key in ("speaker", "text"):
        train, dev, test = all_of(out, key)
        assert not (train & dev or train & test or dev & test)
