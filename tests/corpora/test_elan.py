"""Projects of ELAN: annotations become utterances, and what cannot is listed."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from releases import tone
from test_common_voice import read_cuts, read_skipped

from arborvox.annotations import Annotation, Tier, make_eaf
from arborvox.config.corpus import ElanCorpus
from arborvox.corpora import prepare
from arborvox.errors import ArborvoxError

DATE = datetime(2026, 1, 1, tzinfo=UTC)
SIDES = ("train", "dev", "test")
LETTERS = "abcdefghijklmnopqrstuvwxyz"


def write(path: Path, tiers: list[Tier], media: Path | None = None) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    folder = None if media is None else media.parent
    path.write_bytes(make_eaf(tiers, media, DATE, folder))
    return path


def utterances(number: int, speaker: str) -> Tier:
    found = [Annotation(n, n + 0.9, f"mot {LETTERS[number]} {LETTERS[n]}") for n in range(6)]
    return Tier(f"tx@{speaker}", tuple(found), speaker, "utterance")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Twelve recordings of three speakers; the sound lies in a folder of its own."""
    for number in range(12):
        tone(tmp_path / f"p/audio/tape {number}.wav", seconds=7.0)
        tier = utterances(number, "ABC"[number % 3])
        other = Tier("notes", (Annotation(0, 5, "noise"),), "", "note")
        path = write(
            tmp_path / f"p/tape {number}.eaf", [tier, other], Path(f"/t/tape {number}.wav")
        )
        told = path.read_bytes().replace(b"./tape%20", b"./audio/tape%20")
        path.write_bytes(told)
    return tmp_path / "p"


def run(source: Path, out: Path, **keys: Any) -> list[dict[str, Any]]:
    config = ElanCorpus(source=str(source), **{"language": "ca", "tier": ("tx",), **keys})
    prepare(config, out, jobs=1)
    return [cut for split in SIDES for cut in read_cuts(out, split)]


@pytest.mark.parametrize("asked", [{"tier": ("tx",)}, {"tier": None, "tier_type": "utterance"}])
def test_annotations_become_utterances(
    project: Path, tmp_path: Path, asked: dict[str, Any]
) -> None:
    cuts = run(project, tmp_path / "out", **asked)
    assert len(cuts) == 72
    cut = next(c for c in cuts if c["id"] == "tape 4-tx@B-00002000-00002900")
    told = cut["supervisions"][0]
    assert (cut["start"], cut["duration"]) == pytest.approx((2.0, 0.9))
    assert (told["text"], told["speaker"], told["language"]) == ("mot e c", "B", "ca")
    assert cut["recording"]["sources"][0]["source"].endswith("audio/tape 4.wav")


@pytest.mark.parametrize("split", ["recording", "speaker"])
def test_no_recording_or_speaker_is_on_two_sides(project: Path, tmp_path: Path, split: str) -> None:
    run(project, tmp_path / "out", split=split)
    sides = []
    for side in SIDES:
        cuts = read_cuts(tmp_path / "out", side)
        key = {c["recording"]["id"] for c in cuts}
        sides.append(
            key if split == "recording" else {c["supervisions"][0]["speaker"] for c in cuts}
        )
    assert sum(map(len, sides)) == len(set.union(*sides))
    assert sides[0] and sides[2]


def test_a_split_by_recording_can_be_kept(project: Path, tmp_path: Path) -> None:
    run(project, tmp_path / "before")
    before = {side: {c["id"] for c in read_cuts(tmp_path / "before", side)} for side in SIDES}
    held = min(before["test"]).partition("-")[0]
    number = int(held.removeprefix("tape "))
    # One more annotation in a recording that is held out, and a recording that is new.
    more = Tier("tx", (Annotation(6.0, 6.9, "mot nou"),), "", "utterance")
    write(project / f"{held}.eaf", [utterances(number, "ABC"[number % 3]), more])
    tone(project / f"{held}.wav", seconds=7.0)
    (project / f"audio/{held}.wav").unlink()
    write(project / "new.eaf", [utterances(20, "A")])
    tone(project / "new.wav", seconds=7.0)
    run(project, tmp_path / "after", keep_split=str(tmp_path / "before/split.tsv"))
    after = {side: {c["id"] for c in read_cuts(tmp_path / "after", side)} for side in SIDES}
    assert (after["test"], after["dev"]) == (before["test"], before["dev"])
    new = after["train"] - before["train"]
    assert len(new) == 6 and all(identity.startswith("new-") for identity in new)
    why = read_skipped(tmp_path / "after")[str(project / f"{held}.wav")]
    assert why == "recording is in another split"


