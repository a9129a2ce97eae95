"""Laws of users' tables: what programs write is read, what is wrong costs a row or is said."""

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from releases import make_release, row, tone, write_table
from test_common_voice import read_cuts, read_skipped
from test_folder import LETTERS, SPLITS, run

from arborvox.config import CommonVoiceCorpus, FolderCorpus, UclaCorpus
from arborvox.corpora import prepare
from arborvox.corpora.checks import count_units, length_problem
from arborvox.corpora.folder_sources import read_rows
from arborvox.corpora.manifests import Skipped
from arborvox.errors import ArborvoxError


def make_recordings(folder: Path, count: int = 12, seconds: float = 1.0) -> list[str]:
    """Write recordings; return rows of a table: path, text, speaker."""
    for number in range(count):
        tone(folder / f"{number}.wav", seconds=seconds)
    return [f"{number}.wav,bon {LETTERS[number]},s{number % 4}" for number in range(count)]


def table_of(path: Path, lines: list[str], encoding: str = "utf-8", end: str = "\n") -> Path:
    path.write_bytes((end.join(lines) + end).encode(encoding))
    return path


def speakers_by_split(out: Path) -> list[set[str]]:
    return [{cut["supervisions"][0].get("speaker") for cut in read_cuts(out, s)} for s in SPLITS]


@pytest.mark.parametrize(
    "speakers", [[1, 2, 3, 4], [0, 1, 2, 3], [1.5, 2.50, 3.0, -0.0], [True, False, "true ", "x"]]
)
def test_speakers_that_are_no_strings_are_speakers(tmp_path: Path, speakers: list[Any]) -> None:
    lines = []
    for number in range(24):
        tone(tmp_path / f"{number}.wav")
        cells = {"path": f"{number}.wav", "text": f"bon {LETTERS[number]}"}
        lines.append(json.dumps(cells | {"speaker": speakers[number % 4]}))
    table = table_of(tmp_path / "t.jsonl", lines)
    run(table, tmp_path / "out", {"language": "ca"}, split="speaker")
    train, dev, test = speakers_by_split(tmp_path / "out")
    assert test and None not in train | dev | test
    assert not (train & test or train & dev or dev & test)


def test_scalars_count_as_they_are_written_and_the_rest_costs_its_row(tmp_path: Path) -> None:
    make_recordings(tmp_path)
    good = [json.dumps({"path": f"{i}.wav", "text": f"bon {LETTERS[i]}"}) for i in range(1, 12)]
    shutil.copy(tmp_path / "0.wav", tmp_path / "77")
    bad = [
        '{"path": "0.wav", "text": null}',
        '{"path": "0.wav", "text": ["a"]}',
        '{"path": "0.wav", "text": {"a": 1}}',
        '{"path": null, "text": "a"}',
        '{"path": "0.wav", "text": "a", "speaker": [1]}',
        '{"path": "0.wav", "text": "a", "text": "b"}',
        '{"path": "0.wav", "text": "\\ud800"}',
        '{"path": "0.wav", "text": "a\\u0000"}',
        '{"path": "0.wav", "text": "' + "a" * 100_001 + '"}',
        "[" * 5000,
        "1" * 5000,
    ]
    numbers = ['{"path": 77, "text": 12.50, "speaker": 1}']
    table = table_of(tmp_path / "t.jsonl", [*good, *bad, *numbers])
    cuts = run(table, tmp_path / "out", {"language": "ca"}, digits="keep")
    assert {cut["supervisions"][0]["text"] for cut in cuts if cut["id"] == "77"} == {"12 50"}
    assert len(cuts) == 12
    skipped = read_skipped(tmp_path / "out")
    assert [skipped[f"t.jsonl, line {12 + i}"].partition(":")[0] for i in range(len(bad))] == [
        "no text",
        "text is a list",
        "text is an object",
        "no path",
        "speaker is a list",
        "two values of one name",
        "not UTF-8",
        "zero byte in text",
        "cell too long",
        "not a JSON object",
        "not a JSON object",
    ]


