"""`arborvox elan-plugin` and `tiers`: a model as an extension of ELAN; pictures of its files."""

from pathlib import Path
from typing import Annotated, Any

import typer

from arborvox.cli.decode import asked_config, takes_search_options


@takes_search_options()
def elan_plugin(
    run: Annotated[Path, typer.Option(help="Folder of a run, or of one of its checkpoints.")],
    out: Annotated[Path, typer.Option(help="The extension's folder.")],
    name: Annotated[
        str | None, typer.Option(help="What ELAN calls it; the recipe's name if left out.")
    ] = None,
    **options: Any,
) -> None:
    """Make an extension by which ELAN runs a model on this computer.

    The folder goes into ELAN's `extensions`; the model and this Python stay where they are.
    """
    from arborvox.elan import write_plugin

    write_plugin(run, out, asked_config(options), name)


def tiers(
    file: Annotated[Path, typer.Argument(help="An .eaf or .TextGrid.")],
    recording: Annotated[Path, typer.Argument(help="The recording that it belongs to.")],
    out: Annotated[Path, typer.Option(help="The picture to write, .png or .svg.")],
    start: Annotated[float, typer.Option(min=0, help="Where to begin, in seconds.")] = 0.0,
    end: Annotated[float | None, typer.Option(min=0, help="Where to end.")] = None,
) -> None:
    """Draw the tiers of a file below the waveform of its recording."""
    from arborvox.report.tier_picture import draw_tiers

    draw_tiers(file, recording, start, end, out)


def register(app: typer.Typer) -> None:
    """Add both commands to the program."""
    app.command("elan-plugin")(elan_plugin)
    app.command()(tiers)
