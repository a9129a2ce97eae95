"""A round of learning: its model is compared before it is offered, and a kill changes nothing."""

import errno
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from checkpoints import LETTERS, make_checkpoint
from made_up_project import confirm, confirm_all, make_project
from tiny_corpus import run_process

from arborvox.config import DecodeConfig, load_resolved_recipe
from arborvox.errors import ArborvoxError
from arborvox.model.checkpoint import (
    CONFIG,
    find_checkpoint,
    load_checkpoint,
    recipe_version,
    save_search,
)
from arborvox.project import Project, draft_items, read_status, stop_learning, withdraw
from arborvox.project import learning as module
from arborvox.project.going_on import draft_error, go_on
from arborvox.project.learning import hand_down_search, judge, learn
from arborvox.project.models import BASE
from arborvox.score.bootstrap import Difference, Estimate

COMMAND = str(Path(__file__).with_name("learn_command.py"))
OPEN = 4  # utterances that nobody has corrected


@pytest.fixture(scope="module")
def corrected(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project in which almost everything was corrected, and nothing was learned."""
    project, said = make_project(tmp_path_factory.mktemp("corrected"))
    draft_items(project)
    confirm_all(project, said)
    for item in project.items(split="train")[:OPEN]:
        project.undo(item.id, revision=item.revision, author="eva")
    return project.folder


@pytest.fixture(scope="module")
def learned(corrected: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same project after a round that nothing disturbed."""
    folder = _copy(corrected, tmp_path_factory.mktemp("learned"))
    done = run_process([COMMAND, "learn", str(folder)])
    assert done.returncode == 0, done.stderr
    return folder


def _copy(project: Path, to: Path) -> Path:
    shutil.copytree(project, to / "project")
    return to / "project"


def _weights(project: Path) -> bytes:
    return (project / "models/001/model.safetensors").read_bytes()


def test_a_model_that_writes_well_is_changed_with_more_care(corrected: Path) -> None:
    project = Project.open(corrected)
    parent = find_checkpoint(module.model_path(project, BASE))
    before = load_resolved_recipe(parent / CONFIG, recipe_version(parent))
    rates = [
        go_on(
            before, parent, name="next", seed=1, train_s=60.0, cache=corrected, error=error
        ).train.learning_rate
        for error in (None, 0.31, 0.29, 0.0)
    ]
    assert rates[0] == rates[1] == pytest.approx(5 * rates[2]) == pytest.approx(5 * rates[3])


def test_how_much_of_the_drafts_was_corrected(corrected: Path) -> None:
    assert draft_error([]) is None
    assert draft_error([("abcd", "Abed."), ("", "wxyz")]) == pytest.approx(5 / 8)
    project = Project.open(corrected)
    pairs = project.corrections(BASE)
    assert len(pairs) == len(project.items(state="confirmed")) > 0
    assert all(text == text.strip() != "" for _, text in pairs)
    assert project.corrections("001") == []


def test_a_round_makes_a_model_that_was_compared_and_drafts_with_it(learned: Path) -> None:
    project = Project.open(learned)
    (model,) = project.models.learned()
    assert (model.name, model.parent, model.metric) == ("001", BASE, "PER")
    assert model.num_test == len(project.items(split="test"))
    assert model.difference == pytest.approx(model.rate - model.parent_rate)
    assert model.offered == (model.verdict != "worse")
    trained = {i.recording for i in project.items(state="confirmed") if i.split != "test"}
    assert set(model.heard) == trained
    assert len(project.undrafted("001")) == 0
    assert read_status(learned).stage == "done" and not read_status(learned).running
    assert not (learned / "work").exists()


@pytest.mark.parametrize("grown", [False, True])
def test_a_tuned_search_is_handed_down(
    grown: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    parent = make_checkpoint(tmp_path / "parent")
    child = make_checkpoint(tmp_path / "child", units=(*LETTERS, "ŋ") if grown else LETTERS)
    hand_down_search(parent, child)
    assert load_checkpoint(child).search is None  # there was none
    lm = tmp_path / "lm.arpa"
    lm.write_text("\\data\\\nngram 1=1\n\n\\1-grams:\n-1.0\ta\n\n\\end\\\n", "utf-8")
    tuned = DecodeConfig(mode="ctc-beam", lm_weight=0.4, length_bonus=0.2, lm=lm)
    save_search(parent, tuned)
    hand_down_search(parent, child)
    assert load_checkpoint(child).search == tuned.model_copy(update={"lm": child / "lm.arpa.gz"})
    assert ("does not know ŋ" in capsys.readouterr().err) == grown


def test_a_model_is_taken_and_given_back_by_name_alone(learned: Path, tmp_path: Path) -> None:
    project = Project.open(_copy(learned, tmp_path))
    models = project.models
    offer = models.offer()
    assert offer is not None and models.current == BASE
    models.accept(offer.name)
    assert Project.open(project.folder).models.current == "001"
    assert models.path("001") == project.folder / "models/001" and models.offer() is None
    assert models.go_back() == BASE and models.current == BASE
    with pytest.raises(ArborvoxError, match="no other model was in use before"):
        models.go_back()


def test_a_model_that_is_worse_is_not_offered(learned: Path, tmp_path: Path) -> None:
    project = Project.open(_copy(learned, tmp_path))
    path = project.folder / "models/001/learned.json"
    told = path.read_text(encoding="utf-8").replace('"offered": true', '"offered": false')
    path.write_text(told, encoding="utf-8")
    assert project.models.offer() is None
    with pytest.raises(ArborvoxError, match="is worse"):
        project.models.accept("001")
    assert project.models.current == BASE


@pytest.mark.parametrize(
    ("value", "p_value", "verdict"),
    [(0.1, 0.01, "worse"), (-0.1, 0.01, "better"), (0.1, 0.2, "same"), (-0.1, 0.2, "same")],
)
def test_the_paired_test_has_the_say(value: float, p_value: float, verdict: str) -> None:
    found = Difference(0.5, 0.5 + value, Estimate(value, value - 0.1, value + 0.1), 0.5, p_value)
    assert judge(found) == verdict


@pytest.mark.parametrize(
    "place",
    [
        "backward:8",
        pytest.param("decode:2", marks=pytest.mark.slow),
        pytest.param("publish:1", marks=pytest.mark.slow),
        "draft:1",
    ],
)
def test_a_round_that_was_killed_goes_on_and_ends_the_same(
    place: str, corrected: Path, learned: Path, tmp_path: Path
) -> None:
    folder = _copy(corrected, tmp_path)
    killed = run_process([COMMAND, "learn", str(folder)], END_AT=place, END_BY="KILL")
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    status = read_status(folder)
    assert not status.running and status.stage not in ("done", "failed")
    # What is corrected meanwhile is for the next round; this one ends as it was planned.
    project = Project.open(folder)
    confirm(project, project.items(state="draft")[0], "a b d")
    done = run_process([COMMAND, "learn", str(folder)])
    assert done.returncode == 0, done.stderr
    assert _weights(folder) == _weights(learned)
    (model,), (other,) = (Project.open(f).models.learned() for f in (folder, learned))
    assert (model.rate, model.difference, model.heard) == (
        other.rate,
        other.difference,
        other.heard,
    )
    assert Project.open(folder).undrafted("001") == []


def test_a_stopped_round_keeps_nobody_from_correcting_and_can_be_ended(
    corrected: Path, tmp_path: Path
) -> None:
    folder = _copy(corrected, tmp_path)
    environment = {**os.environ, "END_AT": "backward:3", "END_BY": "STOP", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, COMMAND, "learn", str(folder)]
    process = subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL)
    try:
        _, how = os.waitpid(process.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(how)
        project = Project.open(folder)
        item = project.items(state="draft")[0]
        assert confirm(project, item, "a b d").state == "confirmed"
        status = read_status(folder)
        assert status.running and status.stage == "train" and status.process == process.pid
        with pytest.raises(ArborvoxError, match="A round of learning is at work"):
            learn(project)
        with pytest.raises(ArborvoxError, match="A round of learning is at work"):
            withdraw(project, recording=item.recording)
        assert stop_learning(folder)
        assert process.wait(120) == 130
    finally:
        process.kill()
        process.wait()
    assert read_status(folder).stage == "stopped" and not read_status(folder).running


def test_a_full_disk_is_told_and_the_round_goes_on_when_there_is_room(
    corrected: Path, learned: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = Project.open(_copy(corrected, tmp_path))

    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(project.folder / "work"))

    with monkeypatch.context() as patch, pytest.raises(OSError, match="No space"):
        patch.setattr(module, "train", refuse)
        learn(project)
    status = read_status(project.folder)
    assert status.stage == "failed" and "No space left on device" in status.message
    done = run_process([COMMAND, "learn", str(project.folder)])
    assert done.returncode == 0, done.stderr
    assert _weights(project.folder) == _weights(learned)


def test_too_few_corrections_are_told(tmp_path: Path) -> None:
    project, said = make_project(tmp_path)
    with pytest.raises(ArborvoxError, match="0 confirmed utterances to learn from are too few"):
        learn(project)
    assert "too few" in read_status(project.folder).message
    for item in project.items(split="train"):
        confirm(project, item, said[item.recording])
    with pytest.raises(ArborvoxError, match="0 confirmed utterances of the test set"):
        learn(project)
    assert project.models.learned() == []


def test_a_withdrawn_recording_leaves_no_trace_of_its_text_in_what_was_learned(
    learned: Path, tmp_path: Path
) -> None:
    project = Project.open(_copy(learned, tmp_path))
    item = next(i for i in project.items(state="confirmed") if i.split == "train")
    told = withdraw(project, recording=item.recording)
    assert told.models == ("001",)
    for path in project.folder.rglob("*"):
        data = path.read_bytes() if path.is_file() else b""
        assert item.recording.encode() not in data and item.recording not in str(path)
    assert Project.open(project.folder).models.learned()[0].num_withdrawn == 1


def test_letters_that_are_new_get_a_unit_and_old_ones_keep_theirs(
    corrected: Path, tmp_path: Path
) -> None:
    project = Project.open(_copy(corrected, tmp_path))
    item = project.items(split="train", state="draft")[0]
    confirm(project, item, "a zz b")
    done = run_process([COMMAND, "learn", str(project.folder)])
    assert done.returncode == 0, done.stderr
    tokens = (project.folder / "models/001/tokens.json").read_text(encoding="utf-8")
    assert '["zz", {"x-a": 1}]' in tokens
    assert '["a", {"x-a": 3}]' in tokens  # as the first model counted it
