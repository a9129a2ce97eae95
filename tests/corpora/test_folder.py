"""Users' own recordings: pairs, tables and Kaldi folders give the same kind of corpus."""

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
LETTERS = "abcdefghijklmnopqrstuvwxyz"


def run(source: Path, out: Path, columns: dict[str, Any], **keys: Any) -> list[dict[str, Any]]:
    config = FolderCorpus(source=str(source), **columns, **keys)
    prepare(config, out, jobs=1)
    return [cut for split in SPLITS for cut in read_cuts(out, split)]


def test_pairs_of_audio_and_text(tmp_path: Path) -> None:
    for i in range(20):
        tone(tmp_path / "src/sub" / f"r{i}.wav", rate=8000, channels=2)
        (tmp_path / "src/sub" / f"r{i}.txt").write_text(f"Мин {LETTERS[i]}.".replace("a", "а"))
    cuts = run(tmp_path / "src", tmp_path / "out", {"language": "sah"}, foreign="keep")
    assert len(cuts) == 20
    assert cuts[0]["recording"]["sampling_rate"] == 8000
    assert cuts[0]["recording"]["channel_ids"] == [0, 1]
    assert cuts[0]["supervisions"][0]["language"] == "sah"


@pytest.mark.parametrize("ending", ["csv", "tsv", "jsonl"])
def test_tables_with_their_own_columns(tmp_path: Path, ending: str) -> None:
    rows = []
    for i in range(24):
        tone(tmp_path / "audio" / f"{i}.flac")
        rows.append((f"audio/{i}.flac", f'he said "{LETTERS[i]}"', f"s{i % 6}"))
    table = tmp_path / f"table.{ending}"
    if ending == "csv":
        body = [
            "file,words,who",
            *(f'{p},"{t.replace(chr(34), chr(34) * 2)}",{s}' for p, t, s in rows),
        ]
    elif ending == "tsv":
        body = ["file\twords\twho", *("\t".join(cells) for cells in rows)]
    else:
        body = [json.dumps({"file": p, "words": t, "who": s}) for p, t, s in rows]
    table.write_text("\n".join(body) + "\n")
    columns = {
        "language": "en",
        "audio_column": "file",
        "text_column": "words",
        "speaker_column": "who",
    }
    cuts = run(table, tmp_path / "out", columns)
    texts = {cut["supervisions"][0]["text"] for cut in cuts}
    assert texts <= {f"he said {letter}" for letter in LETTERS}
    assert len(cuts) == 24
    sides = [
        {c["supervisions"][0]["speaker"] for c in read_cuts(tmp_path / "out", s)} for s in SPLITS
    ]
    assert not sides[0] & sides[2]


def test_tables_refuse_paths_outside(tmp_path: Path) -> None:
    tone(tmp_path / "secret.wav")
    for i in range(12):
        tone(tmp_path / "corpus" / f"{i}.wav")
    lines = ["path\ttext\tlanguage", *(f"{i}.wav\tbon {LETTERS[i]}\tca" for i in range(12))]
    lines += [
        "../secret.wav\tdins\tca",
        f"{tmp_path / 'secret.wav'}\tdins\tca",
        "\tdins\tca",
        ".\tdins\tca",
    ]
    (tmp_path / "corpus/t.tsv").write_text("\n".join(lines) + "\n")
    cuts = run(tmp_path / "corpus/t.tsv", tmp_path / "out", {})
    assert len(cuts) == 12
    skipped = read_skipped(tmp_path / "out")
    assert skipped["t.tsv, line 14"].startswith("path outside the corpus")
    assert skipped["t.tsv, line 15"].startswith("path outside the corpus")
    assert skipped["t.tsv, line 16"] == "no path"
    assert skipped["t.tsv, line 17"] == "path outside the corpus: ."


def test_kaldi_folders_with_segments(tmp_path: Path) -> None:
    tone(tmp_path / "data/rec1.wav", seconds=40.0)
    (tmp_path / "data/wav.scp").write_text("rec1 rec1.wav\nrec2 sph2pipe x.sph |\n")
    utterances = [f"u{i:02}" for i in range(20)]
    write = {
        "text": [f"{u} paraula {LETTERS[i]}" for i, u in enumerate(utterances)]
        + ["bad x", "pipe x"],
        "utt2spk": [f"{u} s{i % 5}" for i, u in enumerate(utterances)],
        "segments": [f"{u} rec1 {i}.5 {i + 1}.25" for i, u in enumerate(utterances)]
        + ["bad rec1 39.0 60.0", "back rec1 5 4", "pipe rec2 0 1", "lost rec9 0 1", "odd rec1"],
    }
    for name, lines in write.items():
        (tmp_path / "data" / name).write_text("\n".join(lines) + "\n")
    cuts = run(tmp_path / "data", tmp_path / "out", {"language": "ca"})
    assert len(cuts) == 20
    first = next(cut for cut in cuts if cut["id"] == "u03")
    assert (first["start"], first["duration"]) == (3.5, 0.75)
    assert first["recording"]["id"] == "rec1"
    reasons = " ".join(read_skipped(tmp_path / "out").values())
    for words in ("beyond the end", "before it starts", "nothing is run", "no such recording"):
        assert words in reasons


