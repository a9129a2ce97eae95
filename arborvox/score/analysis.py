"""Several models, each trained with one or more seeds: rates, intervals, differences.

Seeds are pooled: the edits of an utterance are added up over the seeds, so that a rate is the mean
over seeds and the bootstrap still draws utterances. How much seeds differ is told beside it.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import stdev
from typing import Any

from arborvox.score.bootstrap import Differences, correct_p_values, paired_bootstrap
from arborvox.score.comparison import Confusion, rank_confusions
from arborvox.score.counts import IntTable, Metric
from arborvox.score.rates import EditCounts, MetricScores, PartScores, Scores, score_tables

NUM_CONFUSIONS = 15


@dataclass(frozen=True)
class ModelScores:
    """One model: its scores over all seeds, and the overall rates of each seed."""

    label: str
    scores: MetricScores
    macro_of_seeds: tuple[float, ...]
    pooled_of_seeds: tuple[float, ...]

    @property
    def macro_spread(self) -> float | None:
        """The standard deviation over seeds of the mean over languages."""
        return stdev(self.macro_of_seeds) if len(self.macro_of_seeds) > 1 else None

    @property
    def pooled_spread(self) -> float | None:
        """The standard deviation over seeds of the pooled rate."""
        return stdev(self.pooled_of_seeds) if len(self.pooled_of_seeds) > 1 else None


@dataclass(frozen=True)
class Pairing:
    """A model, the one that it is measured against, and how they differ."""

    first: ModelScores
    second: ModelScores
    differences: Differences
    p_corrected: float  # of the pooled difference, as one of `num_pairings`
    num_pairings: int


@dataclass(frozen=True)
class MetricAnalysis:
    """One metric: all models, and the pairs of them that are compared."""

    metric: Metric
    models: tuple[ModelScores, ...]
    pairings: tuple[Pairing, ...]
    num_utterances: Mapping[str, int]


@dataclass(frozen=True)
class Analysis:
    """All about the models of an experiment, decoded in one way."""

    metrics: tuple[MetricAnalysis, ...]
    confusions: tuple[Confusion, ...]  # over all seeds


def analyze(
    models: Mapping[str, Sequence[Scores | PartScores]],
    pairs: Sequence[tuple[int, int]],
    *,
    seed: int,
    num_samples: int,
) -> Analysis:
    """Pool the seeds of each model, by label, and compare the models of each pair of places."""
    first = next(iter(models.values()))[0]
    metrics = tuple(
        _analyze_metric(metric, models, pairs, seed=seed, num_samples=num_samples)
        for metric in first.metrics
    )
    counters: list[Counter[tuple[str, str]]] = []
    for scores in models.values():
        counter: Counter[tuple[str, str]] = Counter()
        for of_seed in scores:
            counter.update(of_seed.edits.confusions)
        counters.append(counter)
    return Analysis(metrics, rank_confusions(counters, NUM_CONFUSIONS))


def _analyze_metric(
    metric: Metric,
    models: Mapping[str, Sequence[Scores | PartScores]],
    pairs: Sequence[tuple[int, int]],
    *,
    seed: int,
    num_samples: int,
) -> MetricAnalysis:
    chance: dict[str, Any] = {"seed": seed, "num_samples": num_samples}
    pooled = [pool_seeds(metric, [of.edits for of in scores]) for scores in models.values()]
    analyzed = [
        ModelScores(
            label=label,
            scores=score_tables({metric: tables}, **chance)[metric],
            macro_of_seeds=tuple(of.metrics[metric].macro.value for of in scores),
            pooled_of_seeds=tuple(of.metrics[metric].pooled.rate.value for of in scores),
        )
        for (label, scores), tables in zip(models.items(), pooled, strict=True)
    ]
    differences = [paired_bootstrap(pooled[a], pooled[b], **chance) for a, b in pairs]
    corrected = correct_p_values([found.pooled.p_value for found in differences])
    return MetricAnalysis(
        metric=metric,
        models=tuple(analyzed),
        pairings=tuple(
            Pairing(analyzed[first], analyzed[second], found, p_value, len(pairs))
            for (first, second), found, p_value in zip(pairs, differences, corrected, strict=True)
        ),
        num_utterances={name: len(table) for name, table in pooled[0].items()},
    )


def pool_seeds(metric: Metric, seeds: Sequence[EditCounts]) -> dict[str, IntTable]:
    """Add up the edits of each utterance over the seeds: (N, 4) a language."""
    total = {name: table.copy() for name, table in seeds[0].tables[metric].items()}
    for edits in seeds[1:]:
        for name, table in edits.tables[metric].items():
            total[name] += table
    return total


def analysis_as_json(analysis: Analysis) -> dict[str, Any]:
    """Turn an analysis into plain values; rates are fractions."""
    return {
        "num_utterances": dict(analysis.metrics[0].num_utterances),
        "metrics": {
            found.metric.value: {
                "models": {model.label: asdict(model) for model in found.models},
                "pairings": [
                    {
                        "first": pairing.first.label,
                        "second": pairing.second.label,
                        **asdict(pairing.differences),
                        "p_corrected": pairing.p_corrected,
                    }
                    for pairing in found.pairings
                ],
            }
            for found in analysis.metrics
        },
        "confusions": [asdict(confusion) for confusion in analysis.confusions],
    }
