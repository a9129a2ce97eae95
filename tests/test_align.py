"""`arborvox align`: from a recording and its text, or a manifest, to files with times."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest
import soundfile
import typer
from typer.testing import CliRunner

sys.path.insert(0, str(Path(__file__).parent / "annotations"))
from checkpoints import make_checkpoint
from eaf_rules import broken_rules

from arborvox.align import WRITERS, align_text
from arborvox.annotations import read_eaf, read_textgrid
from arborvox.cli.align import register
from arborvox.cli.decode import register as register_others
from arborvox.config import DecodeConfig
from arborvox.config.choices import AlignmentFormat, values_of
from arborvox.errors import ArborvoxError
from arborvox.manifest import Utterance, write_cuts
from arborvox.recognizer import Recognizer, load

app = typer.Typer()
register(app)
register_others(app)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_checkpoint(tmp_path_factory.mktemp("model") / "run", max_duration_s=3.0, seed=2)


@pytest.fixture(scope="module")
def recognizer(run: Path) -> Recognizer:
    return load(run, DecodeConfig(mode="ctc-greedy", precision="fp32"))


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    """Tones and noise by turns: what a model makes of them changes."""
    chance = np.random.default_rng(0)
    time = np.arange(3200) / 16000
    bursts = [
        chance.uniform(0.01, 0.5) * np.sin(2 * np.pi * chance.uniform(100, 4000) * time)
        + chance.uniform(0, 0.2) * chance.normal(size=len(time))
        for _ in range(40)
    ]
    soundfile.write(tmp_path / "tape.wav", np.clip(np.concatenate(bursts), -1, 1), 16000)
    return tmp_path / "tape.wav"


def call(*arguments: object) -> tuple[int, str]:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    if isinstance(result.exception, ArborvoxError):
        raise result.exception
    return result.exit_code, result.output


def test_what_the_model_hears_is_found_where_it_heard_it(
    recognizer: Recognizer, recording: Path
) -> None:
    """Its own greedy transcript costs nothing, so the two agree on every unit."""
    heard = recognizer.transcribe(recording)
    found = align_text(recognizer, recording, [segment.text for segment in heard.segments])
    assert found.transcript.duration_s == 8.0
    for fit in found.fits:
        assert fit.num_found == fit.num_words
        assert fit.is_good
    told = [unit for segment in heard.segments for unit in segment.units]
    units = [unit for segment in found.transcript.segments for unit in segment.units]
    assert len(units) > 20
    assert [unit.text for unit in units] == [unit.text for unit in told]
    assert [unit.start_s for unit in units] == pytest.approx([u.start_s for u in told], abs=0.09)
    earlier = align_text(
        recognizer, recording, [segment.text for segment in heard.segments], shift_s=-0.05
    )
    moved = [unit.start_s for segment in earlier.transcript.segments for unit in segment.units]
    assert moved[5:] == pytest.approx([(u.start_s or 0) - 0.05 for u in units[5:]], abs=2e-3)


def test_times_are_in_order_and_within_the_recording(
    recognizer: Recognizer, recording: Path
) -> None:
    found = align_text(recognizer, recording, ["abc dea cab", "zzz 12", "bad ace bed", "a b c"])
    assert [fit.num_words for fit in found.fits] == [3, 2, 3, 3]
    assert found.fits[1].num_found == 0
    assert not found.fits[1].is_good
    edges = [
        edge
        for segment in found.transcript.segments
        for word in segment.words
        if word.start_s is not None
        for edge in (word.start_s, word.end_s)
    ]
    assert edges == sorted(edges)
    assert all(0 <= edge <= 8.0 for edge in edges)


@pytest.mark.parametrize("kind", values_of(AlignmentFormat))
def test_every_format_holds_the_words(
    run: Path, recognizer: Recognizer, recording: Path, tmp_path: Path, kind: str
) -> None:
    lines = [segment.text for segment in recognizer.transcribe(recording).segments]
    (tmp_path / "tape.txt").write_text("\n\n".join(lines), encoding="utf-8")
    out = tmp_path / "aligned"
    asked = ("--format", kind, "--out", out, "--precision", "fp32")
    assert call("align", run, recording, tmp_path / "tape.txt", *asked)[0] == 0
    data = out.read_bytes()
    if kind == "ctm":
        words = [line.split()[4] for line in data.decode().splitlines()]
    elif kind == "json":
        told = json.loads(data)
        words = [word["text"] for segment in told["segments"] for word in segment["words"]]
        assert all(segment["units"] for segment in told["segments"])
    else:
        found = read_eaf(data) if kind == "eaf" else read_textgrid(data)
        assert [tier.name for tier in found.tiers] == ["text", "text words", "text units"]
        words = [a.value for a in found.tiers[1].annotations if a.value]
        if kind == "eaf":
            assert broken_rules(data) == []
    assert words == [word for line in lines for word in line.split()]


def test_a_manifest_is_aligned_and_misfits_are_named(
    run: Path, recording: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cuts = [
        Utterance("a/1", str(recording), "x-x", "abc", 16000, 128000, start_s=4.0, segment_s=2.0),
        Utterance("a_1", str(recording), "x-x", "zzz", 16000, 128000, start_s=1.0, segment_s=2.0),
        Utterance("b", str(tmp_path / "none.wav"), "x-x", "abc", 16000, 128000),
    ]
    write_cuts(tmp_path / "cuts.jsonl.gz", cuts)
    code, _ = call("align", run, tmp_path / "cuts.jsonl.gz", "--out", tmp_path / "o")
    assert code == 1  # b cannot be read
    names = sorted(path.name for path in (tmp_path / "o").iterdir())
    assert names == ["a_1-2.TextGrid", "a_1.TextGrid", "fit.tsv"]
    rows = (tmp_path / "o/fit.tsv").read_text(encoding="utf-8").splitlines()
    assert rows[1].split("\t") == ["a_1", "1", "0", "nan"]
    assert rows[2].startswith("a/1\t1\t1\t-")
    assert call(
        "align", run, tmp_path / "cuts.jsonl.gz", "--out", tmp_path / "o", "--format", "ctm"
    )
    assert (tmp_path / "o/alignment.ctm").is_file()


def test_what_cannot_be_aligned_is_told(run: Path, recording: Path, tmp_path: Path) -> None:
    empty = tmp_path / "empty.txt"
    empty.write_text(" \n", encoding="utf-8")
    with pytest.raises(ArborvoxError, match="holds no text to align"):
        call("align", run, recording, empty)
    with pytest.raises(ArborvoxError, match="There is no file"):
        call("align", run, recording, tmp_path / "none.txt")
    assert call("align", run, recording)[0] == 2
    assert call("align", run, tmp_path / "x.jsonl.gz")[0] == 2
    empty.write_text("abc", encoding="utf-8")
    with pytest.raises(ArborvoxError, match="looks like text"):
        call("align", run, empty, empty)
    deaf = make_checkpoint(tmp_path / "deaf", ctc_weight=0.0)
    with pytest.raises(ArborvoxError, match="no CTC branch"):
        call("align", deaf, recording, empty)


def test_each_format_has_a_writer() -> None:
    assert tuple(WRITERS) == values_of(AlignmentFormat)
