"""`arborvox decode` and `arborvox transcribe` as a user meets them."""

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import soundfile
import typer
from typer.testing import CliRunner

from arborvox import transcribe
from arborvox.cli.decode import register
from arborvox.config import DecodeConfig
from arborvox.errors import ArborvoxError
from arborvox.files import write_text_atomic

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


def write_odd_name(folder: Path) -> Path:
    """Write a recording whose name is Latin-1, as old archives have them."""
    return write_sound(folder / "cafe.wav").rename(folder / os.fsdecode(b"caf\xe9.wav"))


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


def test_odd_names_cost_only_themselves(run: Path, tmp_path: Path) -> None:
    """A name that is not UTF-8 is no trouble; one that leaves no room for an ending is named."""
    odd = write_odd_name(tmp_path)
    long = write_sound(tmp_path / ("n" * 245 + ".wav"))
    longest = write_sound(tmp_path / ("m" * 251 + ".wav"))
    files = [odd, longest, long, write_sound(tmp_path / "good.wav")]
    out = tmp_path / "out"
    code, _ = call(
        "transcribe", run, *files, "--out", out, "--mode", "ctc-greedy", "--format", "json"
    )
    assert code == 1  # m….json would have 256 bytes
    names = {os.fsencode(path.name) for path in out.iterdir()}
    assert names == {b"caf\xe9.json", b"n" * 245 + b".json", b"good.json"}
    code, told = call("transcribe", run, odd, long, "--mode", "ctc-greedy")
    assert code == 0
    assert "good" not in told


def test_names_that_are_not_utf8_reach_a_real_terminal(run: Path, tmp_path: Path) -> None:
    odd = write_odd_name(tmp_path)
    words = ["-m", "arborvox", "transcribe", run, odd, odd, "--mode", "ctc-greedy"]
    done = subprocess.run([sys.executable, *words], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count(b"caf\xe9.wav:\n") == 2


def test_a_full_disk_is_named_with_its_file(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(path: Path, text: str) -> None:
        if path.name == "a.txt":
            raise OSError(errno.ENOSPC, "No space left on device", str(path))
        write_text_atomic(path, text)

    monkeypatch.setattr(transcribe, "write_text_atomic", fail)
    files = [write_sound(tmp_path / name) for name in ("a.wav", "b.wav")]
    code = transcribe.transcribe_files(
        run, files, DecodeConfig(mode="ctc-greedy"), kind="txt", out=tmp_path / "out"
    )
    assert code == 1
    told = capsys.readouterr().err
    assert "a.wav" in told and "a.txt: No space left on device" in told
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["b.txt"]


def test_folders_are_walked_and_mirrored(run: Path, tmp_path: Path) -> None:
    (tmp_path / "in/b").mkdir(parents=True)
    for name in ("z.wav", "b/x.FLAC", "b/x.y.ogg"):
        write_sound(tmp_path / "in" / name)
    (tmp_path / "in/notes.txt").write_text("no sound")
    (tmp_path / "in/b/broken.mp3").write_text("no sound either")
    alone = write_sound(tmp_path / "alone.wav")
    out = tmp_path / "out"
    arguments = ("transcribe", run, tmp_path / "in", alone, "--mode", "ctc-greedy")
    code, _ = call(*arguments, "--out", out)
    assert code == 1  # for the recording that is none
    found = sorted(path.relative_to(out).as_posix() for path in out.rglob("*.txt"))
    assert found == ["alone.txt", "b/x.txt", "b/x.y.txt", "z.txt"]
    code, told = call(*arguments)
    heads = [line for line in told.splitlines() if line.startswith(str(tmp_path))]
    assert [Path(head.rstrip(":")).name for head in heads] == [
        "z.wav", "x.FLAC", "x.y.ogg", "alone.wav",
    ]  # fmt: skip
    (tmp_path / "empty").mkdir()
    with pytest.raises(ArborvoxError, match=r"empty holds no recordings; they end in .*\.wav"):
        call("transcribe", run, tmp_path / "empty")


def test_decode_uses_the_recipes_own_search(tmp_path: Path) -> None:
    """A recipe tuned with a CTC weight of 0.5 is decoded with it, unless an option says other."""
    run = make_checkpoint(tmp_path / "run", decode={"ctc_weight": 0.5, "beam": 2})
    sound = write_sound(tmp_path / "x.wav")
    cut = {
        "id": "x", "start": 0, "duration": 1.0, "channel": 0, "type": "MonoCut",
        "supervisions": [{"id": "x", "recording_id": "x", "start": 0, "duration": 1.0,
                          "text": "a b", "language": "x-x"}],
        "recording": {"id": "x", "sources": [
            {"type": "file", "channels": [0], "source": str(sound)}],
            "sampling_rate": 16000, "num_samples": 16000, "duration": 1.0},
    }  # fmt: skip
    cuts = tmp_path / "cuts.jsonl"
    cuts.write_text(json.dumps(cut) + "\n")
    for options, weight in (((), 0.5), (("--ctc-weight", 0.1), 0.1)):
        out = tmp_path / f"{weight}.jsonl"
        assert call("decode", run, cuts, "--out", out, *options)[0] == 0
        header = json.loads(out.read_text().splitlines()[0])
        assert (header["mode"], header["beam"]) == ("joint", 2)
        assert header["settings"]["ctc_weight"] == weight


def test_devices_are_checked(run: Path, tmp_path: Path) -> None:
    sound = write_sound(tmp_path / "x.wav")
    assert call("transcribe", run, sound, "--device", "cpu", "--mode", "ctc-greedy")[0] == 0
    with pytest.raises(ArborvoxError, match="Device cuda:99 cannot be used"):
        call("transcribe", run, sound, "--device", "cuda:99")


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
