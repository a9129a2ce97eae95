"""`arborvox compare`, from hypothesis files to tables, confusions and alignments."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from arborvox.score.alignments import draw_alignment
from arborvox.score.bootstrap import Difference, Differences
from arborvox.score.comparison import Comparison, HardUtterance, compare_hypotheses
from arborvox.score.counts import Metric
from arborvox.score.hypotheses import HypothesisFile, read_hypotheses
from arborvox.score.rates import MetricScores
from arborvox.score.score_report import (
    OVERALL_LABELS,
    few_utterances,
    interval_text,
    metric_as_json,
    result_prefix,
)
from arborvox.score.tables import Table, escape_markdown, percent, show_result, write_result

# As many missing utterances are named in the tables; the JSON file has all.
NUM_MISSING_SHOWN = 10


def report_comparison(
    paths: Sequence[Path],
    out: Path,
    *,
    seed: int,
    num_samples: int,
    num_confusions: int,
    num_hardest: int,
) -> Comparison:
    """Compare hypothesis files; show the tables and write them under the prefix `out`."""
    files = [read_hypotheses(path) for path in paths]
    comparison = compare_hypotheses(
        files,
        seed=seed,
        num_samples=num_samples,
        num_confusions=num_confusions,
        num_hardest=num_hardest,
    )
    tables = []
    for metric in comparison.metrics:
        tables += [paper_table(metric, comparison), *difference_tables(metric, comparison)]
    if comparison.confusions:
        tables.append(confusion_table(comparison))
    notes = comparison_notes(comparison, files)
    alignments = list(_alignments(comparison))
    show_result([*(table.rich() for table in tables), *alignments, "\n".join(notes)])
    write_result(
        result_prefix(out, out, "comparison"),
        _markdown(comparison, tables, notes, alignments),
        {".csv": comparison_rows(comparison), ".confusions.csv": confusion_rows(comparison)},
        comparison_as_json(comparison, files),
    )
    return comparison


def paper_table(metric: Metric, comparison: Comparison) -> Table:
    """Lay out the paper's table: a row a model, a column a language, the mean last."""
    models = comparison.metrics[metric].scores
    rows = tuple(
        (name, *(percent(rate, 1) for rate in _row_rates(scores)))
        for name, scores in zip(comparison.models, models, strict=True)
    )
    return Table(
        f"{metric.label} in %",
        ("Model", *models[0].languages, "Overall"),
        rows,
        bold=best_cells(rows),
    )


def best_cells(rows: Sequence[Sequence[str]]) -> frozenset[tuple[int, int]]:
    """Find the lowest value of each column, as written; where all are equal none is better."""
    best = set()
    for column in range(1, len(rows[0])):
        values = [float(row[column]) for row in rows]
        if len(set(values)) > 1:
            best |= {(row, column) for row, value in enumerate(values) if value == min(values)}
    return frozenset(best)


def difference_tables(metric: Metric, comparison: Comparison) -> list[Table]:
    """Lay out each later model against the first, the significant differences in bold."""
    tables = []
    by_metric = comparison.metrics[metric]
    first = comparison.models[0]
    for second, differences in zip(comparison.models[1:], by_metric.differences, strict=True):
        named = _named_differences(differences)
        rows = tuple(
            (
                OVERALL_LABELS.get(name, name),
                percent(found.first),
                percent(found.second),
                f"{100 * found.estimate.value:+.2f}",
                interval_text(found.estimate, signed=True),
                percent(found.share_better, 1),
                f"{found.p_value:.3f}",
            )
            for name, found in named.items()
        )
        tables.append(
            Table(
                f"{metric.label}: {second} against {first}",
                (
                    "Language", first, second, "Difference", "95 % interval",
                    "Better in % of resamples", "p",
                ),
                rows,
                bold=frozenset(
                    (row, 3) for row, found in enumerate(named.values()) if found.is_significant
                ),
            )
        )  # fmt: skip
    return tables


