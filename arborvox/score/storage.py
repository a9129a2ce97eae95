"""Scores and comparisons as JSON: every number, for reports and for who computes with them."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from arborvox.errors import ArborvoxError
from arborvox.files import read_json
from arborvox.score.comparison import Comparison
from arborvox.score.counts import IntTable, Metric
from arborvox.score.hypotheses import HypothesisFile
from arborvox.score.rates import EditCounts, MetricScores, Scores, SetSize
from arborvox.typed_json import check_form

# Version 2 also holds the edits of each utterance.
SCORES_KEY, SCORES_VERSION = "arborvox_scores", 2
MOST_UNITS = 1 << 40  # of an utterance; their sums still are numbers
REMEDY = "score the hypotheses again"
COMPARISON_KEY, COMPARISON_VERSION = "arborvox_comparison", 1


@dataclass(frozen=True)
class _ScoresFile:
    """The form of a file of scores."""

    metrics: dict[Metric, MetricScores]
    sizes: dict[str, SetSize]
    total: SetSize
    seed: int
    num_samples: int
    references: str
    confusions: list[tuple[str, str, int]]
    utterances: dict[str, dict[str, dict[Metric, tuple[int, int, int, int]]]]


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
    stored = check_form(value, _ScoresFile, path, REMEDY)
    try:
        return Scores(
            metrics=stored.metrics,
            sizes=stored.sizes,
            total=stored.total,
            seed=stored.seed,
            num_samples=stored.num_samples,
            edits=EditCounts(
                ids={name: tuple(entries) for name, entries in stored.utterances.items()},
                tables={
                    metric: {
                        name: _read_table([entry[metric] for entry in entries.values()])
                        for name, entries in stored.utterances.items()
                    }
                    for metric in stored.metrics
                },
                confusions={(said, heard): count for said, heard, count in stored.confusions},
                references=stored.references,
            ),
        )
    except (KeyError, ValueError, OverflowError) as error:
        raise ArborvoxError(f"{path} is damaged ({error}); {REMEDY}.") from None


def _read_table(rows: Sequence[Sequence[int]]) -> IntTable:
    table: IntTable = np.array(rows, dtype=np.int64).reshape(len(rows), 4)
    if ((table < 0) | (table > MOST_UNITS)).any():
        raise ValueError("a count that no utterance has")
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
