"""Error rates, their confidence intervals, and comparisons between models."""

from arborvox.score.bootstrap import Difference, Differences, Estimate, paired_bootstrap
from arborvox.score.comparison import Comparison, Confusion, HardUtterance, compare_hypotheses
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
from arborvox.score.rates import (
    EditCounts,
    MetricScores,
    RateScore,
    Scores,
    SetSize,
    score_hypotheses,
)
from arborvox.score.selection import EVERYTHING, Selection
from arborvox.score.storage import comparison_as_json, read_scores, scores_as_json

__all__ = [
    "EVERYTHING",
    "AlignedUnit",
    "Comparison",
    "Confusion",
    "Difference",
    "Differences",
    "Edit",
    "EditCounts",
    "ErrorCounts",
    "Estimate",
    "HardUtterance",
    "HypothesisFile",
    "Metric",
    "MetricScores",
    "RateScore",
    "Scores",
    "Selection",
    "SetSize",
    "Transcription",
    "align",
    "compare_hypotheses",
    "comparison_as_json",
    "count_table",
    "error_counts",
    "metrics_of",
    "paired_bootstrap",
    "read_hypotheses",
    "read_scores",
    "score_hypotheses",
    "scores_as_json",
    "split_units",
]