def confusion_table(comparison: Comparison) -> Table:
    """Lay out the most frequent substitutions; differences are to the first model."""
    later = comparison.models[1:]
    rows = tuple(
        (
            f"{_quoted(confusion.reference)} → {_quoted(confusion.hypothesis)}",
            *map(str, confusion.counts),
            *(f"{count - confusion.counts[0]:+d}" for count in confusion.counts[1:]),
        )
        for confusion in comparison.confusions
    )
    differences = ("Difference",) if len(later) == 1 else tuple(f"Δ {name}" for name in later)
    return Table(
        f"Most frequent substitutions of {comparison.main_metric.unit_names}",
        ("Said → heard", *comparison.models, *differences),
        rows,
    )


def comparison_notes(comparison: Comparison, files: Sequence[HypothesisFile]) -> list[str]:
    """Say in sentences what was compared and how."""
    notes = [
        f"{sum(comparison.num_utterances.values())} utterances that all models have decoded; "
        "Overall is the mean of the languages' rates.",
        f"Differences: {comparison.num_samples} paired bootstrap resamples of the utterances "
        f"within each language, seed {comparison.seed}; bold where p < 0.05 (two-sided).",
        *(
            f"References of {name}: {file.normalisation.rstrip('.')}."
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


def comparison_as_json(comparison: Comparison, files: Sequence[HypothesisFile]) -> dict[str, Any]:
    """Turn a comparison into what the JSON file holds; rates are fractions."""
    later = comparison.models[1:]
    return {
        "arborvox_comparison": 1,
        "models": [
            {"name": name, "file": file.path.name, "header": dict(file.header)}
            for name, file in zip(comparison.models, files, strict=True)
        ],
        "seed": comparison.seed,
        "num_samples": comparison.num_samples,
        "num_utterances": dict(comparison.num_utterances),
        "missing": {name: list(ids) for name, ids in comparison.missing.items()},
        "metrics": {
            metric.value: {
                "scores": {
                    name: metric_as_json(scores)
                    for name, scores in zip(comparison.models, found.scores, strict=True)
                },
                "differences": {
                    name: asdict(differences)
                    for name, differences in zip(later, found.differences, strict=True)
                },
            }
            for metric, found in comparison.metrics.items()
        },
        "confusions": [asdict(confusion) for confusion in comparison.confusions],
        "hardest": [asdict(utterance) for utterance in comparison.hardest],
    }


def _row_rates(scores: MetricScores) -> list[float]:
    return [*(score.rate.value for score in scores.languages.values()), scores.macro.value]


def _named_differences(differences: Differences) -> dict[str, Difference]:
    """Put the languages and the two overall rows in the order of the tables."""
    return {**differences.languages, "macro": differences.macro, "pooled": differences.pooled}


def _quoted(unit: str) -> str:
    return "␣" if unit.isspace() else unit


def _alignments(comparison: Comparison) -> Iterator[str]:
    """Draw the utterances with most errors, each model in turn."""
    for utterance in comparison.hardest:
        drawn = [f"{utterance.id} ({utterance.language})"]
        for place, name in enumerate(comparison.models):
            drawn += _one_alignment(comparison, utterance, place, name)
        yield "\n".join(drawn) + "\n"


def _one_alignment(
    comparison: Comparison, utterance: HardUtterance, place: int, name: str
) -> list[str]:
    counts = utterance.counts[place]
    picture = draw_alignment(utterance.reference, utterance.texts[place], comparison.main_metric)
    units = comparison.main_metric.unit_names
    return ["", f"{name}: {counts.num_errors} errors, {counts.num_reference} {units}", picture]


def _markdown(
    comparison: Comparison, tables: Sequence[Table], notes: Sequence[str], alignments: Sequence[str]
) -> str:
    title = escape_markdown(" and ".join(comparison.models))
    parts = [f"# {title}\n", *(table.markdown() for table in tables)]
    if alignments:
        parts.append("## Utterances with most errors\n")
        # Indented blocks: no text of an utterance can end them, as it could end a fence.
        for drawn in alignments:
            lines = drawn.splitlines()
            parts.append("\n".join(f"    {line}" if line else "" for line in lines) + "\n")
    parts.append("".join(f"- {escape_markdown(note)}\n" for note in notes))
    return "\n".join(parts)
