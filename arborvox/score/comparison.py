"""Two or more models on the same utterances: is the difference real, and where is it?"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath

import numpy as np

from arborvox.errors import ArborvoxError
from arborvox.score.bootstrap import Differences, errors_of, paired_bootstrap
from arborvox.score.counts import ErrorCounts, IntTable, Metric
from arborvox.score.hypotheses import HypothesisFile, Transcription
from arborvox.score.rates import (
    MetricScores,
    count_by_language,
    count_confusions,
    group_by_language,
    score_tables,
)


@dataclass(frozen=True)
class MetricComparison:
    """One metric: the scores of each model, and each later model against the first."""

    scores: tuple[MetricScores, ...]
    differences: tuple[Differences, ...]


@dataclass(frozen=True)
class Confusion:
    """A unit that was taken for another, and how often by each model."""

    reference: str
    hypothesis: str
    counts: tuple[int, ...]


@dataclass(frozen=True)
class HardUtterance:
    """An utterance with many errors, and what each model made of it."""

    id: str
    language: str
    reference: str
    texts: tuple[str, ...]
    counts: tuple[ErrorCounts, ...]


@dataclass(frozen=True)
class Comparison:
    """All that a comparison says; the first model is the one that others are measured against."""

    models: tuple[str, ...]
    metrics: Mapping[Metric, MetricComparison]
    num_utterances: Mapping[str, int]  # common to all models, by language
    missing: Mapping[str, tuple[str, ...]]  # ids that a model lacks and another has
    confusions: tuple[Confusion, ...]
    hardest: tuple[HardUtterance, ...]
    seed: int
    num_samples: int

    @property
    def main_metric(self) -> Metric:
        """The metric that confusions and alignments are told in."""
        return next(iter(self.metrics))


def compare_hypotheses(
    files: Sequence[HypothesisFile],
    *,
    seed: int = 0,
    num_samples: int = 1000,
    num_confusions: int = 20,
    num_hardest: int = 10,
) -> Comparison:
    """Compare models on the utterances that all of them have decoded."""
    if len(files) < 2:
        raise ArborvoxError("A comparison needs two hypothesis files or more.")
    metrics = files[0].metrics
    for file in files[1:]:
        if file.metrics != metrics:
            raise ArborvoxError(
                f"{files[0].path} holds {files[0].unit} units and {file.path} {file.unit} units: "
                "their error rates cannot be compared."
            )
    models = name_models(files)
    common, missing = _common_transcriptions(files, models)
    groups = [group_by_language(members) for members in common]
    tables = [{metric: count_by_language(group, metric) for metric in metrics} for group in groups]
    scores = [score_tables(by_metric, seed=seed, num_samples=num_samples) for by_metric in tables]
    return Comparison(
        models=models,
        metrics={
            metric: MetricComparison(
                tuple(by_metric[metric] for by_metric in scores),
                tuple(
                    paired_bootstrap(
                        tables[0][metric], later[metric], seed=seed, num_samples=num_samples
                    )
                    for later in tables[1:]
                ),
            )
            for metric in metrics
        },
        num_utterances={name: len(members) for name, members in groups[0].items()},
        missing=missing,
        confusions=rank_confusions(
            [count_confusions(members, metrics[0]) for members in common], num_confusions
        ),
        hardest=_hardest(groups, [by[metrics[0]] for by in tables], num_hardest),
        seed=seed,
        num_samples=num_samples,
    )


def name_models(files: Sequence[HypothesisFile]) -> tuple[str, ...]:
    """Name each model as shortly as tells them apart: run, run and mode, file, or a number."""
    runs = [PurePath(file.run).name or file.path.stem for file in files]
    for names in (
        runs,
        [f"{run} {file.mode}" for run, file in zip(runs, files, strict=True)],
        [file.path.stem for file in files],
        [str(file.path) for file in files],
    ):
        if len(set(names)) == len(names):
            return tuple(names)
    return tuple(f"{run} ({number})" for number, run in enumerate(runs, start=1))


def _common_transcriptions(
    files: Sequence[HypothesisFile], models: Sequence[str]
) -> tuple[list[list[Transcription]], dict[str, tuple[str, ...]]]:
    """Keep what all models have, in one order; tell what each lacks."""
    by_id = [{member.id: member for member in file.transcriptions} for file in files]
    every = set().union(*by_id)
    shared = sorted(every.intersection(*by_id))
    if not shared:
        raise ArborvoxError(
            f"{' and '.join(str(file.path) for file in files)} have no utterance in common; "
            "decode the same manifest with each model."
        )
    for file, members in zip(files[1:], by_id[1:], strict=True):
        unlike = [name for name in shared if _asked(members[name]) != _asked(by_id[0][name])]
        if unlike:
            raise ArborvoxError(
                f"{file.path}: {len(unlike)} utterances, {unlike[0]} the first, have another "
                f"language or reference than in {files[0].path}; decode the same manifest with "
                "each model."
            )
    common = [[members[name] for name in shared] for members in by_id]
    missing = {
        model: tuple(sorted(every - members.keys()))
        for model, members in zip(models, by_id, strict=True)
    }
    return common, missing


def _asked(transcription: Transcription) -> tuple[str, str]:
    return transcription.language, transcription.reference


def rank_confusions(
    counters: Sequence[Mapping[tuple[str, str], int]], num: int
) -> tuple[Confusion, ...]:
    """List the most frequent confusions of all models together."""
    total: Counter[tuple[str, str]] = Counter()
    for counter in counters:
        total.update(counter)
    ranked = sorted(total, key=lambda pair: (-total[pair], pair))
    return tuple(
        Confusion(said, heard, tuple(counter.get((said, heard), 0) for counter in counters))
        for said, heard in ranked[:num]
    )


def _hardest(
    groups: Sequence[Mapping[str, Sequence[Transcription]]],
    tables: Sequence[Mapping[str, IntTable]],
    num: int,
) -> tuple[HardUtterance, ...]:
    """Rank utterances by the errors of all models together."""
    ranked = []
    for language, members in groups[0].items():
        errors = np.sum([errors_of(by_language[language]) for by_language in tables], axis=0)
        ranked += [
            (-int(errors[row]), members[row].id, language, row)
            for row in np.flatnonzero(errors).tolist()
        ]
    return tuple(
        HardUtterance(
            id=name,
            language=language,
            reference=groups[0][language][row].reference,
            texts=tuple(group[language][row].text for group in groups),
            counts=tuple(ErrorCounts.total(by[language][row : row + 1]) for by in tables),
        )
        for _, name, language, row in sorted(ranked)[:num]
    )