def test_segments_load_in_lhotse(tmp_path: Path) -> None:
    from lhotse import CutSet

    tone(tmp_path / "data/rec1.wav", seconds=30.0)
    (tmp_path / "data/wav.scp").write_text("rec1 rec1.wav\n")
    lines = [f"u{i} rec1 {i} {i}.5" for i in range(20)]
    (tmp_path / "data/segments").write_text("\n".join(lines) + "\n")
    (tmp_path / "data/text").write_text("".join(f"u{i} p {LETTERS[i]}\n" for i in range(20)))
    run(tmp_path / "data", tmp_path / "out", {"language": "ca"})
    for cut in CutSet.from_jsonl_lazy(tmp_path / "out/cuts_train.jsonl.gz"):
        assert cut.load_audio().shape == (1, 8000)


def test_few_speakers_are_split_by_sentence_and_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for i in range(20):
        tone(tmp_path / "src" / f"{i}.wav")
        (tmp_path / "src" / f"{i}.txt").write_text(f"mot {LETTERS[i // 2]}")
    run(tmp_path / "src", tmp_path / "out", {"language": "fr"})
    assert "split is by sentence" in " ".join(capsys.readouterr().err.split())
    sides = [{c["supervisions"][0]["text"] for c in read_cuts(tmp_path / "out", s)} for s in SPLITS]
    assert sides[2]
    assert not (sides[0] & sides[1] or sides[0] & sides[2] or sides[1] & sides[2])


def test_phones_are_left_as_they_are(tmp_path: Path) -> None:
    for i in range(4):
        tone(tmp_path / "src" / f"{i}.wav")
        (tmp_path / "src" / f"{i}.txt").write_text("a d͡ʒ  ʃʲ\n")
    cuts = run(tmp_path / "src", tmp_path / "out", {"language": "abk"}, unit="phones")
    assert {cut["supervisions"][0]["text"] for cut in cuts} == {"a d͡ʒ ʃʲ"}


@pytest.mark.parametrize(
    ("name", "words"),
    [("none", "no file or folder"), ("empty", "no audio file"), ("x.md", "csv, .tsv or")],
)
def test_what_cannot_be_read_is_named(tmp_path: Path, name: str, words: str) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "x.md").write_text("")
    with pytest.raises(ArborvoxError, match=words):
        run(tmp_path / name, tmp_path / "out", {"language": "ca"})


def test_a_missing_language_is_asked_for(tmp_path: Path) -> None:
    tone(tmp_path / "src/a.wav")
    with pytest.raises(ArborvoxError, match="--language"):
        run(tmp_path / "src", tmp_path / "out", {})


def test_a_missing_column_is_named_with_those_there_are(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("wav,transcript\n")
    with pytest.raises(ArborvoxError, match=r"no column path, text \(it has wav, transcript\)"):
        run(tmp_path / "t.csv", tmp_path / "out", {"language": "ca"})


@pytest.mark.parametrize("code", ["rumanian", "../../x", "/abs", "pt_BR"])
def test_a_table_with_a_wrong_language_is_refused_by_its_line(tmp_path: Path, code: str) -> None:
    rows = [{"path": "a.wav", "text": "a", "language": language} for language in ("ro", code)]
    table = tmp_path / "t.jsonl"
    table.write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(ArborvoxError, match=r"t\.jsonl, line 2: .* is no language code"):
        run(table, tmp_path / "out", {})
    with pytest.raises(ArborvoxError, match=r"corpus\.language: .* is no language code"):
        run(table, tmp_path / "out", {"language": code})


def test_harakat_are_dropped_where_the_recipe_says_so(tmp_path: Path) -> None:
    for i in range(6):
        tone(tmp_path / "src" / f"r{i}.wav")
        (tmp_path / "src" / f"r{i}.txt").write_text(f"كَتَبَ {'ابتثجح'[i]}", encoding="utf-8")
    columns = {"language": "ar"}
    kept = run(tmp_path / "src", tmp_path / "kept", columns)
    dropped = run(tmp_path / "src", tmp_path / "dropped", columns, harakat="drop")
    assert {cut["supervisions"][0]["text"].split()[0] for cut in kept} == {"كَتَبَ"}
    assert {cut["supervisions"][0]["text"].split()[0] for cut in dropped} == {"كتب"}