@pytest.mark.parametrize("place", [0, 5, 11])
def test_an_unclosed_quote_costs_one_row_and_is_named_with_its_line(
    tmp_path: Path, place: int
) -> None:
    rows = make_recordings(tmp_path)
    rows[place] = rows[place].replace("bon", '"bon')
    table = table_of(tmp_path / "t.csv", ["path,text,speaker", *rows])
    cuts = run(table, tmp_path / "out", {"language": "ca"})
    assert len(cuts) == 11
    assert read_skipped(tmp_path / "out") == {
        f"t.csv, line {place + 2}": "unclosed quote: it opens in this line"
    }


def test_a_quote_closed_rows_later_swallows_none_of_them(tmp_path: Path) -> None:
    rows = make_recordings(tmp_path)
    rows[3] = '3.wav,"bon d,s1'
    rows[7] = '7.wav,"bon h",s1'
    rows[9] = '9.wav,bon j",s1'
    table = table_of(tmp_path / "t.csv", ["path,text,speaker", *rows])
    cuts = run(table, tmp_path / "out", {"language": "ca"})
    assert {cut["id"] for cut in cuts} == set(map(str, range(12))) - {"3"}


def test_line_ends_within_a_quoted_cell_belong_to_it(tmp_path: Path) -> None:
    rows = make_recordings(tmp_path)
    rows[3] = '3.wav,"bon\nd, ""i"" prou",s1'
    table = table_of(tmp_path / "t.csv", ["path,text,speaker", *rows])
    cuts = run(table, tmp_path / "out", {"language": "ca"})
    assert len(cuts) == 12
    assert "bon d i prou" in {cut["supervisions"][0]["text"] for cut in cuts}


@pytest.mark.parametrize("ending", ["csv", "tsv"])
def test_two_columns_of_one_name_are_refused(tmp_path: Path, ending: str) -> None:
    delimiter = "," if ending == "csv" else "\t"
    header = delimiter.join(["path", "text", "text"])
    table = table_of(tmp_path / f"t.{ending}", [header, delimiter.join(["a.wav", "a", "b"])])
    with pytest.raises(ArborvoxError, match="line 1: two columns are called text"):
        run(table, tmp_path / "out", {"language": "ca"})


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-be", "utf-32"])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_csv_of_every_program_is_read(
    tmp_path: Path, delimiter: str, encoding: str, end: str
) -> None:
    rows = [f"{number}.wav,bon {LETTERS[number]},s1" for number in range(12)]
    lines = [line.replace(",", delimiter) for line in ["path,text,speaker", *rows]]
    lines[0] = ("\ufeff" if encoding == "utf-16-be" else "") + lines[0]
    table = table_of(tmp_path / "t.csv", lines, encoding, end)
    skipped: list[Skipped] = []
    found = read_rows(table, FolderCorpus(language="ca"), skipped)
    assert [row.text for row in found] == [f"bon {letter}" for letter in LETTERS[:12]]
    assert skipped == []


@pytest.mark.parametrize("ending", ["tsv", "jsonl"])
def test_other_tables_in_utf_16_with_cr_are_read(tmp_path: Path, ending: str) -> None:
    rows = [line.split(",") for line in make_recordings(tmp_path)]
    names = ["path", "text", "speaker"]
    if ending == "tsv":
        lines = ["\t".join(cells) for cells in [names, *rows]]
    else:
        lines = [json.dumps(dict(zip(names, cells, strict=True))) for cells in rows]
    table = table_of(tmp_path / f"t.{ending}", lines, "utf-16", "\r")
    assert len(run(table, tmp_path / "out", {"language": "ca"})) == 12


def test_utf_16_without_its_mark_is_said(tmp_path: Path) -> None:
    table = table_of(tmp_path / "t.csv", ["path,text", "a.wav,a"], "utf-16-le")
    with pytest.raises(ArborvoxError, match="save it as UTF-8"):
        run(table, tmp_path / "out", {"language": "ca"})


