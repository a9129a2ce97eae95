"""Manifests: what is written is read back, Lhotse's own are read right, the rest is refused."""

import gzip
import json
import subprocess
import sys
import tracemalloc
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
from lhotse import CutSet, Recording, RecordingSet, SupervisionSegment, SupervisionSet

from arborvox.errors import ArborvoxError
from arborvox.manifest import (
    MOST_LINE_BYTES,
    NO_LANGUAGE,
    Utterance,
    append_cuts,
    cut_line,
    load_manifest,
    read_manifest,
    split_by_language,
    split_file,
    write_cuts,
)

WHOLE = Utterance("ca-1", "/audio/ca 1.flac", "ca", "bon dia", 16000, 48000, speaker="s1")
PART = replace(WHOLE, id="ca-1-2", recording_id="ca-1", start_s=0.7, segment_s=1.1, speaker=None)
OTHER = Utterance("fi-1", "päivää.wav", "fi", 'hyvää "päivää"', 44100, 100_000, num_channels=2)


def cut(**changes: Any) -> dict[str, Any]:
    """Return the cut of a whole recording of three seconds, as JSON has it, with changes."""
    return {**json.loads(cut_line(WHOLE)), **changes}


def supervised(**changes: Any) -> dict[str, Any]:
    """Return the cut with changes to its supervision."""
    return cut(supervisions=[{**cut()["supervisions"][0], **changes}])


def recorded(**changes: Any) -> dict[str, Any]:
    """Return the cut with changes to its recording."""
    return cut(recording={**cut()["recording"], **changes})


def write(path: Path, cuts: Iterable[Any]) -> Path:
    """Write any values as the lines of a manifest."""
    with gzip.open(path, "wt", encoding="utf-8") as file:
        file.writelines(json.dumps(value) + "\n" for value in cuts)
    return path


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    path = tmp_path / split_file("train")
    write_cuts(path, [WHOLE, PART, OTHER])
    assert list(read_manifest(path)) == [WHOLE, PART, OTHER]
    first = path.read_bytes()
    write_cuts(path, read_manifest(write(tmp_path / "copy.jsonl.gz", map(json.loads, lines(path)))))
    assert path.read_bytes() == first


def lines(path: Path) -> list[bytes]:
    with gzip.open(path) as file:
        return list(file)


def test_a_line_is_the_one_that_lhotse_would_write(tmp_path: Path) -> None:
    path = tmp_path / "cuts.jsonl.gz"
    write_cuts(path, [WHOLE, PART, OTHER])
    for line, theirs in zip(lines(path), CutSet.from_jsonl_lazy(path), strict=True):
        assert json.loads(line) == theirs.to_dict()


def test_plain_lines_are_read_as_well(tmp_path: Path) -> None:
    path = tmp_path / "cuts.jsonl"
    path.write_text(cut_line(WHOLE) + cut_line(PART), encoding="utf-8")
    assert list(read_manifest(path)) == [WHOLE, PART]


def test_languages_are_split_and_left_out_with_their_lines_unchanged(tmp_path: Path) -> None:
    path, target = tmp_path / "cuts.jsonl.gz", tmp_path / "all.jsonl.gz"
    write_cuts(path, [WHOLE, OTHER, PART])
    parts = split_by_language(path, tmp_path / "languages")
    assert list(parts) == ["ca", "fi"]
    assert lines(parts["ca"]) == [lines(path)[0], lines(path)[2]]
    assert list(read_manifest(parts["fi"])) == [OTHER]
    write_cuts(target, [PART])
    append_cuts(path, target)
    append_cuts(path, target, left_out=["ca"])
    assert list(read_manifest(target)) == [PART, WHOLE, OTHER, PART, OTHER]


@pytest.fixture
def corpus(tmp_path: Path) -> CutSet:
    """A recording of three seconds with two stretches of speech, as Lhotse describes it."""
    soundfile.write(tmp_path / "a.wav", np.zeros(48000, np.float32), 16000)
    recording = Recording.from_file(tmp_path / "a.wav")
    spoken = [
        SupervisionSegment("s1", recording.id, 0.5, 1.0, text="bon dia", language="ca"),
        SupervisionSegment("s2", recording.id, 1.7, 1.1, text="adéu", language="ca", speaker="x"),
    ]
    return CutSet.from_manifests(
        recordings=RecordingSet.from_recordings([recording]),
        supervisions=SupervisionSet.from_segments(spoken),
    ).to_eager()


