"""`arborvox project` and `arborvox learn`: recordings to correct, and models that learn from it."""

from pathlib import Path
from typing import Annotated

import typer

from arborvox.config.choices import SpeakerFrom, VoiceActivity

Folder = Annotated[Path, typer.Argument(help="The project's folder.")]

group = typer.Typer(
    help="Recordings to correct on the page of `serve`: add, look, withdraw.",
    no_args_is_help=True,
)


def register(app: typer.Typer) -> None:
    """Add the commands to the app."""
    app.add_typer(group, name="project")
    app.command("learn")(learn)


@group.command("add")
def add(
    folder: Folder,
    recordings: Annotated[list[Path], typer.Argument(help="Files, or folders of them.")],
    language: Annotated[
        str | None, typer.Option(help="Their language, such as sah; needed the first time.")
    ] = None,
    model: Annotated[
        Path | None, typer.Option(help="The run that writes the first drafts.")
    ] = None,
    speaker: Annotated[str | None, typer.Option(help="Who speaks in all of them.")] = None,
    speaker_from: Annotated[
        SpeakerFrom | None,
        typer.Option(
            help="Who speaks: the folder of a recording, or its name up to the first _ or -.  "
            "[default: the folder, if it is one in a folder given here]",
        ),
    ] = None,
    vad: Annotated[
        VoiceActivity, typer.Option(help="By what long recordings are cut at their pauses.")
    ] = "energy",
) -> None:
    """Add recordings to a project, which is made if need be; long ones are cut at their pauses.

    A .txt beside a recording that needs no cutting counts as confirmed. A tenth or so is kept for
    testing. Recordings that the project has already are left as they are.
    """
    from arborvox.project.commands import add_to_project

    add_to_project(
        folder,
        recordings,
        language=language,
        model=model,
        speaker=speaker,
        speaker_from=speaker_from,
        vad=vad,
    )


@group.command("show")
def show(folder: Folder) -> None:
    """Say how far a project is, and which models it has."""
    from arborvox.project.commands import show_project

    show_project(folder)


@group.command("draft")
def draft(folder: Folder) -> None:
    """Let the model in use write drafts for all that is neither corrected nor drafted."""
    from arborvox.project.commands import draft_project

    draft_project(folder)


@group.command("withdraw")
def withdraw(
    folder: Folder,
    recording: Annotated[
        str | None, typer.Option(help="A recording, as SPEAKER/NAME: see audio/.")
    ] = None,
    speaker: Annotated[str | None, typer.Option(help="All recordings of a speaker.")] = None,
) -> None:
    """Delete a recording, or a speaker's, and all that was made from it; this is for good.

    Models that heard it are named: they are not deleted.
    """
    from arborvox.project.commands import withdraw_from_project

    withdraw_from_project(folder, recording=recording, speaker=speaker)


def learn(
    folder: Folder,
    also: Annotated[
        Path | None,
        typer.Option(help="A folder of `arborvox prepare` whose training set is learned, too."),
    ] = None,
    accept: Annotated[
        bool, typer.Option("--accept", help="Put the model into use that was offered.")
    ] = False,
    go_back: Annotated[
        bool, typer.Option("--go-back", help="Put the model into use that was before.")
    ] = False,
    stop: Annotated[
        bool, typer.Option("--stop", help="Stop the round at work; learning again goes on.")
    ] = False,
) -> None:
    """Learn from what was corrected: train on, and compare with the model in use.

    The new model is offered if the project's fixed test set does not say that it is worse. A round
    that was killed goes on where it was.
    """
    from arborvox.project.commands import learn_in_project

    learn_in_project(folder, also=also, accept=accept, go_back=go_back, stop=stop)