def test_too_few_to_split_by_are_told(
    project: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert len(run(project / "tape 1.eaf", tmp_path / "out")) == 6
    told = " ".join(capsys.readouterr().err.split())
    assert "ca: fewer than 3 recordings, so the split is by sentence" in told
    with pytest.raises(ArborvoxError, match="of ca 1 speakers; use sentence, or recording"):
        run(project / "tape 1.eaf", tmp_path / "none", split="speaker")


def test_letters_that_look_alike_are_unified(project: Path, tmp_path: Path) -> None:
    greek = Tier(
        "tx", (Annotation(0.0, 0.9, "m\N{GREEK SMALL LETTER OMICRON}t g"),), "", "utterance"
    )
    write(project / "odd.eaf", [greek])
    tone(project / "odd.wav", seconds=7.0)
    assert not [c for c in run(project, tmp_path / "as-is") if c["id"].startswith("odd-")]
    cuts = run(project, tmp_path / "out", look_alikes="unify")
    texts = [c["supervisions"][0]["text"] for c in cuts if c["id"].startswith("odd-")]
    assert texts == ["mot g"]


def test_symbolic_tiers_have_the_times_of_what_they_hang_on(project: Path, tmp_path: Path) -> None:
    tiers = [
        Tier("ref", (Annotation(1, 3, "1"), Annotation(3, 5, "2")), "A", "ref"),
        Tier(
            "mb",
            tuple(
                Annotation(0, 0, value, place) for place, value in ((0, "a"), (0, "b"), (1, "c"))
            ),
            "A",
            "morphemes",
            "ref",
            "Symbolic_Subdivision",
        ),
    ]
    write(project / "tape 0.eaf", tiers)
    tone(project / "tape 0.wav", seconds=7.0)
    cuts = run(project, tmp_path / "out", tier=("mb", "tx"))
    found = {c["id"]: c for c in cuts if "-mb-" in c["id"]}
    assert {c["supervisions"][0]["text"] for c in found.values()} == {"a b", "c"}
    assert "tape 0-mb-00001000-00003000" in found


def test_what_cannot_be_learned_from_is_listed(project: Path, tmp_path: Path) -> None:
    odd = (
        Annotation(0.0, 1.0, "mot x"),
        Annotation(0.5, 1.4, "mot y"),
        Annotation(2.0, 2.0, "mot z"),
        Annotation(2.5, 3.0, " "),
        Annotation(3.0, 3.5, "***"),
        Annotation(4.0, 4.5, "mot w"),
        Annotation(6.5, 9.5, "mot v"),
    )
    write(project / "odd.eaf", [Tier("tx", odd, "A", "utterance")])
    tone(project / "odd.wav", seconds=7.0)
    write(project / "lost.eaf", [utterances(3, "A")], Path("/nowhere/lost.wav"))
    write(project / "other.eaf", [Tier("notes", (), "", "note")])
    (project / "bad.eaf").write_text("<x", encoding="utf-8")
    (project / "bomb.eaf").write_text('<!DOCTYPE x [<!ENTITY a "b">]><x>&a;</x>', encoding="utf-8")
    cuts = run(project, tmp_path / "out", ignore=("***",))
    assert sum(c["id"].startswith("odd-") for c in cuts) == 1
    listed = read_skipped(tmp_path / "out")
    assert listed["odd.eaf, tx, 0.000-1.000 s"] == "overlaps another annotation: 0.50 of 1.00 s"
    assert listed["odd.eaf, tx, 0.500-1.400 s"].startswith("overlaps another annotation")
    assert listed["odd.eaf, tx, 2.000-2.000 s"] == "annotation of no length"
    assert listed["odd.eaf, tx, 2.500-3.000 s"] == "empty annotation"
    assert listed["odd.eaf, tx, 3.000-3.500 s"] == "ignored text: ***"
    assert listed["odd.eaf, tx, 6.500-9.500 s"].startswith("segment beyond the end")
    assert listed["lost.eaf"].startswith("no recording: ./lost.wav is not in the folder")
    assert listed["other.eaf"] == "no such tier"
    assert listed["bad.eaf"].startswith("not read: ")
    assert "a document type or an entity is declared" in listed["bomb.eaf"]


@pytest.mark.parametrize(
    "link",
    [
        "../secret.wav",
        "%2e%2e/secret.wav",
        "{root}/secret.wav",
        "..\\secret.wav",
        "x" * 5000 + ".wav",
    ],
)
def test_recordings_outside_of_the_folder_are_not_read(
    project: Path, tmp_path: Path, link: str
) -> None:
    tone(tmp_path / "secret.wav", seconds=7.0)
    path = write(project / "spy.eaf", [utterances(5, "A")], Path("/x/spy.wav"))
    link = link.format(root=tmp_path)
    told = path.read_bytes().replace(b"file:///x/spy.wav", f"file://{link}".encode())
    path.write_bytes(told.replace(b"./spy.wav", link.encode()))
    cuts = run(project, tmp_path / "out")
    assert not [c for c in cuts if c["id"].startswith("spy")]
    assert "is not in the folder" in read_skipped(tmp_path / "out")["spy.eaf"]


@pytest.mark.parametrize(
    ("keys", "told"),
    [
        ({"tier": None}, "with --tier"),
        ({"language": None}, "give --language"),
        ({"tier": ("text",)}, "there are: notes, tx@A, tx@B, tx@C"),
    ],
)
def test_what_was_not_said_is_asked_for(
    project: Path, tmp_path: Path, keys: dict[str, Any], told: str
) -> None:
    with pytest.raises(ArborvoxError, match=told):
        run(project, tmp_path / "out", **keys)


def test_a_folder_without_files_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(ArborvoxError, match=r"holds no file that ends in \.eaf"):
        run(tmp_path / "empty", tmp_path / "out")
    with pytest.raises(ArborvoxError, match="There is no file or folder"):
        run(tmp_path / "none", tmp_path / "out")
