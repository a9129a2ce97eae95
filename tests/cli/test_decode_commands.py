"""`arborvox decode` and `arborvox transcribe` as a user meets them."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest
import soundfile
import typer
from typer.testing import CliRunner

from arborvox.cli.decode import register
from arborvox.errors import ArborvoxError

sys.path.insert(0, str(Path(__file__).parents[1] / "decode"))
from checkpoints import make_checkpoint

app = typer.Typer()
register(app)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_checkpoint(tmp_path_factory.mktemp("model") / "run")


def write_sound(path: Path, seconds: float = 1.0) -> Path:
    chance = np.random.default_rng(0)
    path.parent.mkdir(exist_ok=True)
    soundfile.write(path, 0.1 * chance.normal(size=round(16000 * seconds)), 16000)
    return path


def call(*arguments: object) -> tuple[int, str]:
    """Run a command; return its exit code and standard output. Our own errors come through."""
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    if isinstance(result.exception, ArborvoxError):
        raise result.exception
    return result.exit_code, result.stdout


def test_one_file_goes_to_standard_output(run: Path, tmp_path: Path) -> None:
    code, told = call("transcribe", run, write_sound(tmp_path / "x.wav"), "--mode", "ctc-beam")
    assert code == 0
    assert told.endswith("\n")
    assert "x.wav" not in told


@pytest.mark.parametrize("kind", ["txt", "json", "srt", "vtt"])
def test_transcripts_go_to_a_folder(run: Path, tmp_path: Path, kind: str) -> None:
    files = [write_sound(tmp_path / name) for name in ("a.wav", "b.flac")]
    out = tmp_path / "out"
    code, _ = call("transcribe", run, *files, "--out", out, "--format", kind, "--beam", 2)
    assert code == 0
    assert sorted(path.name for path in out.iterdir()) == [f"a.{kind}", f"b.{kind}"]
    if kind == "json":
        assert json.loads((out / "a.json").read_text())["duration_s"] == 1.0


def test_a_failing_file_does_not_stop_the_others(run: Path, tmp_path: Path) -> None:
    text = tmp_path / "text.wav"
    text.write_text("bon dia")
    files = [text, tmp_path / "missing.wav", write_sound(tmp_path / "good.wav")]
    out = tmp_path / "out"
    code, _ = call("transcribe", run, *files, "--out", out, "--mode", "ctc-greedy")
    assert code == 1
    assert [path.name for path in out.iterdir()] == ["good.txt"]


def test_two_files_never_share_a_transcript(run: Path, tmp_path: Path) -> None:
    files = [write_sound(tmp_path / folder / "x.wav") for folder in ("a", "b")]
    with pytest.raises(ArborvoxError, match="would both be written"):
        call("transcribe", run, *files, "--out", tmp_path / "out")


def test_decode_names_what_is_missing(run: Path, tmp_path: Path) -> None:
    with pytest.raises(ArborvoxError, match="no manifest"):
        call("decode", run, tmp_path / "cuts.jsonl.gz", "--out", tmp_path / "hyps.jsonl")
    with pytest.raises(ArborvoxError, match="no checkpoint folder"):
        call("decode", tmp_path / "none", tmp_path / "cuts.jsonl.gz")


def test_wrong_options_are_usage_errors(run: Path, tmp_path: Path) -> None:
    assert call("transcribe", run, tmp_path / "x.wav", "--mode", "magic")[0] == 2
    assert call("transcribe", run, tmp_path / "x.wav", "--beam", 0)[0] == 2
    assert call("transcribe", run)[0] == 2
