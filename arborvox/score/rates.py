"""Error rates of a set of hypotheses, by language and overall."""

import itertools
import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b

import numpy as np

from arborvox.score.bootstrap import Estimate, errors_of, lengths_of, resample_rates
from arborvox.score.counts import (
    ErrorCounts,
    IntTable,
    Metric,
    count_table,
    metrics_of,
    split_units,
    substituted_units,
)
from arborvox.score.hypotheses import Transcription


@dataclass(frozen=True)
class RateScore:
    """An error rate with its interval, and the edits behind it."""

    counts: ErrorCounts
    rate: Estimate


@dataclass(frozen=True)
class MetricScores:
    """One metric: each language, all utterances pooled, and the mean of the languages."""

    languages: Mapping[str, RateScore]
    pooled: RateScore
    macro: Estimate


@dataclass(frozen=True)
class SetSize:
    """What was scored."""

    num_utterances: int
    num_unknown: int  # <unk> in the hypotheses
    num_empty: int  # references without a unit


@dataclass(frozen=True)
class EditCounts:
    """The edits of each utterance, which differences between models are computed from."""

    ids: Mapping[str, tuple[str, ...]]  # by language
    # By language (N, 4), rows as in `ids`; arrays have no equality of their own.
    tables: Mapping[Metric, Mapping[str, IntTable]] = field(compare=False)
    confusions: Mapping[tuple[str, str], int]  # said, heard: how often, in units of the main metric
    references: str  # mark of what was asked: other utterances or other references have another


@dataclass(frozen=True)
class Scores:
    """All that scoring says about a set of hypotheses; metrics in order, the main one first."""

    metrics: Mapping[Metric, MetricScores]
    sizes: Mapping[str, SetSize]
    total: SetSize
    seed: int
    num_samples: int
    edits: EditCounts


@dataclass(frozen=True)
class PartScores:
    """What is said of a part of a set: rates, and the edits behind them."""

    metrics: Mapping[Metric, MetricScores]
    edits: EditCounts


def score_hypotheses(
    transcriptions: Iterable[Transcription], unit: str, *, seed: int = 0, num_samples: int = 1000
) -> Scores:
    """Score hypotheses against their references, with bootstrap intervals."""
    groups = group_by_language(transcriptions)
    tables = {metric: count_by_language(groups, metric) for metric in metrics_of(unit)}
    sizes = {name: _size(members) for name, members in groups.items()}
    total = SetSize(
        sum(size.num_utterances for size in sizes.values()),
        sum(size.num_unknown for size in sizes.values()),
        sum(size.num_empty for size in sizes.values()),
    )
    metrics = score_tables(tables, seed=seed, num_samples=num_samples)
    members = [member for group in groups.values() for member in group]
    edits = EditCounts(
        ids={name: tuple(member.id for member in group) for name, group in groups.items()},
        tables=tables,
        confusions=count_confusions(members, next(iter(tables))),
        references=_mark_references(members),
    )
    return Scores(metrics, sizes, total, seed, num_samples, edits)


def score_part(scores: Scores, wanted: Callable[[str], bool]) -> PartScores | None:
    """Score the utterances whose ids are wanted; languages without any are left out.

    Confusions are not counted by utterance, so a part has none. None if nothing is wanted.
    """
    edits = scores.edits
    kept = {name: np.array([wanted(id_) for id_ in ids]) for name, ids in edits.ids.items()}
    kept = {name: mask for name, mask in kept.items() if mask.any()}
    if not kept:
        return None
    tables = {
        metric: {name: table[kept[name]] for name, table in of.items() if name in kept}
        for metric, of in edits.tables.items()
    }
    ids = {name: tuple(itertools.compress(edits.ids[name], mask)) for name, mask in kept.items()}
    metrics = score_tables(tables, seed=scores.seed, num_samples=scores.num_samples)
    return PartScores(metrics, EditCounts(ids, tables, {}, edits.references))


def score_tables(
    tables: Mapping[Metric, Mapping[str, IntTable]], *, seed: int, num_samples: int
) -> dict[Metric, MetricScores]:
    """Score utterances whose edits are counted already, a `count_table` a metric and language."""
    languages = list(next(iter(tables.values())))
    samples = resample_rates(
        {name: np.stack([errors_of(by[name]) for by in tables.values()], 1) for name in languages},
        {name: np.stack([lengths_of(by[name]) for by in tables.values()], 1) for name in languages},
        seed=seed,
        num_samples=num_samples,
    )
    scored = {}
    for column, metric in enumerate(tables):
        counts = {name: ErrorCounts.total(table) for name, table in tables[metric].items()}
        scored[metric] = MetricScores(
            languages={
                name: RateScore(counts[name], Estimate.from_samples(rates[:, column]))
                for name, rates in samples.languages.items()
            },
            pooled=RateScore(
                sum(counts.values(), ErrorCounts()),
                Estimate.from_samples(samples.pooled[:, column]),
            ),
            macro=Estimate.from_samples(samples.macro[:, column]),
        )
    return scored


def group_by_language(
    transcriptions: Iterable[Transcription],
) -> dict[str, list[Transcription]]:
    """Sort utterances by language and id: the order of a file must not change any number."""
    groups: dict[str, list[Transcription]] = {}
    for transcription in sorted(transcriptions, key=lambda entry: (entry.language, entry.id)):
        groups.setdefault(transcription.language, []).append(transcription)
    return groups


def count_by_language(
    groups: Mapping[str, Sequence[Transcription]], metric: Metric
) -> dict[str, IntTable]:
    """Count the edits of each utterance, a table a language."""
    return {
        language: count_table(
            (split_units(member.reference, metric), split_units(member.text, metric))
            for member in members
        )
        for language, members in groups.items()
    }


def count_confusions(
    transcriptions: Iterable[Transcription], metric: Metric
) -> Counter[tuple[str, str]]:
    """Count which unit was taken for which: (said, heard)."""
    counter: Counter[tuple[str, str]] = Counter()
    for member in transcriptions:
        said, heard = split_units(member.reference, metric), split_units(member.text, metric)
        counter.update(substituted_units(said, heard))
    return counter


def _mark_references(members: Iterable[Transcription]) -> str:
    asked = [[member.language, member.id, member.reference] for member in members]
    return blake2b(json.dumps(asked).encode(), digest_size=16).hexdigest()


def _size(members: Sequence[Transcription]) -> SetSize:
    return SetSize(
        len(members),
        sum(member.num_unknown for member in members),
        sum(not member.reference.strip() for member in members),
    )
