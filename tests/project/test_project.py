"""What people do in a project: proposed, saved, taken back; two at once, and strangers' names."""

import errno
import os
import threading
from pathlib import Path

import numpy as np
import pytest
import soundfile
from made_up_project import SPEAKERS, confirm, make_project, make_recordings
from tiny_corpus import RATE

from arborvox.config import FolderCorpus
from arborvox.config.choices import Proposal, values_of
from arborvox.corpora import prepare
from arborvox.errors import ArborvoxError
from arborvox.manifest import load_manifest, split_file
from arborvox.project import Conflict, Item, Project, UnknownItem
from arborvox.project.adding import add_recordings
from arborvox.project.held_out import Piece, choose_sets
from arborvox.project.proposals import DEFAULT_PROPOSAL, by_gain

Made = tuple[Project, dict[str, str]]


@pytest.fixture
def made(tmp_path: Path) -> Made:
    """A project with eighteen short recordings of three speakers."""
    return make_project(tmp_path)


def test_a_saved_text_stands_in_log_file_and_table_and_survives_reopening(made: Made) -> None:
    project, said = made
    item = project.next_item("eva")
    assert item is not None and item.state == "draft" and item.revision == 0
    saved = confirm(project, item, f"  {said[item.recording]}\n")
    assert (saved.state, saved.text, saved.revision) == ("confirmed", said[item.recording], 1)
    again = Project.open(project.folder)
    assert again.item(item.id) == saved
    beside = (project.folder / item.audio).with_suffix(".txt")
    assert beside.read_text(encoding="utf-8") == f"{saved.text}\n"
    assert saved.text in (project.folder / "corrected.tsv").read_text(encoding="utf-8")


def test_a_second_browser_does_not_overwrite_the_first(made: Made) -> None:
    first, _ = made
    second = Project.open(first.folder)  # as another process has it
    item = first.items()[0]
    confirm(first, item, "a b")
    with pytest.raises(Conflict) as caught:
        second.save(item.id, "d e", revision=0, author="ivo")
    assert caught.value.item.text == "a b"
    assert first.item(item.id).text == "a b"
    mended = second.save(item.id, "d e", revision=1, author="ivo")
    assert (mended.text, mended.revision, mended.author) == ("d e", 2, "ivo")


def test_a_save_whose_answer_was_lost_may_be_sent_again(made: Made) -> None:
    project, _ = made
    item = project.items()[0]
    once = confirm(project, item, "a b")
    assert project.save(item.id, "a b", revision=0, author="eva") == once
    assert len(project.history(item.id)) == 1
    with pytest.raises(Conflict):  # somebody else's same text is another change
        project.save(item.id, "a b", revision=0, author="ivo")


def test_every_change_can_be_taken_back_and_is_seen(made: Made) -> None:
    project, _ = made
    item = project.items()[0]
    confirm(project, item, "a b")
    project.save(item.id, "d e", revision=1, author="ivo")
    project.skip(item.id, revision=2, author="oyo")
    beside = (project.folder / item.audio).with_suffix(".txt")
    assert not beside.exists()
    assert project.undo(item.id, revision=3, author="eva").text == "d e"
    assert beside.read_text(encoding="utf-8") == "d e\n"
    assert project.undo(item.id, revision=4, author="eva").text == "a b"
    assert project.undo(item.id, revision=5, author="eva").state == "draft"
    with pytest.raises(ArborvoxError, match="nothing to take back"):
        project.undo(item.id, revision=6, author="eva")
    kinds = [change.kind for change in Project.open(project.folder).history(item.id)]
    assert kinds == ["save", "save", "skip", "undo", "undo", "undo"]


def test_two_browsers_are_proposed_different_utterances(made: Made) -> None:
    project, _ = made
    seen = {}
    for turn in range(9):
        for client in ("a", "b"):
            item = project.next_item(client)
            assert item is not None
            assert item.id not in seen, f"{item.id} went to {seen.get(item.id)} and to {client}"
            seen[item.id] = client
            project.skip(item.id, revision=0, author=f"{client}{turn}")
    assert len(seen) == 18 and project.next_item("a") is None


def test_who_asks_again_gets_the_same_and_nobody_else_does(made: Made) -> None:
    project, _ = made
    first = project.next_item("a")
    assert first is not None and project.next_item("a") == first
    other = project.next_item("b")
    assert other is not None and other.id != first.id


def test_every_fourth_utterance_is_of_the_test_set_until_that_is_done(made: Made) -> None:
    project, said = made
    splits = []
    while (item := project.next_item("eva")) is not None:
        splits.append(item.split)
        confirm(project, item, said[item.recording])
    last = max(place for place, split in enumerate(splits) if split == "test")
    assert [place for place, split in enumerate(splits) if split == "test"] == list(
        range(0, last + 1, 4)
    )


