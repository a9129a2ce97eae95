"""`arborvox lm`: language models from text."""

from pathlib import Path
from typing import Annotated

import typer

from arborvox.cli.tokens import split_names
from arborvox.config.choices import HIGHEST_ORDER
from arborvox.errors import ArborvoxError


def lm(
    texts: Annotated[
        list[Path],
        typer.Argument(
            help="Text files (<language>.txt, a sentence a line), manifests (*.jsonl.gz), prepared "
            "folders (their training cuts) or folders of texts."
        ),
    ],
    tokens: Annotated[Path, typer.Option(help="The units of the model that will be helped.")],
    out: Annotated[Path, typer.Option(help="The language model, .arpa or .arpa.gz.")] = Path(
        "lm.arpa"
    ),
    order: Annotated[
        int, typer.Option(min=1, max=HIGHEST_ORDER, help="The longest n-grams, in units.")
    ] = 6,
    prune: Annotated[
        str,
        typer.Option(
            help="Leave out n-grams seen no more often than this, by order: 0,0,1,1,2. The last "
            "holds for the orders after it."
        ),
    ] = "0",
    held_out: Annotated[
        str | None,
        typer.Option(
            help="Tell the perplexity of this text (a file or folder as above), or of this share "
            "of the sentences (0.05), which is then not counted."
        ),
    ] = None,
    languages: Annotated[
        str | None, typer.Option(help="Only these languages, separated by commas: ca,es,fr.")
    ] = None,
    language: Annotated[
        str | None,
        typer.Option(help="The language of the text files, if their names do not tell it."),
    ] = None,
    memory_gb: Annotated[
        float,
        typer.Option("--memory-gb", min=0.1, help="What does not fit becomes temporary files."),
    ] = 1.0,
) -> None:
    """Make an n-gram language model of texts, for `--lm` of decode and transcribe.

    Interpolated modified Kneser–Ney over the units that a model writes. The texts are normalized as
    those of a corpus are.
    """
    from arborvox.lm.estimation import EstimationConfig
    from arborvox.lm.making import make_language_model

    config = EstimationConfig(order, _cut_offs(prune), int(memory_gb * 2**30))
    make_language_model(
        texts,
        tokens,
        out,
        config,
        held_out=held_out,
        languages=split_names(languages),
        language=language,
    )


def _cut_offs(text: str) -> tuple[int, ...]:
    """Read cut-offs as they are written: 0,0,1 or 0 0 1."""
    numbers = text.replace(",", " ").split()
    if not numbers or not all(number.isdecimal() and len(number) < 10 for number in numbers):
        raise ArborvoxError(f"--prune {text!r}: whole numbers separated by commas, such as 0,0,1.")
    return tuple(map(int, numbers))


def register(app: typer.Typer) -> None:
    """Add `arborvox lm` to the program."""
    app.command()(lm)
