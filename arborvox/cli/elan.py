"""`arborvox elan-plugin`: a trained model as an extension of ELAN."""

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


def register(app: typer.Typer) -> None:
    """Add the command to the program."""
    app.command("elan-plugin")(elan_plugin)
