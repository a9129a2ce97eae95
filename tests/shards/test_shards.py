"""Laws of corpora in shards: the same speech and text as in files, near or far, whole or broken."""

import functools
import http.server
import io
import json
import tarfile
import threading
from collections.abc import Iterator
from pathlib import Path

import fsspec
import numpy as np
import pytest
import soundfile
from lhotse import CutSet
from lhotse.shar import SharWriter
from tiny_corpus import PHONES, RATE, make_cut, tone

from arborvox.audio import AudioProblem
from arborvox.config import make_corpus_config
from arborvox.corpora import prepare
from arborvox.corpora.manifests import SKIPPED_NAME, STATS_NAME
from arborvox.errors import ArborvoxError
from arborvox.manifest import Utterance, load_manifest, split_file
from arborvox.shards import Member, addresses, find_recording, recording_file
from arborvox.shards.packing import pack_manifests

COUNT = 24


@pytest.fixture(scope="module")
def cuts(tmp_path_factory: pytest.TempPathFactory) -> list[Utterance]:
    """Utterances of unlike lengths; some share a recording, and one has an odd id."""
    folder = tmp_path_factory.mktemp("speech")
    chance = np.random.default_rng(0)
    rows = []
    for number in range(COUNT):
        phones = [str(p) for p in chance.choice(PHONES, 3 + number % 5)]
        samples = np.concatenate([tone(p, chance) for p in phones])
        path = folder / f"u{number:02d}.wav"
        soundfile.write(path, samples, RATE, subtype="PCM_16")
        rows.append({"path": path.name, "text": " ".join(phones), "speaker": f"s{number % 4}"})
    table = folder / "table.jsonl"
    table.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return prepared(folder, {"kind": "folder", "source": str(table), "split": "utterance"})


def prepared(folder: Path, keys: dict[str, object]) -> list[Utterance]:
    """Prepare a corpus of phones into a folder; return its training set."""
    common = {"unit": "phones", "language": "x-a"}
    prepare(make_corpus_config({**common, **keys}, {}), folder / "data", jobs=1)
    return load_manifest(folder / "data" / split_file("train"))


def pack(folder: Path, kind: str, per_shard: int = 5, jobs: int = 1) -> list[Utterance]:
    """Pack a prepared folder; return its training set."""
    pack_manifests(
        folder,
        per_shard,
        kind,
        seed=0,
        jobs=jobs,
        seal=STATS_NAME,
        skipped=SKIPPED_NAME,  # type: ignore[arg-type]
    )
    return load_manifest(folder / split_file("train"))


def copy_of(cuts: list[Utterance], tmp_path: Path) -> Path:
    """Prepare the same corpus anew, for a test that changes it."""
    source = Path(cuts[0].audio).parent / "table.jsonl"
    prepared(tmp_path, {"kind": "folder", "source": str(source), "split": "utterance"})
    return tmp_path / "data"


def heard(utterance: Utterance) -> bytes:
    """Return the bytes of an utterance's recording."""
    return find_recording(utterance.audio).read_bytes()


def told(utterance: Utterance) -> tuple[object, ...]:
    """Return what an utterance says, wherever it lies."""
    return utterance.language, utterance.text, utterance.speaker, utterance.duration_s


@pytest.mark.parametrize("kind", ["shar", "webdataset"])
def test_a_packed_corpus_says_what_its_files_say(
    kind: str, cuts: list[Utterance], tmp_path: Path
) -> None:
    data = copy_of(cuts, tmp_path)
    packed = {u.id: u for u in pack(data, kind)}
    assert {u.id: told(u) for u in cuts} == {name: told(u) for name, u in packed.items()}
    for utterance in cuts:
        assert heard(packed[utterance.id]) == Path(utterance.audio).read_bytes()
    # What was written is read again, as a stranger's shards would be.
    again = prepared(tmp_path / "again", {"kind": "shards", "source": str(data / "shards")})
    assert [(u.id, told(u), u.audio) for u in again] == [
        (u.id, told(u), u.audio) for u in packed.values()
    ]


def test_packing_does_not_depend_on_processes_and_mixes_by_the_seed(
    cuts: list[Utterance], tmp_path: Path
) -> None:
    one, two = copy_of(cuts, tmp_path / "1"), copy_of(cuts, tmp_path / "2")
    pack(one, "shar")
    pack(two, "shar", jobs=2)
    files = [
        {p.name: p.read_bytes() for p in sorted((data / "shards/train").iterdir())}
        for data in (one, two)
    ]
    assert files[0] == files[1]
    assert [u.id for u in load_manifest(one / split_file("train"))] != [u.id for u in cuts]


