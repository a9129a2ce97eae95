"""Error rates, their confidence intervals, and comparisons between models."""

from arborvox.score.bootstrap import Difference, Differences, Estimate, paired_bootstrap
from arborvox.score.comparison import Comparison, compare_hypotheses
from arborvox.score.counts import (
    AlignedUnit,
    Edit,
    ErrorCounts,
    Metric,
    align,
    count_table,
    error_counts,
    metrics_of,
    split_units,
)
from arborvox.score.hypotheses import HypothesisFile, Transcription, read_hypotheses
from arborvox.score.rates import MetricScores, RateScore, Scores, SetSize, score_hypotheses

__all__ = [
    "AlignedUnit",
    "Comparison",
    "Difference",
    "Differences",
    "Edit",
    "ErrorCounts",
    "Estimate",
    "HypothesisFile",
    "Metric",
    "MetricScores",
    "RateScore",
    "Scores",
    "SetSize",
    "Transcription",
    "align",
    "compare_hypotheses",
    "count_table",
    "error_counts",
    "metrics_of",
    "paired_bootstrap",
    "read_hypotheses",
    "score_hypotheses",
    "split_units",
]
