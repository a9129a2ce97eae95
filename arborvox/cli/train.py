"""`arborvox train`: a recipe in, a trained model out."""

from pathlib import Path
from typing import Annotated

import typer


def register(app: typer.Typer) -> None:
    """Add the command to the app."""
    app.command()(train)


def train(
    recipe: Annotated[Path, typer.Argument(help="YAML file with the experiment.")],
    out: Annotated[Path, typer.Option(help="Folder of the run; goes on where it stopped.")],
    manifests: Annotated[
        Path, typer.Option(help="Folder made by `arborvox prepare`, with cuts_train.jsonl.gz.")
    ],
    tokens: Annotated[Path, typer.Option(help="tokens.json, made by `arborvox tokens`.")],
    tree: Annotated[
        Path | None,
        typer.Option(help="tree.json, made by `arborvox tree`; for hierarchical outputs."),
    ] = None,
    pretrained: Annotated[
        str | None,
        typer.Option(
            help="Start from an encoder that others have trained: a folder or a name of the hub."
        ),
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", help="Change a key, as in train.max_steps=1000. May be repeated."),
    ] = None,
) -> None:
    """Train a model, or resume a run that was stopped or killed.

    Several processes: torchrun --nproc-per-node 2 -m arborvox train RECIPE --out RUN ...
    """
    from arborvox.config import load_recipe, put_on_pretrained
    from arborvox.team import join_team
    from arborvox.train import train as run_training

    overrides = list(set_ or ())
    if pretrained is not None:
        overrides = [*put_on_pretrained(recipe, pretrained), *overrides]
    with join_team():
        result = run_training(
            load_recipe(recipe, overrides), out=out, manifests=manifests, tokens=tokens, tree=tree
        )
    if result.interrupted:
        raise typer.Exit(130)
