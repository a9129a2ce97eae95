"""Laws of tables, texts and names from strangers: one sentence or one row, never a fault."""

import csv
import io
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
from budgets import examples
from hypothesis import given
from hypothesis import strategies as st

from arborvox.audio import parallel
from arborvox.config import CommonVoiceCorpus, CorpusConfig, FolderCorpus, UclaCorpus
from arborvox.corpora import checks, prepare
from arborvox.corpora.manifests import Skipped
from arborvox.corpora.tables import Columns, read_cells
from arborvox.errors import ArborvoxError

AUDIO = ("0.wav", "1.wav", "deep/2.wav", "3.wav")
COLUMNS = Columns("path", "text", "speaker", "language")


@pytest.fixture(scope="module")
def recordings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A few short recordings, and one outside of the folder that the tables speak of."""
    root = tmp_path_factory.mktemp("recordings")
    (root / "corpus/deep").mkdir(parents=True)
    for number, name in enumerate(AUDIO):
        time = np.arange(8000) / 16_000
        wave = 0.3 * np.sin(2 * np.pi * (200 + 50 * number) * time)
        soundfile.write(root / "corpus" / name, wave, 16_000)
    shutil.copy(root / "corpus/0.wav", root / "secret.wav")
    return root


@pytest.fixture(autouse=True)
def in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Recordings are judged here: starting a process for each example would take minutes."""

    def check_here(paths: list[Path], *, jobs: int, **limits: Any) -> Iterator[parallel.Verdict]:
        return (parallel._judge(path, **limits) for path in paths)

    monkeypatch.setattr(checks, "check_many", check_here)


@contextmanager
def sandbox(recordings: Path) -> Iterator[Path]:
    """A copy of the recordings; only `out` in it may change."""
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        shutil.copytree(recordings, root, dirs_exist_ok=True, symlinks=True)
        yield root


def prepare_safely(
    root: Path, source: Path, section: type[CorpusConfig] = FolderCorpus, **keys: Any
) -> None:
    """Prepare; allow for one sentence, and for files in the output folder only."""
    before = listing(root)
    out = root / "out"
    try:
        prepare(section(source=str(source), **keys), out, jobs=1)
    except ArborvoxError as error:
        assert "\n" not in str(error)
        assert len(str(error)) < 5000
    assert {path for path in listing(root) if not path.is_relative_to(out)} == before
    if (out / "skipped.tsv").exists():
        header, *rows = (out / "skipped.tsv").read_text("utf-8").split("\n")[:-1]
        assert header == "file\treason"
        assert all(row.count("\t") == 1 for row in rows)


def listing(root: Path) -> set[Path]:
    return {Path(folder) / name for folder, _, names in os.walk(root) for name in names}


# Texts of any kind, half characters and control characters among them.
wild = st.text(st.characters(codec=None), max_size=12)
names = st.one_of(
    st.sampled_from(AUDIO),
    st.sampled_from(["../secret.wav", "/etc/passwd", "", ".", "..", "0.wav/x", "a\0b.wav", "deep"]),
    st.just("x" * 300 + ".wav"),
    wild,
)
texts = st.one_of(st.sampled_from(["bon dia", "a" * 99, "12", '"', 'di"es', "é\n\té"]), wild)
languages = st.one_of(st.sampled_from(["ca", "sah", "", "../../x", "/tmp/x", "C:\\x"]), wild)
speakers = st.one_of(st.sampled_from(["s1", "s2", "s3", "7", ""]), wild)
rows = st.lists(st.tuples(names, texts, speakers, languages), max_size=8)


def encode(text: str, encoding: str) -> bytes:
    return text.encode(encoding, "surrogatepass")


@st.composite
def separated(draw: st.DrawFn) -> bytes:
    """A CSV or TSV table with honest and dishonest rows."""
    delimiter = draw(st.sampled_from(",;\t"))
    header = draw(
        st.sampled_from(
            [["path", "text", "speaker", "language"], ["path", "text", "path", "language"], []]
        )
    )
    file = io.StringIO()
    writer = csv.writer(file, delimiter=delimiter, lineterminator="\n")
    writer.writerow(header)
    for row in draw(rows):
        if draw(st.booleans()):
            writer.writerow(row)
        else:  # nobody quotes anything
            file.write(delimiter.join(row[: draw(st.integers(1, 4))]) + "\n")
    text = file.getvalue().replace("\n", draw(st.sampled_from(["\n", "\r\n", "\r"])))
    return encode(text, draw(st.sampled_from(["utf-8", "utf-16", "utf-32", "utf-16-le"])))


