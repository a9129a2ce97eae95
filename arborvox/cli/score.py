"""`arborvox score` and `arborvox compare`: error rates, and whether a difference is real."""

from pathlib import Path
from typing import Annotated

import typer

Seed = Annotated[int, typer.Option("--seed", min=0, help="Another seed draws other resamples.")]
Samples = Annotated[
    int, typer.Option("--samples", min=100, help="Bootstrap resamples for the intervals.")
]

Only = Annotated[
    Path | None,
    typer.Option("--only", help="A table whose first column has the ids to score, no others."),
]
Except = Annotated[
    Path | None,
    typer.Option("--except", help="A table of ids to leave out, such as prepare's repeated.tsv."),
]


def register(app: typer.Typer) -> None:
    """Add the commands to the app."""
    app.command("score")(score)
    app.command("compare")(compare)


def score(
    hypotheses: Annotated[Path, typer.Argument(help="What `arborvox decode` wrote: a .jsonl.")],
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            help="Prefix of the files, or a folder.  [default: HYPOTHESES.scores beside the file]",
        ),
    ] = None,
    only: Only = None,
    left_out: Except = None,
    units_from: Annotated[
        Path | None,
        typer.Option(
            "--units-from",
            help="The tokens.json of a model: also tell errors by how often training had a unit.",
        ),
    ] = None,
    seed: Seed = 0,
    samples: Samples = 1000,
) -> None:
    """Score hypotheses: CER and WER, or PER for phones, by language and overall.

    Writes Markdown, CSV and JSON with 95 % intervals.
    """
    from arborvox.report.score_report import report_scores
    from arborvox.score import Selection

    selection = Selection.read(only, left_out)
    report_scores(hypotheses, out, selection, seed=seed, num_samples=samples, units_from=units_from)


def compare(
    hypotheses: Annotated[
        list[Path],
        typer.Argument(help="Two hypothesis files or more; others are measured against the first."),
    ],
    out: Annotated[Path, typer.Option("--out", help="Prefix of the files, or a folder.")] = Path(
        "comparison"
    ),
    only: Only = None,
    left_out: Except = None,
    seed: Seed = 0,
    samples: Samples = 1000,
    confusions: Annotated[
        int, typer.Option("--confusions", min=0, help="How many confusion pairs are listed.")
    ] = 20,
    worst: Annotated[
        int, typer.Option("--worst", min=0, help="How many of the worst utterances are drawn.")
    ] = 10,
) -> None:
    """Compare models on the same utterances: is the difference real, and where is it?

    Shows the paper's table, paired bootstrap differences, confusion pairs and the worst
    utterances with alignments; writes Markdown, CSV and JSON.
    """
    from arborvox.report.comparison_report import report_comparison
    from arborvox.score import Selection

    report_comparison(
        hypotheses,
        out,
        Selection.read(only, left_out),
        seed=seed,
        num_samples=samples,
        num_confusions=confusions,
        num_hardest=worst,
    )
