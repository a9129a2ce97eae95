"""Thirty and more kinds of broken input: the good is prepared, every bad one is listed."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import soundfile
from releases import make_release, row, tone, write_table
from test_common_voice import read_cuts, read_skipped

from arborvox.config import CommonVoiceCorpus, FolderCorpus
from arborvox.corpora import prepare
from arborvox.errors import ArborvoxError

SPLITS = ("train", "dev", "test")


def broken_release(root: Path) -> tuple[Path, dict[str, str]]:
    """Write a release of good and bad clips; return it and what each bad one must be called."""
    folder = make_release(root, languages=["ca"], clips=30) / "ca"
    clips = folder / "clips"
    rows: list[str | bytes] = []
    expected: dict[str, str] = {}

    def bad_clip(name: str, reason: str) -> Path:
        rows.append(row("breaker", name, f"frase bona {'abcdefghijklmnopqrstuvwxyz'[len(rows)]}"))
        expected[f"ca/clips/{name}"] = reason
        return clips / name

    def bad_row(line: str | bytes, reason: str) -> None:
        rows.append(line)
        expected[f"ca/validated.tsv, line {31 + len(rows)}"] = reason

    # Audio that is no good.
    whole = tone(root / "whole.mp3", seconds=4.0).read_bytes()
    bad_clip("truncated.mp3", "truncated").write_bytes(whole[: len(whole) // 3])
    flac = tone(root / "whole.flac", seconds=4.0).read_bytes()
    bad_clip("truncated.flac", "truncated").write_bytes(flac[: len(flac) // 2])
    wav = tone(root / "whole.wav", seconds=4.0).read_bytes()
    bad_clip("truncated.wav", "truncated").write_bytes(wav[: len(wav) // 2])
    bad_clip("text.mp3", "not audio").write_text("this is a text file\n" * 20)
    bad_clip("empty.mp3", "0 bytes").write_bytes(b"")
    bad_clip("noise.mp3", "not audio").write_bytes(np.random.default_rng(0).bytes(4000))
    bad_clip("missing.mp3", "no such file")
    soundfile.write(bad_clip("no_samples.wav", "no samples"), np.zeros(0), 16_000)
    soundfile.write(bad_clip("silent.flac", "silent"), np.zeros(16_000), 16_000)
    nan = np.full(16_000, np.nan, np.float32)
    soundfile.write(bad_clip("nan.wav", "NaN"), nan, 16_000, subtype="FLOAT")
    infinite = np.full(16_000, np.inf, np.float32)
    soundfile.write(bad_clip("infinite.wav", "infinite"), infinite, 16_000, subtype="FLOAT")
    tone(bad_clip("long.flac", "too long"), seconds=31.0)
    tone(bad_clip("short.flac", "too short"), seconds=0.05)
    bad_clip("loop.mp3", "").symlink_to(clips / "loop.mp3")
    bad_clip("dangling.mp3", "no such file").symlink_to(clips / "nowhere.mp3")
    bad_clip("folder.mp3", "").mkdir()
    bad_clip("header_only.wav", "").write_bytes(wav[:44])
    # Rows that are no good.
    good = tone(clips / "good.flac").name
    bad_row("only\ttwo", "ragged row")
    bad_row(row("x", "one_too_many.mp3", "massa") + "\textra", "ragged row")
    bad_row("", "ragged row")
    bad_row(row("x", "../../../etc/passwd", "fora"), "path outside the corpus")
    bad_row(row("x", "/etc/passwd", "fora"), "path outside the corpus")
    bad_row(row("x", "..\\..\\secret.mp3", "fora"), "path outside the corpus")
    bad_row(row("x", "", "sense camí"), "no path")
    bad_row(row("x", "nul\0.mp3", "zero"), "path outside the corpus")
    bad_row(b"x\tbad_\xff_name.mp3\tcam\xc3\xad" + b"\t" * 7, "path is not UTF-8")
    rows.append(row("good", good, "aquesta és bona"))
    bad_row(row("good", good, "aquesta és bona"), "duplicate row")
    # Sentences that are no good.
    for name, sentence, reason in [
        ("no_sentence.flac", "", "no letters left"),
        ("only_spaces.flac", "  \u00a0 ", "no letters left"),
        ("only_marks.flac", "?! … «»", "no letters left"),
        ("digits.flac", "tinc 12 gats", "digits"),
        ("foreign.flac", "привет", "foreign script"),
    ]:
        tone(clips / name)
        rows.append(row("breaker", name, sentence))
        expected[f"ca/clips/{name}"] = reason
    tone(clips / "not_utf8.flac")
    rows.append(b"x\tnot_utf8.flac\tcam\xed aqu\xed" + b"\t" * 7)
    expected["ca/clips/not_utf8.flac"] = "sentence is not UTF-8"
    tone(clips / "stray.flac")
    expected["ca/clips/stray.flac"] = "not in validated.tsv"
    table = folder / "validated.tsv"
    table.write_bytes(
        table.read_bytes()
        + b"".join((line if isinstance(line, bytes) else line.encode()) + b"\n" for line in rows)
    )
    return root, expected


def test_the_good_is_prepared_and_every_bad_one_is_listed(tmp_path: Path) -> None:
    source, expected = broken_release(tmp_path / "cv")
    assert len(expected) >= 30
    prepare(CommonVoiceCorpus(source=str(source)), tmp_path / "out", jobs=2)
    skipped = read_skipped(tmp_path / "out")
    for file, reason in expected.items():
        assert file in skipped, f"{file} is not listed"
        assert reason in skipped[file], f"{file}: {skipped[file]}"
    faults = {f for f, why in skipped.items() if why != "sentence is in another split"}
    assert faults == set(expected)
    kept = [cut["id"] for split in SPLITS for cut in read_cuts(tmp_path / "out", split)]
    assert len(kept) + len(skipped) - len(faults) == 31
    assert "ca-good" in kept


def test_strict_refuses_and_publishes_only_the_list(tmp_path: Path) -> None:
    source, expected = broken_release(tmp_path / "cv")
    config = CommonVoiceCorpus(source=str(source))
    with pytest.raises(ArborvoxError, match="faulty inputs"):
        prepare(config, tmp_path / "out", jobs=1, strict=True)
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["skipped.tsv"]
    assert set(expected) <= set(read_skipped(tmp_path / "out"))


def test_strict_accepts_a_sound_release(tmp_path: Path) -> None:
    source = make_release(tmp_path / "cv")
    config = CommonVoiceCorpus(source=str(source), ratio=0.5)
    prepare(config, tmp_path / "out", jobs=1, strict=True)
    assert (tmp_path / "out/stats.json").is_file()


def test_nothing_usable_is_an_error_that_says_where_the_reasons_are(tmp_path: Path) -> None:
    (tmp_path / "cv/ca/clips").mkdir(parents=True)
    write_table(tmp_path / "cv/ca", [row("x", "gone.mp3", "res")])
    with pytest.raises(ArborvoxError, match=r"no usable utterance \(\d+ left out: .*skipped\.tsv"):
        prepare(CommonVoiceCorpus(source=str(tmp_path / "cv")), tmp_path / "o", jobs=1)


def test_an_empty_table_is_listed(tmp_path: Path) -> None:
    source = make_release(tmp_path / "cv", languages=["es"])
    (source / "ca").mkdir()
    (source / "ca/validated.tsv").write_bytes(b"")
    prepare(CommonVoiceCorpus(source=str(source)), tmp_path / "out", jobs=1)
    assert read_skipped(tmp_path / "out")["ca/validated.tsv"] == "no header row"


def test_broken_files_in_a_plain_folder_are_listed(tmp_path: Path) -> None:
    source = tmp_path / "mine"
    for i in range(20):
        tone(source / f"good{i}.wav")
        (source / f"good{i}.txt").write_text(f"paraula {'abcdefghijklmnopqrst'[i]}")
    tone(source / "no_text.wav")
    (source / "no_audio.txt").write_text("res")
    tone(source / "bad_text.wav")
    (source / "bad_text.txt").write_bytes(b"\xff\xfe\xfa")
    (source / "fake.wav").write_text("no sound")
    (source / "fake.txt").write_text("fals")
    (source / "deep").mkdir()
    (source / "deep/loop").symlink_to(source)
    config = FolderCorpus(source=str(source), language="ca")
    prepare(config, tmp_path / "out", jobs=1)
    skipped = read_skipped(tmp_path / "out")
    assert set(skipped) == {"no_text.wav", "no_audio.txt", "bad_text.wav", "fake.wav"}
    kept = [cut for split in SPLITS for cut in read_cuts(tmp_path / "out", split)]
    assert len(kept) == 20


KILLER = """
import os, signal, sys
from pathlib import Path
from arborvox import files
from arborvox.corpora import manifests
step, out = int(sys.argv[1]), sys.argv[3]
calls = 0
def count_and_kill(original):
    def wrapped(*arguments, **keys):
        global calls
        calls += 1
        if calls == step:
            os.kill(os.getpid(), signal.SIGKILL)
        return original(*arguments, **keys)
    return wrapped