values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), wild, names, texts),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(wild, inner, max_size=2),
    max_leaves=4,
)
objects = st.dictionaries(
    st.one_of(st.sampled_from(["path", "text", "speaker", "language"]), wild), values, max_size=5
)
likely = st.fixed_dictionaries(
    {"path": names, "text": texts}, optional={"speaker": values, "language": languages}
)
json_lines = st.one_of(
    st.one_of(objects, likely, values).map(lambda value: json.dumps(value).encode()),
    st.sampled_from(
        [b"[" * 100_000, b"9" * 5000, b'{"path": 1, "path": 2}', b'{"path": NaN, "text": -0.50}']
    ),
    st.binary(max_size=40),
)
jsonl = st.lists(json_lines, max_size=8).map(b"\n".join)


@examples(100, 2000)
@given(
    content=st.one_of(separated(), separated(), jsonl, st.binary(max_size=200)),
    ending=st.sampled_from([".csv", ".tsv", ".jsonl"]),
    language=st.sampled_from([None, "ca"]),
    unit=st.sampled_from(["text", "phones"]),
)
def test_no_table_is_a_fault_or_writes_elsewhere(
    recordings: Path, content: bytes, ending: str, language: str | None, unit: Any
) -> None:
    with sandbox(recordings) as root:
        table = root / f"corpus/table{ending}"
        table.write_bytes(content)
        prepare_safely(root, table, language=language, unit=unit)


@examples(100, 2000)
@given(
    cells=st.lists(
        st.tuples(
            st.integers(0, 10**6).map("{}.wav".format),
            st.text(st.characters(codec="utf-8", exclude_characters="\0\r"), max_size=30),
        ),
        max_size=10,
    ),
    delimiter=st.sampled_from(",;\t"),
    end=st.sampled_from(["\n", "\r\n", "\r"]),
    encoding=st.sampled_from(["utf-8", "utf-8-sig", "utf-16"]),
)
def test_what_a_csv_writer_wrote_is_read(
    cells: list[tuple[str, str]], delimiter: str, end: str, encoding: str
) -> None:
    file = io.StringIO(newline="")
    # With CR for a line end the writer leaves LF without quotes, and it would be one, too.
    quoting = csv.QUOTE_ALL if end == "\r" else csv.QUOTE_MINIMAL
    writer = csv.writer(file, delimiter=delimiter, lineterminator=end, quoting=quoting)
    writer.writerows([("path", "text"), *cells])
    found, skipped = read(file.getvalue().encode(encoding), ".csv", lambda name: False)
    assert skipped == []
    assert found == cells


@examples(100, 2000)
@given(
    texts=st.lists(st.text("abc ", max_size=9), min_size=1, max_size=12),
    place=st.integers(0, 12),
    opened=st.sampled_from(['"', '"a', '"a""', '"x,y', '"""']),
)
def test_a_quote_that_is_never_closed_costs_its_own_row(
    texts: list[str], place: int, opened: str
) -> None:
    lines = [f"{number}.wav,{text}" for number, text in enumerate(texts)]
    place = min(place, len(lines))
    lines.insert(place, f"bad.wav,{opened}")
    content = "\n".join(["path,text", *lines, ""]).encode()
    found, skipped = read(content, ".csv", lambda name: name.endswith(".wav"))
    assert [text for _, text in found] == texts
    assert skipped == [
        Skipped(f"table.csv, line {place + 2}", "unclosed quote: it opens in this line")
    ]


def read(content: bytes, ending: str, looks_like_audio: Any) -> tuple[list[Any], list[Skipped]]:
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder) / f"table{ending}"
        table.write_bytes(content)
        skipped: list[Skipped] = []
        found = list(read_cells(table, COLUMNS, looks_like_audio, skipped))
    return [(cells.audio, cells.text) for cells in found], skipped


