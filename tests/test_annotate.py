"""From recognition to ELAN and Praat: new files, and new tiers of files that exist."""

import sys
from pathlib import Path

import numpy as np
import pytest
import soundfile
import typer
from typer.testing import CliRunner

sys.path.insert(0, str(Path(__file__).parent / "annotations"))
sys.path.insert(0, str(Path(__file__).parent / "decode"))
from checkpoints import make_checkpoint
from eaf_rules import broken_rules
from made_up_tiers import OLD_EAF

from arborvox.annotations import (
    Annotation,
    TextGrid,
    Tier,
    read_eaf,
    read_textgrid,
    write_textgrid,
)
from arborvox.cli.decode import register
from arborvox.config import DecodeConfig
from arborvox.config.choices import DependentTier, values_of
from arborvox.decode.segments import cut_spans
from arborvox.decode.transcript import Segment, TierLayout, Transcript, to_eaf, to_textgrid
from arborvox.decode.words import Word
from arborvox.errors import ArborvoxError
from arborvox.recognizer import load

app = typer.Typer()
register(app)
GREEDY = ("--mode", "ctc-greedy")
ALL_PARTS: tuple[DependentTier, ...] = values_of(DependentTier)  # type: ignore[assignment]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_checkpoint(tmp_path_factory.mktemp("model") / "run", max_duration_s=3.0)


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    samples = 0.1 * np.random.default_rng(0).normal(size=5 * 16000)
    soundfile.write(tmp_path / "tape 1.wav", samples, 16000)
    return tmp_path / "tape 1.wav"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    path = tmp_path / "tape.eaf"
    path.write_text(OLD_EAF, encoding="utf-8")
    return path


def call(*arguments: object) -> tuple[int, str]:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    if isinstance(result.exception, ArborvoxError):
        raise result.exception
    return result.exit_code, result.output


def words(*spans: tuple[float, float]) -> tuple[Word, ...]:
    return tuple(Word("ab"[n % 2], start, end, 0.5) for n, (start, end) in enumerate(spans))


# The second word begins before the first has ended, the last ends after its segment.
HEARD = Transcript(
    5.0,
    (
        Segment(0.5, 2.0, "a b", 0.75, words((0.6, 1.2), (1.1, 1.5)), units=words((0.6, 0.7))),
        Segment(2.0, 2.5, "", 0.0, ()),
        Segment(3.0, 4.0, "a", 0.5, words((3.5, 4.2))),
        Segment(4.0, 5.0, "b", 0.5, (Word("b", None, None, 0.5),)),
    ),
)


def test_a_transcript_becomes_tiers_for_elan() -> None:
    data = to_eaf(HEARD, TierLayout("heard", ALL_PARTS), Path("/tapes/x y.wav")).encode()
    assert broken_rules(data) == []
    found = read_eaf(data)
    assert found.media[0].url == "file:///tapes/x%20y.wav"
    text, word, unit, sure = found.tiers
    assert [a.value for a in text.annotations] == ["a b", "a", "b"]
    assert word.annotations == (
        Annotation(0.6, 1.2, "a"),
        Annotation(1.2, 1.5, "b"),
        Annotation(3.5, 4.0, "a"),
    )
    assert (word.parent, word.constraint, unit.parent) == ("heard", "Included_In", "heard")
    assert [(a.value, a.parent) for a in sure.annotations] == [
        ("0.75", 0),
        ("0.50", 1),
        ("0.50", 2),
    ]


def test_a_transcript_becomes_a_textgrid_without_gaps() -> None:
    found = read_textgrid(to_textgrid(HEARD, TierLayout("heard", ALL_PARTS)).encode())
    assert [tier.name for tier in found.tiers] == [
        "heard",
        "heard words",
        "heard units",
        "heard confidence",
    ]
    for tier in found.tiers:
        edges = [0.0, *(a.end_s for a in tier.annotations)]
        assert [a.start_s for a in tier.annotations] == edges[:-1]
        assert edges[-1] == 5.0


@pytest.mark.parametrize(("kind", "name"), [("eaf", "tape 1.eaf"), ("textgrid", "tape 1.TextGrid")])
def test_new_files_are_written(
    run: Path, recording: Path, tmp_path: Path, kind: str, name: str
) -> None:
    out = tmp_path / "out"
    asked = ("--format", kind, "--out", out, "--tiers", "words,units", "--tier", "heard")
    assert call("transcribe", run, recording, *asked, *GREEDY)[0] == 0
    data = (out / name).read_bytes()
    found = read_eaf(data) if kind == "eaf" else read_textgrid(data)
    assert [tier.name for tier in found.tiers] == ["heard", "heard words", "heard units"]
    assert any(annotation.value for annotation in found.tiers[0].annotations)


def test_a_tier_is_added_and_all_else_stays(run: Path, recording: Path, project: Path) -> None:
    before = project.read_bytes()
    asked = ("--into", project, "--tier", "heard", "--tiers", "confidence")
    assert call("transcribe", run, recording, *asked, *GREEDY)[0] == 0
    rest = iter(project.read_bytes().splitlines())
    assert all(line in rest for line in before.splitlines())
    found = read_eaf(project)
    assert found.tiers[:4] == read_eaf(before).tiers
    assert [tier.name for tier in found.tiers[4:]] == ["heard", "heard confidence"]
    with pytest.raises(ArborvoxError, match="has a tier 'heard' already"):
        call("transcribe", run, recording, *asked, *GREEDY)