def test_lhotse_reads_our_shards_and_we_read_lhotses(cuts: list[Utterance], tmp_path: Path) -> None:
    data = copy_of(cuts, tmp_path)
    pack(data, "shar")
    theirs = {cut.id: cut for cut in CutSet.from_shar(in_dir=data / "shards/train")}
    assert set(theirs) == {u.id for u in cuts}
    for utterance in cuts[:3]:
        samples, _ = soundfile.read(utterance.audio, dtype="float32")
        assert np.array_equal(theirs[utterance.id].load_audio()[0], samples)
        assert theirs[utterance.id].supervisions[0].text == utterance.text
    out = tmp_path / "lhotse"
    (out / "train").mkdir(parents=True)
    with SharWriter(str(out / "train"), fields={"recording": "flac"}, shard_size=4) as writer:
        for utterance in cuts:
            writer.write(make_cut(Path(utterance.audio), utterance.text, "x-a"))
    ours = prepared(tmp_path / "ours", {"kind": "shards", "source": str(out)})
    assert sorted(u.text for u in ours) == sorted(u.text for u in cuts)
    for utterance in ours:
        with recording_file(find_recording(utterance.audio)) as path:
            samples, _ = soundfile.read(path, dtype="float32")
        assert len(samples) == utterance.num_samples


@pytest.fixture
def served(cuts: list[Utterance], tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """A packed corpus on a server of ours."""
    pytest.importorskip("aiohttp", reason="the extra `remote` is not installed")
    data = copy_of(cuts, tmp_path)
    pack(data, "shar")

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            """Say nothing."""

    handler = functools.partial(Quiet, directory=str(data / "shards"))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}", data
    server.shutdown()
    server.server_close()


def test_far_shards_are_those_of_the_disk(
    served: tuple[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Over HTTP and in memory; a shard is fetched once, and what is gone then is named."""
    address, data = served
    monkeypatch.setenv("ARBORVOX_SHARDS", str(tmp_path / "fetched"))
    near = load_manifest(data / split_file("train"))
    memory = fsspec.filesystem("memory")
    for path in (data / "shards").rglob("*.*"):
        memory.pipe(f"/corpus/{path.relative_to(data / 'shards')}", path.read_bytes())
    for number, source in enumerate((address, "memory://corpus")):
        far = prepared(tmp_path / f"far-{number}", {"kind": "shards", "source": source})
        assert [(u.id, told(u)) for u in far] == [(u.id, told(u)) for u in near]
        assert [heard(u) for u in far] == [heard(u) for u in near]
    fetched = sorted((tmp_path / "fetched").glob("*.tar"))
    assert len(fetched) == 2 * len(list((data / "shards/train").glob("*.tar")))
    gone = Member(f"{address}/train/recording.999999.tar", 0, 10)
    with pytest.raises(AudioProblem, match=r"shard .*999999.tar is missing"):
        gone.read_bytes()


def test_only_known_protocols_are_asked() -> None:
    for address in ("ssh://host/x.tar", "simplecache::http://host/x.tar", "file:///x.tar"):
        with pytest.raises(ArborvoxError, match="shards are paths or addresses of http"):
            addresses.is_far(address)
    with pytest.raises(ArborvoxError, match="ADDRESS#OFFSET"):
        find_recording("shard:/x.tar#1")


def test_a_broken_and_a_missing_shard_cost_only_what_they_lack(
    cuts: list[Utterance], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = copy_of(cuts, tmp_path)
    pack(data, "shar")
    shards = sorted((data / "shards/train").glob("*.tar"))
    shards[0].unlink()
    whole = shards[1].read_bytes()
    with tarfile.open(shards[1]) as tar:
        third = tar.getmembers()[4]
    shards[1].write_bytes(whole[: third.offset_data + 100])
    left = prepared(tmp_path / "left", {"kind": "shards", "source": str(data / "shards")})
    assert len(left) == len(cuts) - 5 - 3
    told = " ".join(capsys.readouterr().err.split())
    assert "recording.000000.tar is missing" in told
    assert "recording.000001.tar ends in the middle" in told
    listed = (tmp_path / "left/data/skipped.tsv").read_text().splitlines()[1:]
    assert len(listed) == 5 + 3
    # A manifest of before names what is no longer there.
    problems = []
    for utterance in load_manifest(data / split_file("train")):
        try:
            heard(utterance)
        except AudioProblem as problem:
            problems.append(str(problem))
    assert len(problems) == 8


def test_plain_tars_of_strangers_are_judged_item_by_item(
    cuts: list[Utterance], tmp_path: Path
) -> None:
    """Texts as files or in JSON; what is none is listed, and the rest is used."""
    sound = Path(cuts[0].audio).read_bytes()
    members = {
        "a/one.wav": sound,
        "a/one.txt": b"a b d",
        "two.wav": sound,
        "two.json": b'{"text": "e g", "language": "x-b"}',
        "none.wav": b"RIFF",
        "none.txt": b"a",
        "mute.txt": b"a",
        "bare.wav": sound,
        "list.wav": sound,
        "list.json": b"[1]",
    }
    (tmp_path / "tars").mkdir()
    with tarfile.open(tmp_path / "tars/0.tar", "w") as tar:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    found = prepared(tmp_path, {"kind": "shards", "source": str(tmp_path / "tars")})
    assert [(u.id, u.language, u.text) for u in found] == [
        ("a/one", "x-a", "a b d"),
        ("two", "x-b", "e g"),
    ]
    listed = (tmp_path / "data/skipped.tsv").read_text().splitlines()[1:]
    assert len(listed) == 4
