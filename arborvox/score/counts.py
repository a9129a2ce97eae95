"""What an error is: edits between a reference and a hypothesis, counted and aligned."""

import unicodedata
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray
from rapidfuzz.distance import Levenshtein

from arborvox.errors import ArborvoxError

IntTable = NDArray[np.int64]
Unit = TypeVar("Unit", bound=Hashable)


class Metric(StrEnum):
    """An error rate, named by the units that it counts."""

    cer = "cer"
    wer = "wer"
    per = "per"

    @property
    def label(self) -> str:
        """How tables write it."""
        return self.value.upper()

    @property
    def unit_names(self) -> str:
        """What is counted, in words."""
        return {"cer": "characters", "wer": "words", "per": "phones"}[self.value]


# The first metric of a unit is the one that confusions and alignments are told in.
METRICS_OF_UNIT = {
    "char": (Metric.cer, Metric.wer),
    "bpe": (Metric.cer, Metric.wer),
    "phone": (Metric.per,),
}


class Edit(StrEnum):
    """What happened to a unit of the reference, or of the hypothesis."""

    hit = "hit"
    substitution = "substitution"
    deletion = "deletion"
    insertion = "insertion"


class AlignedUnit(NamedTuple, Generic[Unit]):
    """A column of an alignment; the side that has nothing there is None."""

    edit: Edit
    reference: Unit | None
    hypothesis: Unit | None


@dataclass(frozen=True)
class ErrorCounts:
    """Units that were right and edits that were needed; counts of several texts can be added."""

    hits: int = 0
    substitutions: int = 0
    deletions: int = 0
    insertions: int = 0

    @property
    def num_errors(self) -> int:
        """All edits together."""
        return self.substitutions + self.deletions + self.insertions

    @property
    def num_reference(self) -> int:
        """Units of the reference."""
        return self.hits + self.substitutions + self.deletions

    @property
    def rate(self) -> float:
        """Errors per unit of the reference; where it has none, the number of insertions."""
        return self.num_errors / max(self.num_reference, 1)

    def __add__(self, other: "ErrorCounts") -> "ErrorCounts":
        return ErrorCounts(
            self.hits + other.hits,
            self.substitutions + other.substitutions,
            self.deletions + other.deletions,
            self.insertions + other.insertions,
        )

    @classmethod
    def total(cls, table: IntTable) -> "ErrorCounts":
        """Add up a table of counts, a row per text: (N, 4) in the order of the fields."""
        return cls(*(int(count) for count in table.sum(axis=0)))


def metrics_of(unit: str) -> tuple[Metric, ...]:
    """Return the error rates that make sense for a model's output unit."""
    if unit not in METRICS_OF_UNIT:
        known = ", ".join(METRICS_OF_UNIT)
        raise ArborvoxError(f"There is no unit {unit!r} to score; known: {known}.")
    return METRICS_OF_UNIT[unit]


def split_units(text: str, metric: Metric) -> Sequence[str]:
    """Split a text into the units that a metric counts."""
    # A letter and its combining accent, written one by one, are what the precomposed letter is.
    text = unicodedata.normalize("NFC", text)
    return text.strip() if metric is Metric.cer else text.split()


def error_counts(
    reference_units: Sequence[Hashable], hypothesis_units: Sequence[Hashable]
) -> ErrorCounts:
    """Count the fewest edits that turn the reference into the hypothesis."""
    return ErrorCounts(*_count(reference_units, hypothesis_units))


def count_table(
    pairs: Iterable[tuple[Sequence[Hashable], Sequence[Hashable]]],
) -> IntTable:
    """Count edits of many (reference, hypothesis) pairs: (N, 4), a column per ErrorCounts field."""
    rows = [_count(reference, hypothesis) for reference, hypothesis in pairs]
    return np.array(rows, dtype=np.int64).reshape(-1, 4)


def align(
    reference_units: Sequence[Unit], hypothesis_units: Sequence[Unit]
) -> list[AlignedUnit[Unit]]:
    """Lay reference and hypothesis side by side, with the edits that `error_counts` counts."""
    aligned: list[AlignedUnit[Unit]] = []
    i = j = 0
    for edit in Levenshtein.editops(reference_units, hypothesis_units):
        aligned += _hits(reference_units[i : edit.src_pos], hypothesis_units[j : edit.dest_pos])
        i, j = edit.src_pos, edit.dest_pos
        if edit.tag == "replace":
            aligned.append(AlignedUnit(Edit.substitution, reference_units[i], hypothesis_units[j]))
            i, j = i + 1, j + 1
        elif edit.tag == "delete":
            aligned.append(AlignedUnit(Edit.deletion, reference_units[i], None))
            i += 1
        else:
            aligned.append(AlignedUnit(Edit.insertion, None, hypothesis_units[j]))
            j += 1
    return aligned + _hits(reference_units[i:], hypothesis_units[j:])


def substituted_units(
    reference_units: Sequence[Unit], hypothesis_units: Sequence[Unit]
) -> list[tuple[Unit, Unit]]:
    """List only the substitutions of an alignment, (said, heard), without building the rest."""
    return [
        (reference_units[edit.src_pos], hypothesis_units[edit.dest_pos])
        for edit in Levenshtein.editops(reference_units, hypothesis_units)
        if edit.tag == "replace"
    ]


def _hits(reference: Sequence[Unit], hypothesis: Sequence[Unit]) -> list[AlignedUnit[Unit]]:
    return [AlignedUnit(Edit.hit, *pair) for pair in zip(reference, hypothesis, strict=True)]


def _count(
    reference: Sequence[Hashable], hypothesis: Sequence[Hashable]
) -> tuple[int, int, int, int]:
    edits = Levenshtein.editops(reference, hypothesis)
    substitutions = deletions = 0
    for edit in edits:
        if edit.tag == "replace":
            substitutions += 1
        elif edit.tag == "delete":
            deletions += 1
    hits = len(reference) - substitutions - deletions
    return hits, substitutions, deletions, len(edits) - substitutions - deletions
