"""From the hypotheses of all models and seeds to numbers: rates, intervals, differences.

Seeds are pooled: the edits of an utterance are added up over the seeds, so that a rate is the mean
over seeds and the bootstrap still draws utterances. How much seeds differ is told beside it.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import stdev
from typing import Any

from arborvox.errors import ArborvoxError
from arborvox.report.experiment import Experiment
from arborvox.score import (
    Differences,
    HypothesisFile,
    Metric,
    MetricScores,
    Transcription,
    paired_bootstrap,
    read_hypotheses,
    split_units,
)
from arborvox.score.bootstrap import correct_p_values, errors_of, lengths_of
from arborvox.score.counts import IntTable, substituted_units
from arborvox.score.rates import count_by_language, group_by_language, score_tables


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
class SettingAnalysis:
    """All about one way of decoding."""

    setting: str
    metrics: tuple[MetricAnalysis, ...]
    # Said, heard, and how often by each model, over all seeds.
    confusions: tuple[tuple[str, str, tuple[int, ...]], ...]
    files: tuple[tuple[HypothesisFile, ...], ...]  # by model and seed


def analyse(experiment: Experiment, folder: Path, setting: str) -> SettingAnalysis:
    """Read the hypotheses of one way of decoding and compare the models."""
    files = tuple(
        tuple(read_hypotheses(folder / run.hypotheses[setting]) for run in model.runs)
        for model in experiment.models
    )
    groups = [[group_by_language(file.transcriptions) for file in seeds] for seeds in files]
    _check_same_utterances(files, groups)
    metrics = tuple(_analyse_metric(metric, groups, experiment) for metric in files[0][0].metrics)
    return SettingAnalysis(setting, metrics, _confusions(files, metrics[0].metric), files)


def settings_of(experiment: Experiment) -> list[str]:
    """List the ways of decoding that all models went."""
    every = [set(run.hypotheses) for model in experiment.models for run in model.runs]
    first = experiment.models[0].runs[0].hypotheses
    return [name for name in first if all(name in names for names in every)]


def _analyse_metric(
    metric: Metric,
    groups: Sequence[Sequence[Mapping[str, Sequence[Transcription]]]],
    experiment: Experiment,
) -> MetricAnalysis:
    chance: dict[str, Any] = {
        "seed": experiment.bootstrap_seed,
        "num_samples": experiment.samples,
    }
    pooled: list[dict[str, IntTable]] = []
    models = []
    for model, seeds in zip(experiment.models, groups, strict=True):
        tables = [count_by_language(group, metric) for group in seeds]
        summed = {language: sum_tables([t[language] for t in tables]) for language in tables[0]}
        pooled.append(summed)
        models.append(
            ModelScores(
                label=model.label,
                scores=score_tables({metric: summed}, **chance)[metric],
                macro_of_seeds=tuple(_macro(table) for table in tables),
                pooled_of_seeds=tuple(_pooled(table) for table in tables),
            )
        )
    pairs = _pairs(experiment)
    differences = [paired_bootstrap(pooled[a], pooled[b], **chance) for a, b in pairs]
    corrected = correct_p_values([found.pooled.p_value for found in differences])
    return MetricAnalysis(
        metric=metric,
        models=tuple(models),
        pairings=tuple(
            Pairing(models[first], models[second], found, p_value, len(pairs))
            for (first, second), found, p_value in zip(pairs, differences, corrected, strict=True)
        ),
        num_utterances={name: len(table) for name, table in pooled[0].items()},
    )


def _pairs(experiment: Experiment) -> list[tuple[int, int]]:
    """Return the places of each model's opponent and of itself; the first needs none."""
    places = {model.name: place for place, model in enumerate(experiment.models)}
    pairs = [
        (places[model.against] if model.against else 0, place)
        for place, model in enumerate(experiment.models)
        if place > 0 or model.against
    ]
    # Two that name each other are one comparison.
    return [pair for place, pair in enumerate(pairs) if pair[::-1] not in pairs[:place]]


def sum_tables(tables: Sequence[IntTable]) -> IntTable:
    """Add up the edits of each utterance over the seeds: (N, 4) each."""
    total = tables[0].copy()
    for table in tables[1:]:
        total += table
    return total


def _macro(tables: Mapping[str, IntTable]) -> float:
    rates = [
        float(errors_of(table).sum() / max(lengths_of(table).sum(), 1)) for table in tables.values()
    ]
    return sum(rates) / len(rates)


def _pooled(tables: Mapping[str, IntTable]) -> float:
    errors = sum(int(errors_of(table).sum()) for table in tables.values())
    return errors / max(sum(int(lengths_of(table).sum()) for table in tables.values()), 1)


def _confusions(
    files: Sequence[Sequence[HypothesisFile]], metric: Metric, num: int = 15
) -> tuple[tuple[str, str, tuple[int, ...]], ...]:
    counters = []
    for seeds in files:
        counter: Counter[Any] = Counter()
        for file in seeds:
            for entry in file.transcriptions:
                said, heard = split_units(entry.reference, metric), split_units(entry.text, metric)
                counter.update(substituted_units(said, heard))
        counters.append(counter)
    total = sum(counters, Counter())
    ranked = sorted(total, key=lambda pair: (-total[pair], pair))[:num]
    return tuple((said, heard, tuple(c[said, heard] for c in counters)) for said, heard in ranked)


def _check_same_utterances(
    files: Sequence[Sequence[HypothesisFile]],
    groups: Sequence[Sequence[Mapping[str, Sequence[Transcription]]]],
) -> None:
    first = _asked(groups[0][0])
    for seeds, of_model in zip(files, groups, strict=True):
        for file, group in zip(seeds, of_model, strict=True):
            if _asked(group) != first:
                raise ArborvoxError(
                    f"{file.path} holds other utterances than {files[0][0].path}: models can only "
                    "be compared on the same test set."
                )


def _asked(group: Mapping[str, Sequence[Transcription]]) -> list[tuple[str, str, str]]:
    return [(e.language, e.id, e.reference) for members in group.values() for e in members]