def test_stretches_that_lhotse_cuts_out_are_read(corpus: CutSet, tmp_path: Path) -> None:
    path = tmp_path / "cuts.jsonl.gz"
    corpus.trim_to_supervisions(keep_overlapping=False).to_file(path)
    first, second = read_manifest(path)
    assert (first.id, first.text, first.language, first.speaker) == ("s1", "bon dia", "ca", None)
    assert (first.start_s, first.duration_s) == (0.5, 1.0)
    assert (second.start_s, second.duration_s, second.speaker) == (1.7, 1.1, "x")
    assert second.audio == str(tmp_path / "a.wav")
    assert second.recording_id == "a"


def test_a_supervision_of_a_part_of_its_cut_is_that_part(corpus: CutSet, tmp_path: Path) -> None:
    path = tmp_path / "cuts.jsonl.gz"
    whole = next(iter(corpus))
    whole.supervisions = whole.supervisions[1:]
    padded = whole.truncate(offset=1.0)  # the supervision now begins 0.7 s into the cut
    CutSet.from_cuts([whole, padded]).to_file(path)
    for utterance in read_manifest(path):
        assert utterance.start_s == pytest.approx(1.7)
        assert utterance.duration_s == 1.1


def trimmed(cuts: CutSet) -> CutSet:
    return cuts.trim_to_supervisions(keep_overlapping=False)


def halved(cuts: CutSet) -> CutSet:
    return CutSet.from_cuts(piece.truncate(duration=0.5) for piece in trimmed(cuts))


@pytest.mark.parametrize(
    ("message", "change"),
    [
        ("2 supervisions in one cut", lambda cuts: cuts),
        ("with a supervision", lambda cuts: cuts.drop_supervisions()),
        ("transforms", lambda cuts: trimmed(cuts).perturb_speed(1.1)),
        ("transforms", lambda cuts: trimmed(cuts).perturb_volume(2.0)),
        ("a mixture of tracks", lambda cuts: trimmed(cuts).pad(5.0)),
        ("does not lie in its cut", halved),
    ],
)
def test_what_the_file_alone_does_not_say_is_refused(
    corpus: CutSet, tmp_path: Path, message: str, change: Callable[[CutSet], CutSet]
) -> None:
    path = tmp_path / "cuts.jsonl.gz"
    change(corpus).to_file(path)
    with pytest.raises(ArborvoxError, match=rf"cuts\.jsonl\.gz, line 1: .*{message}"):
        list(read_manifest(path))


SOURCE = {"type": "file", "channels": [0], "source": "a.wav"}


@pytest.mark.parametrize(
    ("message", "value"),
    [
        ("duration is nan", cut(duration=float("nan"))),
        ("start is inf", cut(start=float("inf"))),
        ("start is -inf", supervised(start=float("-inf"))),
        ("last -1 s", cut(duration=-1.0)),
        ("last 0 s", cut(duration=0)),
        ("last 4.94066e-324 s", cut(duration=5e-324)),
        ("does not lie in its cut", supervised(start=1.0, duration=5e-324)),
        ("start at -1 s", cut(start=-1.0)),
        ("duration is 1000", cut(duration=10**400)),
        ("duration is '3'", cut(duration="3")),
        ("duration is True", cut(duration=True)),
        ("duration is missing", {k: v for k, v in cut().items() if k != "duration"}),
        ("ends at 5 s, its recording at 3 s", cut(start=2.0)),
        ("does not lie in its cut", supervised(start=-0.5)),
        ("does not lie in its cut", supervised(duration=3.5)),
        ("does not lie in its cut", supervised(duration=-1)),
        ("2 supervisions", cut(supervisions=cut()["supervisions"] * 2)),
        ("channel 1", cut(channel=1)),
        ("channel a list", cut(channel=[0, 1])),
        ("channel 1", supervised(channel=1)),
        ("'MultiCut'", cut(type="MultiCut")),
        ("'PaddingCut'", cut(type="PaddingCut")),
        ("a mixture of tracks", cut(tracks=[], type="MixedCut")),
        ("transforms", recorded(transforms=[{"name": "Speed", "kwargs": {"factor": 1.1}}])),
        ("id of the cut is a list", cut(id=["a"])),
        ("id of the cut is ''", cut(id="")),
        ("half a surrogate", cut(id="a\ud800")),
        ("half a surrogate", supervised(text="\udfff")),
        ("half a surrogate", supervised(language="c\ud800")),
        ("half a surrogate", recorded(sources=[{**SOURCE, "source": "\udcff.wav"}])),
        ("zero byte", recorded(sources=[{**SOURCE, "source": "a\0.wav"}])),
        ("text of the supervision is missing", supervised(text=None)),
        ("text of the supervision is 5", supervised(text=5)),
        ("speaker of the supervision is 5", supervised(speaker=5)),
        ("with a recording", cut(recording=None)),
        ("'command'; only files", recorded(sources=[{**SOURCE, "type": "command"}])),
        ("'url'; only files", recorded(sources=[{**SOURCE, "type": "url"}])),
        ("'shar'; only files", recorded(sources=[{**SOURCE, "type": "shar"}])),
        ("not in one file", recorded(sources=[SOURCE, SOURCE])),
        ("not in one file", recorded(sources=[])),
        ("sampling_rate of the recording is 0", recorded(sampling_rate=0)),
        ("num_samples of the recording is -5", recorded(num_samples=-5)),
        ("not a JSON object", [1]),
    ],
)
def test_a_cut_that_would_be_misread_is_refused_by_its_line(
    tmp_path: Path, message: str, value: Any
) -> None:
    path = write(tmp_path / "cuts.jsonl.gz", [cut(), value])
    with pytest.raises(ArborvoxError, match=rf"cuts\.jsonl\.gz, line 2: .*{message}"):
        list(read_manifest(path))


