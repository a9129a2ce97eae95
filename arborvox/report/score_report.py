"""`arborvox score`, from a hypothesis file to tables."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

from arborvox.report.document import Block, Cell, Document, Heading, Notes, Table
from arborvox.report.markdown import render_markdown
from arborvox.report.result_files import result_prefix, write_result
from arborvox.report.terminal import show
from arborvox.report.unit_classes import score_class_table, training_counts
from arborvox.report.wording import percent, percent_interval
from arborvox.score import (
    EVERYTHING,
    Estimate,
    Metric,
    RateScore,
    Scores,
    Selection,
    SetSize,
    read_hypotheses,
    score_hypotheses,
    scores_as_json,
)
from arborvox.score.by_count import count_by_class, score_classes

# Below this many utterances a bootstrap interval is known to be too narrow.
FEW_UTTERANCES = 20
OVERALL_LABELS = {"macro": "Overall (mean)", "pooled": "Overall (pooled)"}


def report_scores(
    path: Path,
    out: Path | None,
    selection: Selection = EVERYTHING,
    *,
    seed: int,
    num_samples: int,
    units_from: Path | None = None,
) -> Scores:
    """Score a hypothesis file; show the tables and write them beside it, or under `out`.

    With tokens, the main metric is also told by how often training had a unit.
    """
    file = selection.of(read_hypotheses(path))
    scores = score_hypotheses(file.transcriptions, file.unit, seed=seed, num_samples=num_samples)
    blocks: list[Block] = []
    for metric in scores.metrics:
        blocks += [Heading(f"{metric.label} in %"), score_table(metric, scores)]
    value = scores_as_json(scores, file)
    if units_from is not None:
        main = next(iter(scores.metrics))
        edits = count_by_class(file.transcriptions, main, training_counts(units_from))
        classes = score_classes(edits, main, seed=seed, num_samples=num_samples)
        told = f"{main.label} in % by how often training had a unit, {units_from.name}"
        blocks += [Heading(told), score_class_table(classes, main)]
        value["by_training_count"] = {found.name: asdict(found.score) for found in classes}
    notes = [*selection.notes, *score_notes(scores, file.normalization)]
    blocks.append(Notes(tuple(notes)))
    document = Document(f"Scores of {path.name}", "", tuple(blocks))
    show(document)
    prefix = result_prefix(out, path.parent, f"{path.stem}{selection.suffix}.scores")
    write_result(
        prefix,
        render_markdown(document, prefix.parent),
        {".csv": score_rows(scores)},
        value,
    )
    return scores


def score_table(metric: Metric, scores: Scores) -> Table:
    """Lay out one metric, a row a language, the two overall rows last."""
    by_metric = scores.metrics[metric]
    rows = [
        (Cell(name), *_cells(score, scores.sizes[name]))
        for name, score in by_metric.languages.items()
    ]
    none = Cell("")
    macro = (none, none, *_rate_cells(by_metric.macro), none, none, none, none)
    rows.append((Cell(OVERALL_LABELS["macro"]), *macro))
    rows.append((Cell(OVERALL_LABELS["pooled"]), *_cells(by_metric.pooled, scores.total)))
    return Table(
        (
            "Language", "Utterances", metric.unit_names.capitalize(), metric.label, "95 % interval",
            "Sub", "Del", "Ins", "<unk>",
        ),
        tuple(rows),
    )  # fmt: skip


def score_notes(scores: Scores, normalization: str) -> list[str]:
    """Say in sentences how the numbers came about."""
    notes = [
        f"References: {normalization.rstrip('.')}.",
        "Overall (mean) is the mean of the languages' rates; overall (pooled) divides all errors "
        "by all units of the references.",
        f"Intervals: {scores.num_samples} bootstrap resamples of the utterances within each "
        f"language, seed {scores.seed}.",
    ]
    if scores.total.num_unknown:
        notes.append(f"{scores.total.num_unknown} <unk> in the hypotheses, each one an error.")
    if scores.total.num_empty:
        notes.append(
            f"{scores.total.num_empty} references are empty; what was heard there counts as "
            "insertions."
        )
    few = few_utterances({name: size.num_utterances for name, size in scores.sizes.items()})
    return notes + few


def few_utterances(num_utterances: dict[str, int]) -> list[str]:
    """Warn of languages whose intervals rest on too little."""
    few = [name for name, num in num_utterances.items() if num < FEW_UTTERANCES]
    if not few:
        return []
    return [f"Fewer than {FEW_UTTERANCES} utterances, so trust no interval: {', '.join(few)}."]


def score_rows(scores: Scores) -> list[list[Any]]:
    """List every number, a row a metric and language; rates are fractions."""
    rows: list[list[Any]] = [
        "metric language utterances reference_units rate low high hits substitutions deletions "
        "insertions unknown empty_references".split()
    ]
    for metric, by_metric in scores.metrics.items():
        for name, score in by_metric.languages.items():
            rows.append([metric.value, name, *_numbers(score, scores.sizes[name])])
        macro = by_metric.macro
        blank = [""] * 6
        rows.append([metric.value, "macro", "", "", macro.value, macro.low, macro.high, *blank])
        rows.append([metric.value, "pooled", *_numbers(by_metric.pooled, scores.total)])
    return rows


def _rate_cells(rate: Estimate) -> tuple[Cell, Cell]:
    return Cell(percent(rate.value), strong=True), Cell(percent_interval(rate))


def _cells(score: RateScore, size: SetSize) -> tuple[Cell, ...]:
    counts = score.counts
    edits = (counts.substitutions, counts.deletions, counts.insertions, size.num_unknown)
    return (
        Cell(str(size.num_utterances)),
        Cell(str(counts.num_reference)),
        *_rate_cells(score.rate),
        *(Cell(str(count)) for count in edits),
    )


def _numbers(score: RateScore, size: SetSize) -> list[Any]:
    counts, rate = score.counts, score.rate
    return [
        size.num_utterances, counts.num_reference, rate.value, rate.low, rate.high,
        counts.hits, counts.substitutions, counts.deletions, counts.insertions,
        size.num_unknown, size.num_empty,
    ]  # fmt: skip
