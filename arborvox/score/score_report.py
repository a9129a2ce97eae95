"""`arborvox score`, from a hypothesis file to tables."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

from arborvox.score.bootstrap import Estimate
from arborvox.score.counts import Metric
from arborvox.score.hypotheses import HypothesisFile, read_hypotheses
from arborvox.score.rates import MetricScores, RateScore, Scores, SetSize, score_hypotheses
from arborvox.score.tables import Table, escape_markdown, percent, show_result, write_result

# Below this many utterances a bootstrap interval is known to be too narrow.
FEW_UTTERANCES = 20
OVERALL_LABELS = {"macro": "Overall (mean)", "pooled": "Overall (pooled)"}


def report_scores(path: Path, out: Path | None, *, seed: int, num_samples: int) -> Scores:
    """Score a hypothesis file; show the tables and write them beside it, or under `out`."""
    file = read_hypotheses(path)
    scores = score_hypotheses(file.transcriptions, file.unit, seed=seed, num_samples=num_samples)
    tables = [score_table(metric, scores) for metric in scores.metrics]
    notes = score_notes(scores, file.normalisation)
    show_result([*(table.rich() for table in tables), "\n".join(notes)])
    title = f"# Scores of {escape_markdown(path.name)}\n"
    listed = "".join(f"- {escape_markdown(note)}\n" for note in notes)
    write_result(
        result_prefix(out, path.parent, f"{path.stem}.scores"),
        "\n".join([title, *(table.markdown() for table in tables), listed]),
        {".csv": score_rows(scores)},
        scores_as_json(scores, file),
    )
    return scores


def result_prefix(out: Path | None, folder: Path, name: str) -> Path:
    """Settle where results go: the prefix that was asked for, or the usual name in a folder."""
    if out is None:
        return folder / name
    return out / name if out.is_dir() else out


def score_table(metric: Metric, scores: Scores) -> Table:
    """Lay out one metric, a row a language, the two overall rows last."""
    by_metric = scores.metrics[metric]
    rows = [
        (name, *_cells(score, scores.sizes[name])) for name, score in by_metric.languages.items()
    ]
    rows.append((OVERALL_LABELS["macro"], "", "", *_rate_cells(by_metric.macro), "", "", "", ""))
    rows.append((OVERALL_LABELS["pooled"], *_cells(by_metric.pooled, scores.total)))
    return Table(
        f"{metric.label} in %",
        (
            "Language", "Utterances", metric.unit_names.capitalize(), metric.label, "95 % interval",
            "Sub", "Del", "Ins", "<unk>",
        ),
        tuple(rows),
        bold=frozenset((number, 3) for number in range(len(rows))),
    )  # fmt: skip


def score_notes(scores: Scores, normalisation: str) -> list[str]:
    """Say in sentences how the numbers came about."""
    notes = [
        f"References: {normalisation.rstrip('.')}.",
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


def scores_as_json(scores: Scores, file: HypothesisFile) -> dict[str, Any]:
    """Turn scores into what the JSON file holds; rates are fractions."""
    return {
        "arborvox_scores": 1,
        "file": file.path.name,
        "header": dict(file.header),
        "seed": scores.seed,
        "num_samples": scores.num_samples,
        "sizes": {name: asdict(size) for name, size in scores.sizes.items()},
        "total": asdict(scores.total),
        "metrics": {
            metric.value: metric_as_json(by_metric) for metric, by_metric in scores.metrics.items()
        },
    }


def metric_as_json(scores: MetricScores) -> dict[str, Any]:
    """Turn one metric's scores into JSON."""
    return {
        "languages": {name: asdict(score) for name, score in scores.languages.items()},
        "macro": asdict(scores.macro),
        "pooled": asdict(scores.pooled),
    }


def interval_text(estimate: Estimate, *, signed: bool = False) -> str:
    """Write an interval in per cent: 4.90 … 5.71."""
    sign = "+" if signed else ""
    return f"{100 * estimate.low:{sign}.2f} … {100 * estimate.high:{sign}.2f}"


def _rate_cells(rate: Estimate) -> tuple[str, str]:
    return percent(rate.value), interval_text(rate)


def _cells(score: RateScore, size: SetSize) -> tuple[str, ...]:
    counts = score.counts
    edits = (counts.substitutions, counts.deletions, counts.insertions, size.num_unknown)
    return (
        str(size.num_utterances),
        str(counts.num_reference),
        *_rate_cells(score.rate),
        *map(str, edits),
    )


def _numbers(score: RateScore, size: SetSize) -> list[Any]:
    counts, rate = score.counts, score.rate
    return [
        size.num_utterances, counts.num_reference, rate.value, rate.low, rate.high,
        counts.hits, counts.substitutions, counts.deletions, counts.insertions,
        size.num_unknown, size.num_empty,
    ]  # fmt: skip
