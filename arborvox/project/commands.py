"""What the commands of a project do and say."""

from collections.abc import Sequence
from pathlib import Path

from rich.table import Table

from arborvox.config.choices import SpeakerFrom, VoiceActivity
from arborvox.console import say, show, warn
from arborvox.errors import ArborvoxError
from arborvox.project.adding import add_recordings
from arborvox.project.drafting import draft_items
from arborvox.project.learning import learn
from arborvox.project.models import LearnedModel
from arborvox.project.progress import read_status, stop_learning
from arborvox.project.project import Project, is_project
from arborvox.project.withdrawal import withdraw


def add_to_project(
    folder: Path,
    recordings: Sequence[Path],
    *,
    language: str | None,
    model: Path | None,
    speaker: str | None,
    speaker_from: SpeakerFrom | None,
    vad: VoiceActivity,
) -> None:
    """Add recordings, making the project if need be, and draft them if there is a model."""
    if is_project(folder):
        project = Project.open(folder, model=model)
    elif language is None:
        raise ArborvoxError(f"{folder} is no project yet: give --language, such as sah.")
    else:
        project = Project.create(folder, language=language, model=model)
    added = add_recordings(
        project,
        recordings,
        language=language,
        speaker=speaker,
        speaker_from=speaker_from,
        vad=vad,
    )
    say(
        f"{folder}: {len(added.recordings)} recordings added, cut into {added.num_items} "
        f"utterances, {_minutes(added.seconds)}; {added.num_known} were there already, "
        f"{len(added.skipped)} left out"
    )
    if project.models.path(project.models.current) is not None:
        draft_items(project)


def show_project(folder: Path) -> None:
    """Say how far a project is."""
    project = Project.open(folder)
    told = project.summary()
    show(
        f"{told.num_recordings} recordings of {told.num_speakers} speakers, {told.num_items} "
        f"utterances, {_minutes(told.total_s)}"
    )
    show(
        f"confirmed: {told.num_confirmed} ({_minutes(told.confirmed_s)}), skipped: "
        f"{told.num_skipped}; of the test set {told.num_test_confirmed} of {told.num_test}"
    )
    table = Table("model", "learned from", "test set", "difference", "")
    current = project.models.current
    for model in project.models.learned():
        where = "in use" if model.name == current else "offered" if model.offered else "worse"
        table.add_row(model.name, model.parent, f"{model.rate:.1%}", _difference(model), where)
    show(f"model in use: {current}")
    if table.row_count:
        show(table)
    status = read_status(folder)
    if status.running:
        show(f"learning: {status.stage}, {status.done} of {status.total}")


def draft_project(folder: Path) -> None:
    """Let the model in use hear what it has not heard yet."""
    say(f"{draft_items(Project.open(folder))} utterances drafted")


def withdraw_from_project(folder: Path, *, recording: str | None, speaker: str | None) -> None:
    """Delete what is withdrawn, and name the models that heard it."""
    told = withdraw(Project.open(folder), recording=recording, speaker=speaker)
    say(
        f"withdrawn: {len(told.recordings)} recordings, {told.num_items} utterances, "
        f"{_minutes(told.seconds)}"
    )
    if told.models:
        warn(
            f"These models heard some of it: {', '.join(told.models)}. Delete their folders in "
            f"{folder / 'models'} if they must not be used any more."
        )


def learn_in_project(
    folder: Path, *, also: Path | None, accept: bool, go_back: bool, stop: bool
) -> None:
    """Learn, or put another model into use."""
    if accept + go_back + stop > 1:
        raise ArborvoxError("--accept, --go-back and --stop exclude each other.")
    project = Project.open(folder)
    models = project.models
    if accept:
        offer = models.offer()
        if offer is None:
            raise ArborvoxError(f"{folder}: no model is offered; `arborvox learn {folder}` first.")
        models.accept(offer.name)
        say(f"model in use: {offer.name}")
    elif go_back:
        say(f"model in use: {models.go_back()}")
    elif stop:
        say("asked to stop" if stop_learning(folder) else "no round is at work")
    else:
        model = learn(project, also=also)
        show(
            f"model {model.name}: {model.metric} {model.rate:.1%} on {model.num_test} utterances "
            f"of the test set, before {model.parent_rate:.1%} ({_difference(model)})"
        )
        if model.offered:
            show(f"it is offered: arborvox learn {folder} --accept")
        else:
            show("the test set says that it is worse, so it is not offered")


def _difference(model: LearnedModel) -> str:
    low, high = 100 * model.difference_low, 100 * model.difference_high
    return f"{100 * model.difference:+.1f}, 95 %: {low:+.1f} to {high:+.1f}"


def _minutes(seconds: float) -> str:
    return f"{seconds / 60:.1f} minutes"
