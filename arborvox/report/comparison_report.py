"""`arborvox compare`, from hypothesis files to tables, confusions and alignments."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from arborvox.report.document import (
    Block,
    Cell,
    Document,
    Example,
    Heading,
    Hearing,
    Notes,
    Table,
)
from arborvox.report.markdown import render_markdown
from arborvox.report.result_files import result_prefix, write_result
from arborvox.report.score_report import OVERALL_LABELS, few_utterances
from arborvox.report.terminal import show
from arborvox.report.wording import best_places, percent, percent_interval, points
from arborvox.score import (
    EVERYTHING,
    Comparison,
    Difference,
    Differences,
    HardUtterance,
    HypothesisFile,
    Metric,
    MetricScores,
    Selection,
    compare_hypotheses,
    comparison_as_json,
    read_hypotheses,
)

# As many missing utterances are named in the tables; the JSON file has all.
NUM_MISSING_SHOWN = 10


def report_comparison(
    paths: Sequence[Path],
    out: Path,
    selection: Selection = EVERYTHING,
    *,
    seed: int,
    num_samples: int,
    num_confusions: int,
    num_hardest: int,
) -> Comparison:
    """Compare hypothesis files; show the tables and write them under the prefix `out`."""
    files = [selection.of(read_hypotheses(path)) for path in paths]
    comparison = compare_hypotheses(
        files,
        seed=seed,
        num_samples=num_samples,
        num_confusions=num_confusions,
        num_hardest=num_hardest,
    )
    document = _document(comparison, files, selection)
    show(document)
    prefix = result_prefix(out, out, "comparison")
    write_result(
        prefix,
        render_markdown(document, prefix.parent),
        {".csv": comparison_rows(comparison), ".confusions.csv": confusion_rows(comparison)},
        comparison_as_json(comparison, files),
    )
    return comparison


def _document(
    comparison: Comparison, files: Sequence[HypothesisFile], selection: Selection
) -> Document:
    blocks: list[Block] = []
    for metric in comparison.metrics:
        blocks += [Heading(f"{metric.label} in %"), paper_table(metric, comparison)]
        blocks += difference_blocks(metric, comparison)
    if comparison.confusions:
        units = comparison.main_metric.unit_names
        blocks += [Heading(f"Most frequent substitutions of {units}"), confusion_table(comparison)]
    if comparison.hardest:
        blocks.append(Heading("Utterances with most errors"))
        blocks += [_example(comparison, utterance) for utterance in comparison.hardest]
    blocks.append(Notes((*selection.notes, *comparison_notes(comparison, files))))
    return Document(" and ".join(comparison.models), "", tuple(blocks))


def paper_table(metric: Metric, comparison: Comparison) -> Table:
    """Lay out the paper's table: a row a model, a column a language, the mean last."""
    models = comparison.metrics[metric].scores
    columns = [_best_marked(rates) for rates in zip(*map(_row_rates, models), strict=True)]
    rows = [
        (Cell(name), *(column[place] for column in columns))
        for place, name in enumerate(comparison.models)
    ]
    return Table(("Model", *models[0].languages, "Overall"), tuple(rows))


def _row_rates(scores: MetricScores) -> list[float]:
    return [*(score.rate.value for score in scores.languages.values()), scores.macro.value]


def _best_marked(rates: Sequence[float]) -> list[Cell]:
    best = best_places(rates)
    return [Cell(points(rate), best=place in best) for place, rate in enumerate(rates)]


def difference_blocks(metric: Metric, comparison: Comparison) -> list[Block]:
    """Lay out each later model against the first, the significant differences in bold."""
    blocks: list[Block] = []
    by_metric = comparison.metrics[metric]
    first = comparison.models[0]
    for second, differences in zip(comparison.models[1:], by_metric.differences, strict=True):
        rows = tuple(
            (
                Cell(OVERALL_LABELS.get(name, name)),
                Cell(percent(found.first)),
                Cell(percent(found.second)),
                Cell(f"{100 * found.estimate.value:+.2f}", strong=found.is_significant),
                Cell(percent_interval(found.estimate, signed=True)),
                Cell(points(found.share_better)),
                Cell(f"{found.p_value:.3f}"),
            )
            for name, found in _named_differences(differences).items()
        )
        header = (
            "Language", first, second, "Difference", "95 % interval", "Better in % of resamples",
            "p",
        )  # fmt: skip
        blocks += [Heading(f"{metric.label}: {second} against {first}"), Table(header, rows)]
    return blocks


