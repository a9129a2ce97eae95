"""What is withdrawn is gone: no byte of it, nor of its text, is left in the project's folder."""

import os
import signal
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import pytest
import soundfile
from made_up_project import confirm, make_project

from arborvox.errors import ArborvoxError
from arborvox.files import write_json_atomic
from arborvox.project import LearnedModel, Project, withdraw
from arborvox.project.models import LEARNED
from arborvox.project.progress import hold_learning

SECRET = "ngomɔ zaláki likambo ya sékélé"
DRAFT = "ngomo zalaki likambo sekele"
GONE = "ana/r00"


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A project in which one recording has a text, a draft, states, a model that heard it."""
    project, said = make_project(tmp_path)
    project.draft("base", [(f"{GONE}/0001", DRAFT, 0.5), ("ivo/r00/0001", "a b", 0.5)])
    for item in project.items():
        confirm(project, item, SECRET if item.recording == GONE else said[item.recording])
    item = project.item(f"{GONE}/0001")
    project.save(item.id, f"{SECRET} kala", revision=1, author="ivo")
    project.undo(item.id, revision=2, author="ivo")
    (project.folder / "cache/ab").mkdir(parents=True)
    (project.folder / "cache/ab/states.npy").write_bytes(sound_of(project))
    (project.folder / "work/run").mkdir(parents=True)
    (project.folder / "work/plan.json").write_text(SECRET, encoding="utf-8")
    (project.folder / "learning.txt").write_text(f"{GONE}: left out", encoding="utf-8")
    # A process that was killed: ids of processes end far below this one.
    scratch = f".log.jsonl.{_machine()}-4194305-abcdefgh.part"
    (project.folder / scratch).write_text(SECRET, encoding="utf-8")
    for name, heard in (("001", ("ana/r00", "ivo/r00")), ("002", ("ivo/r00",))):
        model = LearnedModel(
            name=name, parent="base", time="", offered=True, verdict="same", metric="CER",
            parent_rate=0.5, parent_low=0.4, parent_high=0.6, rate=0.5, low=0.4, high=0.6,
            difference=0.0, difference_low=-0.1, difference_high=0.1, p_value=1.0, num_test=3,
            test_s=3.0, train_s=10.0, elapsed_s=1.0, heard=heard,
        )  # fmt: skip
        told = {**asdict(model), "heard": list(heard)}
        write_json_atomic(project.folder / "models" / name / LEARNED, told)
    return project


def _machine() -> str:
    from arborvox.processes import process_mark

    return process_mark().split("-")[0]


def sound_of(project: Project) -> bytes:
    """Return bytes from the middle of the recording's file."""
    data = (project.folder / "audio" / GONE / "0001.flac").read_bytes()
    return data[len(data) // 2 :][:64]


def traces(folder: Path, marks: list[bytes]) -> list[str]:
    """List where one of the marks is found: in names, in files, and beside them."""
    found = []
    for path in folder.rglob("*"):
        name = str(path.relative_to(folder)).encode()
        data = path.read_bytes() if path.is_file() else b""
        found += [f"{name!r}: {mark!r}" for mark in marks if mark in name or mark in data]
    return found


def marks_of(project: Project) -> list[bytes]:
    words = [word.encode() for word in (*SECRET.split(), *DRAFT.split()) if len(word) > 4]
    return [sound_of(project), GONE.encode(), *words]


def test_nothing_of_a_withdrawn_recording_is_left(project: Project) -> None:
    marks = marks_of(project)
    before = {item.id: item for item in project.items() if item.recording != GONE}
    assert {mark for mark in marks if traces(project.folder, [mark])} == set(marks)
    told = withdraw(project, recording=GONE)
    assert (told.recordings, told.num_items, told.models) == ((GONE,), 1, ("001",))
    assert traces(project.folder, marks) == []
    again = Project.open(project.folder)
    assert {item.id: item for item in again.items()} == before  # and nothing else is gone
    models = {model.name: model for model in again.models.learned()}
    assert (models["001"].heard, models["001"].num_withdrawn) == (("ivo/r00",), 1)
    assert models["002"].num_withdrawn == 0


def test_nothing_of_a_withdrawn_speaker_is_left_not_even_the_name(project: Project) -> None:
    told = withdraw(project, speaker="ana")
    assert told.num_items == 6
    assert traces(project.folder, [b"ana/", b'"ana"', b"\tana\t", SECRET.encode()]) == []
    assert not (project.folder / "audio" / "ana").exists()
    assert {item.speaker for item in project.items()} == {"ivo", "oyo"}


def test_who_has_the_project_open_sees_it_go(project: Project) -> None:
    other = Project.open(project.folder)
    assert other.item(f"{GONE}/0001").text == SECRET
    withdraw(project, recording=GONE)
    with pytest.raises(ArborvoxError, match="has no utterance"):
        other.save(f"{GONE}/0001", SECRET, revision=3, author="eva")
    assert traces(project.folder, [SECRET.encode()]) == []


KILLED = """
import os, shutil, signal, sys
from pathlib import Path
from arborvox import files
from arborvox.project import Project, log, withdraw, withdrawal
place = sys.argv[2]
calls = []
def dying(function, number=1):
    def or_die(*arguments, **options):
        calls.append(1)
        if len(calls) == number:
            os.kill(os.getpid(), signal.SIGKILL)
        return function(*arguments, **options)
    return or_die
project = Project.open(Path(sys.argv[1]))
kind, number = place.split(":")
if kind == "rmtree":
    shutil.rmtree = dying(shutil.rmtree, int(number))
elif kind == "rewrite":
    os.fsync = dying(os.fsync, int(number))
elif kind == "replace":
    Path.replace = dying(Path.replace, int(number))
elif kind == "end":
    withdrawal._deserted = dying(withdrawal._deserted)
withdraw(project, recording=sys.argv[3])
"""


@pytest.mark.parametrize(
    "place", ["rmtree:1", "rmtree:2", "rmtree:3", "rewrite:2", "rewrite:3", "replace:3", "end:1"]
)
def test_a_withdrawal_that_was_killed_is_finished_by_the_next(place: str, project: Project) -> None:
    marks = marks_of(project)
    command = [sys.executable, "-c", KILLED, str(project.folder), place, GONE]
    assert subprocess.run(command, check=False, timeout=120).returncode == -signal.SIGKILL
    assert os.path.lexists(project.folder / ".withdrawing.json")
    again = Project.open(project.folder)
    assert traces(project.folder, marks) == []
    assert len(again.items()) == 17 and not (project.folder / ".withdrawing.json").exists()


def test_what_was_left_by_a_killed_adding_can_be_withdrawn_too(project: Project) -> None:
    home = project.folder / "audio" / "uma" / "r1"
    home.mkdir(parents=True)
    soundfile.write(home / "0001.flac", [0.1] * 100, 16_000)
    withdraw(project, speaker="uma")
    assert not home.parent.exists()


def test_nothing_is_withdrawn_while_a_round_of_learning_is_at_work(project: Project) -> None:
    with (
        hold_learning(project.folder),
        pytest.raises(ArborvoxError, match="A round of learning is at work"),
    ):
        withdraw(project, recording=GONE)
    assert project.item(f"{GONE}/0001").text == SECRET


@pytest.mark.parametrize("named", [{}, {"recording": GONE, "speaker": "ana"}])
def test_one_of_recording_and_speaker_is_named(named: dict[str, str], project: Project) -> None:
    with pytest.raises(ArborvoxError, match="one of the two"):
        withdraw(project, **named)


@pytest.mark.parametrize("name", ["ana", "..", "../..", "ana/", ""])
def test_what_is_not_there_is_not_withdrawn(name: str, project: Project) -> None:
    with pytest.raises(ArborvoxError, match="has no recording"):
        withdraw(project, recording=name)
    assert len(project.items()) == 18
