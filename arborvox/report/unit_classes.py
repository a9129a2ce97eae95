"""Tables of errors by how often training had a unit."""

from collections.abc import Sequence
from pathlib import Path

from arborvox.report.document import Block, Cell, Heading, Table
from arborvox.report.experiment import SETTINGS, Experiment
from arborvox.report.wording import best_places, p_text, points
from arborvox.score import Metric, metrics_of, read_hypotheses
from arborvox.score.by_count import (
    RARE,
    ClassPairing,
    ClassScore,
    Tables,
    add_tables,
    compare_classes,
    count_by_class,
    score_classes,
)
from arborvox.tokens import Tokenizer

HEADERS = {
    "unseen": "never",
    "rare": f"1 to {RARE} times",
    "frequent": f"more than {RARE} times",
}


def training_counts(tokens: Path) -> dict[str, int]:
    """Return how often training had each unit, from the tokens that were built from it."""
    tokenizer = Tokenizer.load(tokens)
    totals = [sum(column) for column in zip(*tokenizer.counts.values(), strict=True)]
    return dict(zip(tokenizer.units, totals, strict=True))


def unit_class_blocks(experiment: Experiment, folder: Path, settings: Sequence[str]) -> list[Block]:
    """Lay out how each model did on units that training had never, seldom and often.

    Phones only: a text's unseen letters are foreign words, and say little about a model.
    """
    if Tokenizer.load(folder / experiment.tokens).unit != "phone":
        return []
    counts = training_counts(folder / experiment.tokens)
    (metric,) = metrics_of("phone")
    chance = {"seed": experiment.bootstrap_seed, "num_samples": experiment.samples}
    labels = [model.label for model in experiment.models]
    blocks: list[Block] = [Heading("By how often training had a phone")]
    for setting in settings:
        tables: list[Tables] = [
            add_tables(
                [
                    count_by_class(
                        read_hypotheses(folder / run.hypotheses[setting]).transcriptions,
                        metric,
                        counts,
                    )
                    for run in model.runs
                ]
            )
            for model in experiment.models
        ]
        scores = [score_classes(table, metric, **chance) for table in tables]
        caption = (
            f"{metric.label} in % of the phones that training had so often, {SETTINGS[setting]}: "
            "95 % intervals, and how many were right, all seeds together."
        )
        blocks.append(class_table(labels, scores, caption, f"{setting}-classes"))
        pairings = compare_classes(tables, experiment.pairs, **chance)
        if pairings:
            blocks.append(_pairing_table(labels, pairings, f"{setting}-class-differences"))
    return blocks


def class_table(
    labels: Sequence[str], scores: Sequence[Sequence[ClassScore]], caption: str, name: str
) -> Table:
    """Lay out models by classes."""
    columns = list(zip(*scores, strict=True))  # of one class, by model
    cells = []
    for column in columns:
        lowest = best_places([found.score.rate.value for found in column])
        cells.append([_cell(found, place in lowest) for place, found in enumerate(column)])
    header = [f"{HEADERS[found.name]}, {found.score.counts.num_reference:,}" for found in scores[0]]
    rows = [(Cell(label), *(column[n] for column in cells)) for n, label in enumerate(labels)]
    return Table(("Model", *header), tuple(rows), caption, name=name)


def _cell(found: ClassScore, best: bool) -> Cell:
    rate, right = found.score.rate, found.score.counts.hits
    return Cell(
        points(rate.value), f"{points(rate.low)}–{points(rate.high)}, {right:,} right", best
    )


def _pairing_table(labels: Sequence[str], pairings: Sequence[ClassPairing], name: str) -> Table:
    rows = []
    for pairing in pairings:
        found = pairing.differences.pooled
        low, high = (points(end, signed=True) for end in (found.estimate.low, found.estimate.high))
        rows.append(
            (
                Cell(f"{labels[pairing.second]} − {labels[pairing.first]}"),
                Cell(HEADERS[pairing.name]),
                Cell(points(found.estimate.value, signed=True), strong=pairing.p_corrected < 0.05),
                Cell(f"{low} … {high}"),
                Cell(p_text(pairing.p_corrected).removeprefix("= ")),
            )
        )
    return Table(
        ("", "in training", "Difference", "95 % interval", "p, corrected"),
        tuple(rows),
        "Differences in points, paired bootstrap; p corrected by Holm over all rows.",
        num_labels=2,
        name=name,
    )


def score_class_table(scores: Sequence[ClassScore], metric: Metric) -> Table:
    """Lay out one model, a row a class, with its edits."""
    rows = []
    for found in scores:
        counts, rate = found.score.counts, found.score.rate
        edits = (counts.hits, counts.substitutions, counts.deletions, counts.insertions)
        rows.append(
            (
                Cell(HEADERS[found.name]),
                Cell(str(counts.num_reference)),
                Cell(points(rate.value), strong=True),
                Cell(f"{points(rate.low)}–{points(rate.high)}"),
                *(Cell(str(count)) for count in edits),
            )
        )
    header = ("In training", metric.unit_names.capitalize(), metric.label, "95 % interval")
    return Table((*header, "Right", "Sub", "Del", "Ins"), tuple(rows))
