"""Errors by how often training had a unit: never, seldom, or often."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from arborvox.score.bootstrap import Differences, correct_p_values, paired_bootstrap
from arborvox.score.counts import AlignedUnit, Edit, IntTable, Metric, align, split_units
from arborvox.score.hypotheses import Transcription
from arborvox.score.rates import RateScore, group_by_language, score_tables

# The most that training has of a rare unit.
RARE = 20
CLASSES = ("unseen", "rare", "frequent")
# The columns of a `count_table`.
_COLUMNS = {Edit.hit: 0, Edit.substitution: 1, Edit.deletion: 2, Edit.insertion: 3}

Tables = Mapping[str, Mapping[str, IntTable]]  # by class and language, (N, 4)


@dataclass(frozen=True)
class ClassScore:
    """One model on the units of one class."""

    name: str
    score: RateScore


@dataclass(frozen=True)
class ClassPairing:
    """Two models, by their places, on the units of one class."""

    name: str
    first: int
    second: int
    differences: Differences
    p_corrected: float  # over all classes and pairs


def class_of(count: int) -> str:
    """Name the class of a unit that training had so often."""
    if count == 0:
        return "unseen"
    return "rare" if count <= RARE else "frequent"


def count_by_class(
    transcriptions: Sequence[Transcription], metric: Metric, counts: Mapping[str, int]
) -> dict[str, dict[str, IntTable]]:
    """Count the edits of each utterance by class; an insertion belongs to what was inserted."""
    tables: dict[str, dict[str, IntTable]] = {name: {} for name in CLASSES}
    for language, members in group_by_language(transcriptions).items():
        found = {name: np.zeros((len(members), 4), np.int64) for name in CLASSES}
        for row, member in enumerate(members):
            pairs = align(split_units(member.reference, metric), split_units(member.text, metric))
            for aligned in pairs:
                found[class_of(counts.get(_owner(aligned), 0))][row, _COLUMNS[aligned.edit]] += 1
        for name in CLASSES:
            tables[name][language] = found[name]
    return tables


def add_tables(seeds: Sequence[Tables]) -> dict[str, dict[str, IntTable]]:
    """Add up the edits of several trainings of one model."""
    return {
        name: {
            language: np.sum([tables[name][language] for tables in seeds], axis=0)
            for language in seeds[0][name]
        }
        for name in CLASSES
    }


def score_classes(
    tables: Tables, metric: Metric, *, seed: int, num_samples: int
) -> list[ClassScore]:
    """Score each class that the references have units of, all languages pooled."""
    scored = []
    for name in _classes_with_units(tables):
        found = score_tables({metric: tables[name]}, seed=seed, num_samples=num_samples)
        scored.append(ClassScore(name, found[metric].pooled))
    return scored


def compare_classes(
    models: Sequence[Tables], pairs: Sequence[tuple[int, int]], *, seed: int, num_samples: int
) -> list[ClassPairing]:
    """Compare pairs of models on each class; p is corrected over all of them by Holm."""
    asked = [(name, a, b) for a, b in pairs for name in _classes_with_units(models[0])]
    found = [
        paired_bootstrap(models[a][name], models[b][name], seed=seed, num_samples=num_samples)
        for name, a, b in asked
    ]
    corrected = correct_p_values([differences.pooled.p_value for differences in found])
    return [
        ClassPairing(name, a, b, differences, p_value)
        for (name, a, b), differences, p_value in zip(asked, found, corrected, strict=True)
    ]


def _classes_with_units(tables: Tables) -> list[str]:
    """List the classes that stand in a reference: of the others there is no rate."""
    return [name for name in CLASSES if any(t[:, :3].any() for t in tables[name].values())]


def _owner(aligned: AlignedUnit[str]) -> str:
    """Return the unit that an edit is counted with."""
    unit = aligned.hypothesis if aligned.reference is None else aligned.reference
    assert unit is not None
    return unit
