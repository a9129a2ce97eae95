"""`arborvox tune`: weights of a search from a development set."""

from pathlib import Path
from typing import Annotated, Any

import typer

from arborvox.cli.decode import Run, asked_config, takes_search_options


@takes_search_options("ctc_weight", "lm_weight", "length_bonus", "vad", "back_off")
def tune(
    run: Run,
    manifest: Annotated[
        Path, typer.Argument(help="The development set, cuts_dev.jsonl.gz; never the test set.")
    ],
    out: Annotated[
        Path, typer.Option(help="The weights, a decode section; the picture is beside it.")
    ] = Path("weights.yaml"),
    confirm: Annotated[
        int, typer.Option(min=1, max=20, help="How many of the best are tried by real searches.")
    ] = 3,
    apply: Annotated[
        bool,
        typer.Option(
            "--apply",
            help="Put them into the model, with the language model: from then on it is searched "
            "so where nothing else is asked for.",
        ),
    ] = False,
    **options: Any,
) -> None:
    """Choose CTC weight, language model weight and length bonus on a development set.

    Searches propose hypotheses once; then a grid of weights re-ranks them, which takes seconds,
    and the best few are tried by real searches against what the model has now.
    """
    from arborvox.tuning.tuning import tune as tune_weights

    tune_weights(run, manifest, asked_config(options), out, confirm, apply=apply)


def register(app: typer.Typer) -> None:
    """Add `arborvox tune` to the program."""
    app.command()(tune)