def test_a_row_without_a_language_costs_that_row_and_none_at_all_is_an_error(
    tmp_path: Path,
) -> None:
    rows = [f"{line},ca" for line in make_recordings(tmp_path)]
    rows[4] = rows[4].removesuffix("ca")
    table = table_of(tmp_path / "t.csv", ["path,text,speaker,language", *rows])
    assert len(run(table, tmp_path / "out", {})) == 11
    assert read_skipped(tmp_path / "out") == {"t.csv, line 6": "no language"}
    table = table_of(tmp_path / "t.csv", ["path,text,speaker", *make_recordings(tmp_path)])
    with pytest.raises(ArborvoxError, match="line 2: no language; give --language"):
        run(table, tmp_path / "out", {})


def test_texts_too_long_for_their_audio_are_listed(tmp_path: Path) -> None:
    rows = make_recordings(tmp_path)
    rows[2] = f"2.wav,{'ab ' * 6000},s1"
    table = table_of(tmp_path / "t.csv", ["path,text,speaker", *rows])
    cuts = run(table, tmp_path / "out", {"language": "ca"})
    reason = read_skipped(tmp_path / "out")["2.wav"]
    assert reason == "text too long for its audio: 17,999 characters in 1.0 s"
    assert len(cuts) == 11
    generous = run(table, tmp_path / "more", {"language": "ca"}, max_units_per_s=20_000)
    assert len(generous) == 12


def test_texts_too_long_are_found_in_every_kind_of_corpus(tmp_path: Path) -> None:
    release = make_release(tmp_path / "cv", languages=["ca"])
    tone(release / "ca/clips/long.flac", seconds=4.0)
    with (release / "ca/validated.tsv").open("a") as table:
        table.write(row("x", "long.flac", "ab " * 6000) + "\n")
    for i in range(30):
        tone(tmp_path / f"ucla/abk/audio/u{i}.wav")
    lines = [f"u{i} a d {'ʃʲ ' * (100 if i == 3 else 1)}" for i in range(30)]
    (tmp_path / "ucla/abk/text.txt").write_text("\n".join(lines))
    common_voice = CommonVoiceCorpus(source=str(release))
    ucla = UclaCorpus(source=str(tmp_path / "ucla"))
    for config, file in ((common_voice, "ca/clips/long.flac"), (ucla, "abk/audio/u3.wav")):
        prepare(config, tmp_path / f"out-{config.kind}", jobs=1)
        skipped = read_skipped(tmp_path / f"out-{config.kind}")
        assert skipped[file].startswith("text too long for its audio: ")
        assert sum("too long" in reason for reason in skipped.values()) == 1


@pytest.mark.real_data
def test_no_real_text_is_too_long_for_its_audio(data_root: Path, tmp_path: Path) -> None:
    config = CommonVoiceCorpus(source=str(data_root / "common_voice"))
    prepare(config.model_copy(update={"check": "headers"}), tmp_path / "out", jobs=2)
    assert not [why for why in read_skipped(tmp_path / "out").values() if "too long" in why]


def test_phones_are_counted_and_not_their_letters() -> None:
    config = FolderCorpus(unit="phones")
    assert count_units("d͡ʒ ʃʲ a", config) == 3
    assert length_problem(40, 1.0, config) == ""
    assert length_problem(41, 1.0, config) == "text too long for its audio: 41 phones in 1.0 s"


def test_a_name_that_is_not_utf8_is_listed_and_the_others_stay(tmp_path: Path) -> None:
    source = tmp_path / "src"
    for number in range(12):
        tone(source / f"{number}.wav")
        (source / f"{number}.txt").write_text(f"mot {LETTERS[number]}")
    for name in (b"caf\xe9", b"lone\xff", b"line\nend\tand tab"):
        shutil.copy(source / "0.wav", os.fsencode(source) + b"/" + name + b".wav")
        if name != b"lone\xff":
            shutil.copy(source / "0.txt", os.fsencode(source) + b"/" + name + b".txt")
    (source / os.fsdecode(b"stray\xfe.txt")).write_text("res")
    tone(source / "odd\tname.wav")
    cuts = run(source, tmp_path / "out", {"language": "fr"})
    assert len(cuts) == 13
    skipped = read_skipped(tmp_path / "out")
    assert skipped["caf\\xe9.wav"].startswith("file name is not UTF-8: ")
    assert skipped["lone\\xff.wav"] == "no text: lone\\xff.txt is missing"
    assert skipped["stray\\xfe.txt"] == "no audio of that name"
    assert skipped["odd\\tname.wav"].startswith("no text")