@pytest.mark.parametrize("way", values_of(Proposal))
def test_a_project_proposes_in_the_way_that_it_names(way: str, made: Made) -> None:
    project, _ = made
    path = project.folder / "project.json"
    told = path.read_text(encoding="utf-8").replace('"propose": null', f'"propose": "{way}"')
    path.write_text(told, encoding="utf-8")
    again = Project.open(project.folder)
    assert again.proposal == way and project.proposal == DEFAULT_PROPOSAL
    assert again.next_item("eva") is not None


def test_what_is_unsure_and_new_is_worth_more_than_what_is_sure_or_known() -> None:
    def item(name: str, text: str, confidence: float, speaker: str = "ana") -> Item:
        return Item(name, name, speaker, "x-a", 0.0, 2.0, "train", "draft", text, text, confidence, 0, "", "")  # fmt: skip  # noqa: E501

    done = [item("d", "kumi na moja", 0.5), item("e", "kumi na mbili", 0.5)]
    sure, unsure, known, heard, rare = by_gain(
        [
            item("a", "watu wengi", 0.9),
            item("b", "watu wengi", 0.4),
            item("c", "kumi na moja", 0.4),
            item("f", "simba mkali", 0.4),
            item("g", "simba mkali", 0.4, speaker="ivo"),
        ],
        done,
    )
    assert unsure > sure and unsure > known and rare > heard