def test_a_source_is_never_run(tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    command = {**SOURCE, "type": "command", "source": f"touch {trace}"}
    with pytest.raises(ArborvoxError, match="only files"):
        list(read_manifest(write(tmp_path / "cuts.jsonl.gz", [recorded(sources=[command])])))
    assert not trace.exists()


def test_a_test_set_with_an_id_twice_is_refused(tmp_path: Path) -> None:
    write_cuts(tmp_path / "cuts.jsonl.gz", [WHOLE, PART, replace(OTHER, id=PART.id)])
    with pytest.raises(ArborvoxError, match="line 3: the id 'ca-1-2' stands in a line above"):
        load_manifest(tmp_path / "cuts.jsonl.gz")
    write_cuts(tmp_path / "cuts.jsonl.gz", [WHOLE, PART])
    assert load_manifest(tmp_path / "cuts.jsonl.gz") == [WHOLE, PART]


def test_no_language_is_und_and_a_frame_of_rounding_is_nothing(tmp_path: Path) -> None:
    values = [supervised(language=None), supervised(start=0.004, duration=2.99)]
    first, second = read_manifest(write(tmp_path / "cuts.jsonl.gz", values))
    assert first.language == NO_LANGUAGE
    assert second == WHOLE


@pytest.mark.parametrize(
    ("message", "content"),
    [
        ("line 1: not UTF-8", gzip.compress(b'{"id": "\xff"}\n', mtime=0)),
        ("line 1: .* not valid JSON", gzip.compress(b"[" * 100_000 + b"\n", mtime=0)),
        ("line 1: .* not valid JSON", gzip.compress(b'{"start": ' + b"9" * 5000 + b"}\n", mtime=0)),
        ("line 1: .* not valid JSON", gzip.compress(b"\n", mtime=0)),
        ("not a whole gzip file", b"plain text"),
        ("not a whole gzip file", gzip.compress(cut_line(WHOLE).encode() * 99, mtime=0)[:-9]),
        ("not a whole gzip file", gzip.compress(b"x", mtime=0)[:10] + b"\xff" * 40),
    ],
)
def test_damage_is_named(tmp_path: Path, message: str, content: bytes) -> None:
    path = tmp_path / "cuts.jsonl.gz"
    path.write_bytes(content)
    with pytest.raises(ArborvoxError, match=rf"cuts\.jsonl\.gz.*{message}"):
        list(read_manifest(path))
    with pytest.raises(ArborvoxError, match="no manifest"):
        list(read_manifest(tmp_path / "none.jsonl.gz"))
    with pytest.raises(ArborvoxError, match="cannot be read"):
        list(read_manifest(tmp_path))


def test_a_small_file_of_one_huge_line_is_refused_in_little_memory(tmp_path: Path) -> None:
    path = tmp_path / "cuts.jsonl.gz"
    with gzip.open(path, "wb", compresslevel=1) as file:
        for _ in range(64):
            file.write(b"0" * MOST_LINE_BYTES)
    tracemalloc.start()
    try:
        with pytest.raises(ArborvoxError, match="line 1: longer than"):
            list(read_manifest(path))
        assert tracemalloc.get_traced_memory()[1] < 4 * MOST_LINE_BYTES
    finally:
        tracemalloc.stop()


def test_reading_needs_no_heavy_library() -> None:
    code = (
        "import sys\n"
        "import arborvox.manifest\n"
        "heavy = {'torch', 'numpy', 'lhotse', 'pydantic', 'numba', 'soundfile'}\n"
        "sys.exit(', '.join(sorted(heavy & set(sys.modules))) or None)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"the manifest imports {done.stderr}"
