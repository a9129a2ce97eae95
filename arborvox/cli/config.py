"""`arborvox config`: recipes, resolved and shown."""

from pathlib import Path
from typing import Annotated

import typer

group = typer.Typer(help="Look at recipes.", no_args_is_help=True)


def register(app: typer.Typer) -> None:
    """Add the commands to the app."""
    app.add_typer(group, name="config")


@group.command("show")
def show(
    recipe: Annotated[Path, typer.Argument(help="A recipe, such as recipes/ucla.yaml.")],
    overrides: Annotated[
        list[str] | None, typer.Option("--set", help="Override a key: section.key=value.")
    ] = None,
) -> None:
    """Print a recipe with all defaults and overrides resolved."""
    from arborvox.config import load_recipe, show_recipe
    from arborvox.pipeline.variants import read_variants

    resolved = load_recipe(recipe, overrides or ())
    for variant in read_variants(recipe, overrides or ()):
        variant.recipe(resolved.train.seed)  # what is set for a variant alone is checked as well
    typer.echo(show_recipe(resolved), nl=False)