def test_threads_that_save_at_once_lose_nothing(made: Made) -> None:
    project, said = made
    items = project.items()
    threads = [
        threading.Thread(target=confirm, args=(project, item, said[item.recording], f"t{n}"))
        for n, item in enumerate(items)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = Project.open(project.folder).items(state="confirmed")
    assert {item.id: item.text for item in found} == {i.id: said[i.recording] for i in items}


@pytest.mark.parametrize("text", ["", " \t\n", "a\x00b", "a\ud800", "x" * 10_001, "a\x1b[31m"])
def test_a_text_that_is_none_is_refused_with_a_sentence(text: str, made: Made) -> None:
    project, _ = made
    before = (project.folder / "log.jsonl").read_bytes()
    with pytest.raises(ArborvoxError, match=r"\.$"):
        confirm(project, project.items()[0], text)
    assert (project.folder / "log.jsonl").read_bytes() == before


@pytest.mark.parametrize("name", ["", "..", "ana/../../x", "ana/r00/0002", "\x00", "a" * 5000])
def test_an_utterance_that_is_none_is_refused(name: str, made: Made) -> None:
    project, _ = made
    with pytest.raises(UnknownItem):
        project.save(name, "a", revision=0, author="eva")
    with pytest.raises(UnknownItem):
        project.sound_file(name)


def test_a_full_disk_beside_the_log_costs_no_confirmed_text(
    made: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    project, _ = made
    item = project.items()[0]

    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr("arborvox.project.project.write_text_atomic", refuse)
        assert confirm(project, item, "a b").text == "a b"
    beside = (project.folder / item.audio).with_suffix(".txt")
    assert not beside.exists()
    again = Project.open(project.folder)
    assert again.item(item.id).text == "a b" and beside.read_text() == "a b\n"


def test_the_sets_never_change_and_no_test_utterance_is_trained_on(
    made: Made, tmp_path: Path
) -> None:
    project, said = made
    sets = {item.id: item.split for item in project.items()}
    assert {"train", "test"} <= set(sets.values())
    assert {name.split("/")[0] for name, split in sets.items() if split == "test"} == set(SPEAKERS)
    said |= make_recordings(tmp_path / "more", number=8, seed=1)
    add_recordings(project, [tmp_path / "more"])
    for item in project.items():
        assert sets.get(item.id, item.split) == item.split
        confirm(project, item, said[item.recording])
    source = project.folder / "corrected.tsv"
    prepare(FolderCorpus(source=str(source), split="given"), tmp_path / "data", jobs=1)
    held = {item.audio for item in project.items(split="test")}
    for split in ("train", "dev"):
        audio = {Path(u.audio) for u in load_manifest(tmp_path / "data" / split_file(split))}
        assert audio and not audio & {project.folder / name for name in held}


def test_a_test_set_that_is_large_enough_stays_what_it_is() -> None:
    pieces = [Piece(f"s{n % 5}/r{n}", f"s{n % 5}", 0.0, 10.0) for n in range(200)]
    first = choose_sets(pieces, 0.0, 0.0)
    assert first == choose_sets(pieces, 0.0, 0.0)
    test_s = 10.0 * first.count("test")
    assert 300 <= test_s <= 310
    speakers = {
        piece.speaker for piece, split in zip(pieces, first, strict=True) if split == "test"
    }
    assert len(speakers) == 5
    assert "test" not in choose_sets(pieces, 2000.0, test_s)


def test_the_folder_is_plain_files_that_prepare_reads(made: Made, tmp_path: Path) -> None:
    project, said = made
    for item in project.items():
        confirm(project, item, said[item.recording])
    corpus = FolderCorpus(source=str(project.folder / "audio"), language="x-a", split="utterance")
    prepare(corpus, tmp_path / "data", jobs=1)
    found = [
        utterance
        for split in ("train", "dev", "test")
        for utterance in load_manifest(tmp_path / "data" / split_file(split))
    ]
    assert sorted(u.text for u in found) == sorted(said.values())


def test_long_recordings_are_cut_at_their_pauses_and_texts_of_short_ones_are_taken(
    tmp_path: Path,
) -> None:
    chance = np.random.default_rng(0)
    parts = [
        part
        for _ in range(8)
        for part in (chance.normal(0, 0.1, 3 * RATE), chance.normal(0, 0.0002, RATE))
    ]
    brought = tmp_path / "brought"
    brought.mkdir()
    soundfile.write(brought / "long.wav", np.concatenate(parts), RATE)
    soundfile.write(brought / "short.wav", parts[0], RATE)
    (brought / "short.txt").write_text("a b\n", encoding="utf-8")
    (brought / "broken.wav").write_bytes(b"RIFF no sound")
    project = Project.create(tmp_path / "project", language="x-a")
    added = add_recordings(project, [brought])
    assert [Path(name).name for name, _ in added.skipped] == ["broken.wav"]
    long = project.items(recording="unknown/long")
    assert len(long) == 8 and all(item.speaker is None for item in long)
    for number, item in enumerate(long):
        assert abs(item.start_s - 4 * number) < 0.5 and abs(item.duration_s - 3) < 0.8
        info = soundfile.info(project.sound_file(item.id))
        assert info.frames / info.samplerate == pytest.approx(item.duration_s, abs=0.01)
    (short,) = project.items(recording="unknown/short")
    assert (short.state, short.text, short.author) == ("confirmed", "a b", "import")
    again = add_recordings(project, [brought])
    assert again.recordings == () and again.num_known == 2


@pytest.mark.parametrize(
    "name", ["a:b?.wav", "con.wav", " .wav", "é" * 70 + ".wav", "tab\tname.wav", "\udcff.wav"]
)
def test_recordings_of_any_name_get_a_place_below_audio(name: str, tmp_path: Path) -> None:
    brought = tmp_path / "brought" / "who: me"
    brought.mkdir(parents=True)
    sound = np.random.default_rng(0).normal(0, 0.1, RATE)
    soundfile.write(tmp_path / "x.wav", sound, RATE)
    (tmp_path / "x.wav").rename(brought / name)
    project = Project.create(tmp_path / "project", language="x-a")
    add_recordings(project, [tmp_path / "brought"])
    (item,) = project.items()
    assert project.sound_file(item.id).is_file()
    assert project.sound_file(item.id).is_relative_to(project.folder / "audio")
    confirm(project, item, "a b")
    lines = (project.folder / "corrected.tsv").read_text(encoding="utf-8").splitlines()
    assert [len(line.split("\t")) for line in lines] == [5, 5]


def test_a_folder_that_is_no_project_is_told(tmp_path: Path) -> None:
    with pytest.raises(ArborvoxError, match=r"has no project\.json"):
        Project.open(tmp_path)


@pytest.mark.parametrize(
    "event",
    [
        {"kind": "recording", "recording": "a/b"},
        {"kind": "recording", "recording": 5, "speaker": None, "language": "x-a", "duration_s": 1,
         "digest": "", "items": [[0, 1, "train"]]},
        {"kind": "recording", "recording": "a/b", "speaker": None, "language": "x-a",
         "duration_s": 1, "digest": "", "items": [[0, 1, "learn"]]},
        {"kind": "recording", "recording": "../../b", "speaker": None, "language": "x-a",
         "duration_s": 1, "digest": "", "items": [[0, 1, "train"]]},
        {"kind": "save", "item": "ana/r00/0001", "text": ["a"], "author": "eva"},
        {"kind": "drafts", "model": "base", "drafts": [["ana/r00/0001"]]},
    ],
)  # fmt: skip
def test_a_strangers_log_is_refused_and_reaches_no_other_folder(
    event: dict[str, object], made: Made, tmp_path: Path
) -> None:
    project, _ = made
    with project.log.turn():
        project.log.read_new()
        project.log.append(event)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(ArborvoxError, match=r"of another form|cannot be the name of a file"):
        Project.open(project.folder)
    assert sorted(tmp_path.rglob("*")) == before


def test_what_a_newer_version_writes_into_the_log_is_left_alone(made: Made) -> None:
    project, _ = made
    with project.log.turn():
        project.log.read_new()
        project.log.append({"kind": "praise", "item": 7})
    assert len(Project.open(project.folder).items()) == 18