Path.replace = count_and_kill(Path.replace)
files._sync = count_and_kill(files._sync)
manifests.SplitStats.__init__ = count_and_kill(manifests.SplitStats.__init__)
from arborvox.corpora import common_voice
common_voice.write_language = count_and_kill(common_voice.write_language)
from arborvox.cli import main
main(["prepare", "common-voice", sys.argv[2], "--out", out, "--jobs", "1", "--quiet"])
"""


def test_killed_at_any_moment_no_half_written_manifest_has_its_final_name(tmp_path: Path) -> None:
    source = make_release(tmp_path / "cv", languages=["ca"], clips=20)
    prepare(CommonVoiceCorpus(source=str(source)), tmp_path / "whole", jobs=1)
    whole = {path.name: path.read_bytes() for path in (tmp_path / "whole").iterdir()}
    killed = 0
    for step in (1, 3, 8, 11, 12, 13, 15):
        out = tmp_path / f"out{step}"
        command = [sys.executable, "-c", KILLER, str(step), str(source), str(out)]
        done = subprocess.run(command, check=False, capture_output=True, env=dict(os.environ))
        killed += done.returncode == -signal.SIGKILL
        there = [path for path in out.iterdir() if path.is_file()] if out.is_dir() else []
        for path in there:
            assert path.read_bytes() == whole[path.name], f"{path.name} after kill {step}"
        if "stats.json" in {path.name for path in there}:
            assert {path.name for path in there} == set(whole)
    assert killed >= 6