def confusion_table(comparison: Comparison) -> Table:
    """Lay out the most frequent substitutions; differences are to the first model."""
    later = comparison.models[1:]
    rows = tuple(
        (
            Cell(f"{_quoted(confusion.reference)} → {_quoted(confusion.hypothesis)}"),
            *(Cell(str(count)) for count in confusion.counts),
            *(Cell(f"{count - confusion.counts[0]:+d}") for count in confusion.counts[1:]),
        )
        for confusion in comparison.confusions
    )
    differences = ("Difference",) if len(later) == 1 else tuple(f"Δ {name}" for name in later)
    return Table(("Said → heard", *comparison.models, *differences), rows)


def comparison_notes(comparison: Comparison, files: Sequence[HypothesisFile]) -> list[str]:
    """Say in sentences what was compared and how."""
    notes = [
        f"{sum(comparison.num_utterances.values())} utterances that all models have decoded; "
        "Overall is the mean of the languages' rates.",
        f"Differences: {comparison.num_samples} paired bootstrap resamples of the utterances "
        f"within each language, seed {comparison.seed}; bold where p < 0.05 (two-sided).",
        *(
            f"References of {name}: {file.normalization.rstrip('.')}."
            for name, file in zip(comparison.models, files, strict=True)
        ),
    ]
    for name, ids in comparison.missing.items():
        if ids:
            more = ", …" if len(ids) > NUM_MISSING_SHOWN else ""
            listed = ", ".join(ids[:NUM_MISSING_SHOWN]) + more
            notes.append(f"{name} lacks {len(ids)} utterances, left out for all: {listed}")
    return notes + few_utterances(dict(comparison.num_utterances))


def comparison_rows(comparison: Comparison) -> list[list[Any]]:
    """List every rate and difference, a row a metric, model and language; rates are fractions."""
    rows: list[list[Any]] = [
        "metric model language rate low high difference difference_low difference_high "
        "share_better p_value".split()
    ]
    for metric, by_metric in comparison.metrics.items():
        for number, (model, scores) in enumerate(
            zip(comparison.models, by_metric.scores, strict=True)
        ):
            rates = [
                *(score.rate for score in scores.languages.values()),
                scores.macro,
                scores.pooled.rate,
            ]
            against = _named_differences(by_metric.differences[max(number - 1, 0)])
            for rate, (name, found) in zip(rates, against.items(), strict=True):
                row = [metric.value, model, name, rate.value, rate.low, rate.high]
                change = found.estimate
                rows.append(
                    [*row, change.value, change.low, change.high, found.share_better, found.p_value]
                    if number
                    else [*row, "", "", "", "", ""]
                )
    return rows


def confusion_rows(comparison: Comparison) -> list[list[Any]]:
    """List the substitutions, a column a model."""
    return [
        ["said", "heard", *comparison.models],
        *([entry.reference, entry.hypothesis, *entry.counts] for entry in comparison.confusions),
    ]


def _named_differences(differences: Differences) -> dict[str, Difference]:
    """Put the languages and the two overall rows in the order of the tables."""
    return {**differences.languages, "macro": differences.macro, "pooled": differences.pooled}


def _quoted(unit: str) -> str:
    return "␣" if unit.isspace() else unit


def _example(comparison: Comparison, utterance: HardUtterance) -> Example:
    units = comparison.main_metric.unit_names
    hearings = tuple(
        Hearing(name, text, f"{counts.num_errors} errors, {counts.num_reference} {units}")
        for name, text, counts in zip(
            comparison.models, utterance.texts, utterance.counts, strict=True
        )
    )
    title = f"{utterance.id} ({utterance.language})"
    return Example(title, utterance.reference, comparison.main_metric, hearings)