def test_only_what_a_tier_marks_is_heard(
    run: Path, recording: Path, project: Path, tmp_path: Path
) -> None:
    before = project.read_bytes()
    asked = ("--into", project, "--tier", "heard", "--out", tmp_path / "new")
    code, _ = call("transcribe", run, recording, *asked, "--segments-from", "syl", *GREEDY)
    assert code == 0
    assert project.read_bytes() == before
    tier = read_eaf(tmp_path / "new/tape.eaf").tier("heard")
    assert tier is not None
    assert {(a.start_s, a.end_s) for a in tier.annotations} <= {(1, 2), (2, 3), (3, 4)}
    assert tier.annotations
    whole, _ = call("transcribe", run, recording, *asked, "--segments-from", "tx@Ana", *GREEDY)
    assert whole == 0
    tier = read_eaf(tmp_path / "new/tape.eaf").tier("heard")
    assert tier is not None and tier.participant == "Ana"


def test_times_that_begin_within_the_recording_are_kept_apart(
    run: Path, recording: Path, project: Path
) -> None:
    linked = '/field/tape 1.wav" TIME_ORIGIN="500'
    project.write_text(OLD_EAF.replace("/field/tape 1.wav", linked), encoding="utf-8")
    call("transcribe", run, recording, "--into", project, "--segments-from", "syl", *GREEDY)
    tier = read_eaf(project).tier("arborvox")
    assert tier is not None
    heard = load(run, DecodeConfig(mode="ctc-greedy")).transcribe_spans(recording, [(1.5, 2.5)])
    assert tier.annotations[0] == Annotation(1.0, 2.0, heard.segments[0].text)


def test_a_stretch_is_heard_as_a_recording_of_its_own(run: Path, recording: Path) -> None:
    recognizer = load(run, DecodeConfig(mode="ctc-greedy"))
    samples, rate = soundfile.read(recording)
    cut = recognizer.transcribe(samples[rate : 3 * rate], rate=rate).segments[0]
    found = recognizer.transcribe_spans(recording, [(4.0, 9.0), (1.0, 3.0), (0.5, 1.5)])
    assert [segment.start_s for segment in found.segments] == [0.5, 1.0, 4.0]
    assert found.segments[1].text == cut.text
    assert found.duration_s == 5.0


def test_stretches_are_cut_from_blocks() -> None:
    sound = np.arange(1000, dtype=np.float32)
    spans = [(9.0, 12.0), (0.0, 0.5), (0.2, 6.0), (5.0, 5.1), (20.0, 30.0)]
    found = list(cut_spans(iter(np.split(sound, 8)), 100, spans))
    assert [piece.start_s for piece in found] == [0.0, 0.2, 5.0, 9.0, 20.0]
    for piece, (start_s, end_s) in zip(found, sorted(spans), strict=True):
        assert np.array_equal(piece.samples, sound[round(start_s * 100) : round(end_s * 100)])


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        (("--segments-from", "nobody"), "has no tier 'nobody'; there are: tx@Ana"),
        (("--tiers", "letters"), "there is no letters"),
    ],
)
def test_what_is_not_there_is_named(
    run: Path, recording: Path, project: Path, asked: tuple[str, str], told: str
) -> None:
    before = project.read_bytes()
    try:
        code, output = call("transcribe", run, recording, "--into", project, *asked, *GREEDY)
    except ArborvoxError as error:
        code, output = 2, str(error)
    assert code == 2
    assert told in output
    assert project.read_bytes() == before


def test_options_that_need_another_are_refused(run: Path, recording: Path, project: Path) -> None:
    assert call("transcribe", run, recording, "--segments-from", "syl")[0] == 2
    assert call("transcribe", run, recording, recording, "--into", project)[0] == 2
    with pytest.raises(ArborvoxError, match=r"tiers are added to \.eaf and \.TextGrid files alone"):
        call("transcribe", run, recording, "--into", recording)


@pytest.fixture
def grid(tmp_path: Path) -> Path:
    spans = (Annotation(0.5, 1.5, "x"), Annotation(2.0, 4.5, "x"), Annotation(4.8, 5.0, " "))
    path = tmp_path / "tape.TextGrid"
    path.write_bytes(write_textgrid(TextGrid(0.0, 5.0, (Tier("ref", spans),)), encoding="utf-16"))
    return path


def test_a_tier_is_added_to_a_textgrid(run: Path, recording: Path, grid: Path) -> None:
    before = read_textgrid(grid)
    asked = ("--into", grid, "--tier", "heard", "--segments-from", "ref", *GREEDY)
    assert call("transcribe", run, recording, *asked, "--tiers", "words,confidence")[0] == 0
    after = read_textgrid(grid)
    assert after.tiers[0] == before.tiers[0]
    assert [t.name for t in after.tiers[1:]] == ["heard", "heard words", "heard confidence"]
    said = [(a.start_s, a.end_s) for a in after.tiers[1].annotations if a.value]
    assert said and set(said) <= {(0.5, 1.5), (2.0, 4.5)}  # what has no text is not marked
    with pytest.raises(ArborvoxError, match="has a tier 'heard' already"):
        call("transcribe", run, recording, *asked)


def test_a_gigabyte_is_refused_before_it_is_read(
    run: Path, recording: Path, tmp_path: Path
) -> None:
    for name in ("huge.eaf", "huge.TextGrid"):
        with (tmp_path / name).open("wb") as file:
            file.truncate(1 << 30)  # a hole, not a gigabyte
        with pytest.raises(ArborvoxError, match=rf"{name} is larger than \d+ MiB"):
            call("transcribe", run, recording, "--into", tmp_path / name, *GREEDY)