file_names = st.binary(min_size=1, max_size=120).map(lambda name: name.translate(None, b"/\0."))


@examples(60, 2000)
@given(
    bare_names=st.lists(st.one_of(file_names, st.just(b"caf\xe9"), st.just(b"a\tb\nc")), max_size=6)
)
def test_no_file_name_stops_the_others(recordings: Path, bare_names: list[bytes]) -> None:
    with sandbox(recordings) as root:
        source = root / "corpus"
        for number, name in enumerate(AUDIO):
            (source / name).with_suffix(".txt").write_text(f"mot {'abcd'[number]}")
        for name in filter(None, bare_names):
            for ending, original in ((b".wav", "0.wav"), (b".txt", "0.txt")):
                shutil.copy(source / original, os.fsencode(source) + b"/" + name + ending)
        prepare_safely(root, source, language="ca")
        assert (root / "out/stats.json").is_file()
        if b"caf\xe9" in bare_names:
            listed = (root / "out/skipped.tsv").read_text("utf-8")
            assert "caf\\xe9.wav\tfile name is not UTF-8: " in listed


kaldi_lines = st.lists(
    st.one_of(
        st.tuples(st.sampled_from("abc"), names).map(" ".join),
        st.tuples(st.sampled_from("abc"), texts).map(" ".join),
        st.sampled_from(["a a 0 0.4", "b a nan 1", "c a 0 inf", "a b -1 2", "b c 1e400 x", "| |"]),
    ).map(lambda line: line.encode("utf-8", "surrogatepass")),
    max_size=5,
).map(b"\n".join)


@examples(60, 2000)
@given(
    tables=st.fixed_dictionaries(
        {"wav.scp": kaldi_lines, "text": kaldi_lines},
        optional={"segments": kaldi_lines, "utt2spk": kaldi_lines},
    )
)
def test_no_kaldi_folder_is_a_fault(recordings: Path, tables: dict[str, bytes]) -> None:
    with sandbox(recordings) as root:
        for name, content in tables.items():
            (root / "corpus" / name).write_bytes(content)
        prepare_safely(root, root / "corpus", language="ca")


def cells_joined(*cells: st.SearchStrategy[str]) -> st.SearchStrategy[bytes]:
    row = st.tuples(*cells).map("\t".join).map(lambda line: line.encode("utf-8", "surrogatepass"))
    return st.lists(st.one_of(row, st.binary(max_size=30)), max_size=6).map(b"\n".join)


@examples(60, 2000)
@given(
    validated=cells_joined(speakers, names, texts),
    durations=cells_joined(names, st.one_of(st.sampled_from(["nan", "inf", "-1", "1e999"]), wild)),
    phones=st.one_of(st.none(), cells_joined(names, texts)),
    split=st.sampled_from(["speaker", "utterance", "official", "official-test"]),
)
def test_no_common_voice_table_is_a_fault(
    recordings: Path, validated: bytes, durations: bytes, phones: bytes | None, split: Any
) -> None:
    with sandbox(recordings) as root:
        folder = root / "release/ca"
        shutil.copytree(root / "corpus", folder / "clips")
        header = b"client_id\tpath\tsentence\n"
        for name in ("validated", "train", "dev", "test"):
            (folder / f"{name}.tsv").write_bytes(header + validated)
        (folder / "clip_durations.tsv").write_bytes(b"clip\tduration\n" + durations)
        if phones is not None:
            (folder / "phones.tsv").write_bytes(b"path\tphones\n" + phones)
        unit: Any = "text" if phones is None else "phones"
        prepare_safely(root, root / "release", CommonVoiceCorpus, split=split, unit=unit)


@examples(60, 2000)
@given(content=st.one_of(st.binary(max_size=60), kaldi_lines))
def test_no_ucla_table_is_a_fault(recordings: Path, content: bytes) -> None:
    with sandbox(recordings) as root:
        (root / "ucla/abk/audio").mkdir(parents=True)
        for name in "abc":
            shutil.copy(root / "corpus/0.wav", root / f"ucla/abk/audio/{name}.wav")
        (root / "ucla/abk/text.txt").write_bytes(content)
        prepare_safely(root, root / "ucla", UclaCorpus)