def test_a_text_file_that_is_a_pipe_or_huge_costs_its_recording(tmp_path: Path) -> None:
    source = tmp_path / "src"
    for number in range(14):
        tone(source / f"{number}.wav")
        (source / f"{number}.txt").write_text(f"mot {LETTERS[number]}")
    (source / "0.txt").unlink()
    os.mkfifo(source / "0.txt")
    (source / "1.txt").write_text("a" * 1_000_001)
    (source / "2.txt").write_text("mot ç", encoding="utf-16")
    assert len(run(source, tmp_path / "out", {"language": "fr"})) == 12
    skipped = read_skipped(tmp_path / "out")
    assert skipped["0.wav"] == "text file: not a regular file"
    assert skipped["1.wav"] == "text file: longer than 1,000,000 bytes"


def test_a_language_folder_that_is_not_utf8_is_left_out_and_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    release = make_release(tmp_path / "cv", languages=["ca"])
    (release / "ca/clips" / os.fsdecode(b"stray\xff.mp3")).touch()
    bad = release / os.fsdecode(b"c\xe1")
    bad.mkdir()
    shutil.copy(release / "ca/validated.tsv", bad)
    prepare(CommonVoiceCorpus(source=str(release)), tmp_path / "out", jobs=1)
    assert "c\\xe1 is left out" in capsys.readouterr().err
    assert "ca/clips/stray\\xff.mp3" in read_skipped(tmp_path / "out")


@pytest.mark.parametrize(
    ("count", "words"),
    [
        (5, ["the development set is empty", "the test set is empty: 10% of 5 is less than one"]),
        (12, ["the development set is empty: 5% of 12 is less than one utterance"]),
    ],
)
def test_an_empty_set_is_said_and_strict_refuses_it(
    tmp_path: Path, count: int, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    rows = make_recordings(tmp_path, count)
    table = table_of(tmp_path / "t.csv", ["path,text,speaker", *rows])
    assert len(run(table, tmp_path / "out", {"language": "ca"})) == count
    said = capsys.readouterr().err
    for sentence in words:
        assert sentence in said
    assert said.count("set is empty") == len(words)
    config = FolderCorpus(source=str(table), language="ca")
    with pytest.raises(ArborvoxError, match="the development set is empty"):
        prepare(config, tmp_path / "strict", jobs=1, strict=True)
    assert [path.name for path in (tmp_path / "strict").iterdir()] == ["skipped.tsv"]


def test_a_release_whose_own_test_set_is_empty_is_told_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    release = make_release(tmp_path / "cv", languages=["ca"])
    lines = (release / "ca/validated.tsv").read_text().splitlines()[1:]
    write_table(release / "ca", lines[:20], "train.tsv")
    write_table(release / "ca", lines[20:], "dev.tsv")
    write_table(release / "ca", [], "test.tsv")
    config = CommonVoiceCorpus(source=str(release), split="official")
    prepare(config, tmp_path / "out", jobs=1)
    assert "test.tsv names no clip that can be used" in capsys.readouterr().err


def test_an_empty_training_set_is_an_error(tmp_path: Path) -> None:
    rows = [line.replace(",bon", ",bon dia").split(",") for line in make_recordings(tmp_path)]
    lines = [f"{path},el mateix,{speaker}" for path, _, speaker in rows]
    table = table_of(tmp_path / "t.csv", ["path,text,speaker", *lines])
    with pytest.raises(ArborvoxError, match="the training set is empty"):
        run(table, tmp_path / "out", {"language": "ca"}, split="speaker")


def test_no_split_is_announced_where_nothing_can_be_used(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = table_of(tmp_path / "t.csv", ["path,text,speaker", "gone.wav,bon,s1"])
    with pytest.raises(ArborvoxError, match="no usable utterance"):
        run(table, tmp_path / "out", {"language": "ca"})
    assert "split" not in capsys.readouterr().err
