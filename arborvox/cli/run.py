"""`arborvox run` and `arborvox report`: a whole experiment, and what it found."""

from pathlib import Path
from typing import Annotated

import typer


def register(app: typer.Typer) -> None:
    """Add the commands to the app."""
    app.command("run")(run)
    app.command("report")(report)


def run(
    recipe: Annotated[Path, typer.Argument(help="A recipe, such as recipes/ucla.yaml.")],
    out: Annotated[Path, typer.Option("--out", help="The experiment's folder.")],
    seeds: Annotated[
        str | None,
        typer.Option(
            "--seeds",
            help="Train every variant once with each, such as 0,1,2.  [default: train.seed]",
        ),
    ] = None,
    overrides: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            help="Override a key of the recipe: section.key=value; what a variant sets for itself "
            "stays.",
        ),
    ] = None,
    pretrained: Annotated[
        str | None,
        typer.Option(
            "--pretrained",
            help="Put this pretrained encoder under every variant, with what suits it on top: "
            "a folder, or a name of the hub.",
        ),
    ] = None,
    variants: Annotated[
        str | None,
        typer.Option(
            "--variants",
            help="Only these of the recipe's variants, such as softmax,softmax-lm, and the models "
            "that they start from.  [default: all]",
        ),
    ] = None,
    test_languages: Annotated[
        str | None,
        typer.Option("--test-languages", help="Never heard in training, such as fin,abk (UCLA)."),
    ] = None,
) -> None:
    """Do a whole experiment: prepare, tokens, tree, language model, train, decode, score, report.

    What is done already is kept as long as its settings and inputs do not change; what was
    stopped goes on from its last checkpoint. Under torchrun all processes train and decode, and
    the first one does the rest.
    """
    from arborvox.config import put_on_pretrained
    from arborvox.console import say
    from arborvox.pipeline.experiment import run_experiment
    from arborvox.pipeline.stages import RunInterruptedError
    from arborvox.team import join_team

    words = put_on_pretrained(recipe, pretrained) if pretrained is not None else []
    words += overrides or ()
    if test_languages is not None:
        words.append(_choose_test_languages(test_languages))
    numbers = parse_seeds(seeds) if seeds is not None else ()
    chosen = _choose_variants(variants) if variants is not None else ()
    try:
        with join_team():
            run_experiment(recipe, out, numbers, words, chosen)
    except RunInterruptedError:
        say("run the same command again to go on")
        raise typer.Exit(130) from None


def report(
    experiment: Annotated[Path, typer.Argument(help="The folder that `arborvox run` made.")],
    out: Annotated[
        Path | None, typer.Option("--out", help="Where to write.  [default: EXPERIMENT/report]")
    ] = None,
) -> None:
    """Write the report of an experiment again, as one HTML file and as Markdown."""
    from arborvox.report.experiment_report import make_report

    make_report(experiment, out or experiment / "report")


def _choose_test_languages(text: str) -> str:
    """Turn `fin,abk` into an override of the recipe; a corpus without such a key refuses it."""
    from arborvox.errors import ArborvoxError

    names = text.replace(",", " ").split()
    if not names or not all(name.isalnum() for name in names):
        raise ArborvoxError(
            f"--test-languages {text}: write codes with commas between, as fin,abk."
        )
    return f"corpus.test_languages=[{', '.join(names)}]"


def _choose_variants(text: str) -> list[str]:
    """Turn `softmax,softmax-lm` into names."""
    from arborvox.errors import ArborvoxError

    names = [word.strip() for word in text.split(",") if word.strip()]
    if not names:
        raise ArborvoxError("--variants: write names with commas between, as softmax,h-softmax.")
    return names


def parse_seeds(text: str) -> list[int]:
    """Turn `0,1,2` into numbers."""
    from arborvox.errors import ArborvoxError

    words = [word.strip() for word in text.split(",") if word.strip()]
    if not words or not all(word.isdecimal() for word in words):
        raise ArborvoxError(f"--seeds {text}: write whole numbers with commas between, as 0,1,2.")
    return [int(word) for word in words]
