"""Scores and comparisons as JSON: every number, for reports and for who computes with them."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from arborvox.errors import ArborvoxError
from arborvox.files import read_json
from arborvox.score.bootstrap import Estimate
from arborvox.score.comparison import Comparison
from arborvox.score.counts import ErrorCounts, IntTable, Metric
from arborvox.score.hypotheses import HypothesisFile
from arborvox.score.rates import EditCounts, MetricScores, RateScore, Scores, SetSize

# Version 2 also holds the edits of each utterance.
SCORES_KEY, SCORES_VERSION = "arborvox_scores", 2
COMPARISON_KEY, COMPARISON_VERSION = "arborvox_comparison", 1


def scores_as_json(scores: Scores, file: HypothesisFile) -> dict[str, Any]:
    """Turn scores into what the JSON file holds; rates are fractions."""
    return {
        SCORES_KEY: SCORES_VERSION,
        "file": file.path.name,
        "header": dict(file.header),
        "seed": scores.seed,
        "num_samples": scores.num_samples,
        "sizes": {name: asdict(size) for name, size in scores.sizes.items()},
        "total": asdict(scores.total),
        "metrics": {
            metric.value: _metric_as_json(by_metric) for metric, by_metric in scores.metrics.items()
        },
        "references": scores.edits.references,
        "confusions": [[*pair, count] for pair, count in scores.edits.confusions.items()],
        "utterances": {
            language: {
                utterance: {
                    metric.value: by_language[language][row].tolist()
                    for metric, by_language in scores.edits.tables.items()
                }
                for row, utterance in enumerate(ids)
            }
            for language, ids in scores.edits.ids.items()
        },
    }


def read_scores(path: Path) -> Scores:
    """Read what `scores_as_json` made."""
    value = read_json(path)
    version = value.get(SCORES_KEY) if isinstance(value, dict) else None
    if version != SCORES_VERSION:
        raise ArborvoxError(
            f"{path} holds no scores of version {SCORES_VERSION}; score the hypotheses again: "
            "`arborvox run` does it for an experiment."
        )
    try:
        metrics = {Metric(name): _read_metric(by) for name, by in value["metrics"].items()}
        return Scores(
            metrics=metrics,
            sizes={name: SetSize(**size) for name, size in value["sizes"].items()},
            total=SetSize(**value["total"]),
            seed=int(value["seed"]),
            num_samples=int(value["num_samples"]),
            edits=EditCounts(
                ids={name: tuple(entries) for name, entries in value["utterances"].items()},
                tables={
                    metric: {
                        name: _read_table([entry[metric.value] for entry in entries.values()])
                        for name, entries in value["utterances"].items()
                    }
                    for metric in metrics
                },
                confusions={
                    (str(said), str(heard)): int(n) for said, heard, n in value["confusions"]
                },
                references=str(value["references"]),
            ),
        )
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise ArborvoxError(f"{path} is damaged ({error}); score the hypotheses again.") from None


def _read_metric(value: Mapping[str, Any]) -> MetricScores:
    def rate_score(entry: Mapping[str, Any]) -> RateScore:
        return RateScore(ErrorCounts(**entry["counts"]), Estimate(**entry["rate"]))

    return MetricScores(
        languages={name: rate_score(entry) for name, entry in value["languages"].items()},
        pooled=rate_score(value["pooled"]),
        macro=Estimate(**value["macro"]),
    )


def _read_table(rows: Sequence[Sequence[int]]) -> IntTable:
    table: IntTable = np.array(rows, dtype=np.int64).reshape(len(rows), 4)
    if (table < 0).any():
        raise ValueError("a count below nought")
    return table


def comparison_as_json(comparison: Comparison, files: Sequence[HypothesisFile]) -> dict[str, Any]:
    """Turn a comparison into what the JSON file holds; rates are fractions."""
    later = comparison.models[1:]
    return {
        COMPARISON_KEY: COMPARISON_VERSION,
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
                    name: _metric_as_json(scores)
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


def _metric_as_json(scores: MetricScores) -> dict[str, Any]:
    return {
        "languages": {name: asdict(score) for name, score in scores.languages.items()},
        "macro": asdict(scores.macro),
        "pooled": asdict(scores.pooled),
    }
