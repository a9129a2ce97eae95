"""How sure a number is: resampling utterances, always within their language."""

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from arborvox.errors import ArborvoxError
from arborvox.score.counts import IntTable

FloatTable = NDArray[np.float64]

SIGNIFICANCE_LEVEL = 0.05
INTERVAL_PERCENTILES = (2.5, 97.5)
# Draws held in memory at once; 2 million make about 50 MB of work space.
DRAWS_AT_ONCE = 2_000_000


@dataclass(frozen=True)
class Estimate:
    """A value and its 95 % interval."""

    value: float
    low: float
    high: float

    @classmethod
    def from_samples(cls, samples: FloatTable) -> "Estimate":
        """Take the value of the data (the first sample) and the percentiles of the others."""
        low, high = np.percentile(samples[1:], INTERVAL_PERCENTILES)
        return cls(float(samples[0]), float(low), float(high))


@dataclass(frozen=True)
class Difference:
    """The second error rate minus the first: negative where the second is better."""

    first: float
    second: float
    estimate: Estimate
    share_better: float  # of the resamples, where the second is strictly better
    p_value: float  # two-sided

    @property
    def is_significant(self) -> bool:
        """Whether chance alone would rarely make such a difference."""
        return self.p_value < SIGNIFICANCE_LEVEL


@dataclass(frozen=True)
class Differences:
    """Paired comparison of two models, by language and overall."""

    languages: Mapping[str, Difference]
    macro: Difference
    pooled: Difference


@dataclass(frozen=True)
class RateSamples:
    """Error rates of K columns: row 0 the data as they are, then one row a resample: (1 + S, K)."""

    languages: Mapping[str, FloatTable]
    macro: FloatTable  # mean of the languages
    pooled: FloatTable  # all errors by all reference units


def resample_rates(
    errors: Mapping[str, IntTable], lengths: Mapping[str, IntTable], *, seed: int, num_samples: int
) -> RateSamples:
    """Draw the utterances of each language anew, with replacement, and compute the rates again.

    Both arguments give a language an (N, K) table: a row an utterance, a column a metric or a
    model. All columns see the same draws, so that their differences are paired.
    """
    if num_samples < 1:
        raise ArborvoxError(f"{num_samples} resamples make no interval; ask for 1 or more.")
    if not errors:
        raise ArborvoxError("There are no utterances to resample; give at least one.")
    totals = {}
    for language in errors:
        summands = np.hstack([errors[language], lengths[language]]).astype(np.float64)
        totals[language] = _resampled_totals(summands, num_samples, _generator(seed, language))
    languages = {name: _rates(found) for name, found in totals.items()}
    macro = np.mean(list(languages.values()), axis=0)
    return RateSamples(languages, macro, _rates(np.sum(list(totals.values()), axis=0)))


def paired_bootstrap(
    first: Mapping[str, IntTable],
    second: Mapping[str, IntTable],
    *,
    seed: int = 0,
    num_samples: int = 1000,
) -> Differences:
    """Compare two models on the same utterances: a `count_table` by language, rows in one order."""
    if {name: len(rows) for name, rows in first.items()} != {
        name: len(rows) for name, rows in second.items()
    }:
        raise ArborvoxError("A paired comparison needs the same utterances for both models.")
    errors = {
        name: np.stack([errors_of(first[name]), errors_of(second[name])], 1) for name in first
    }
    lengths = {
        name: np.stack([lengths_of(first[name]), lengths_of(second[name])], 1) for name in first
    }
    samples = resample_rates(errors, lengths, seed=seed, num_samples=num_samples)
    num_unequal = {name: int((table[:, 0] != table[:, 1]).sum()) for name, table in errors.items()}
    everywhere = sum(num_unequal.values())
    return Differences(
        {name: _difference(rows, num_unequal[name]) for name, rows in samples.languages.items()},
        macro=_difference(samples.macro, everywhere),
        pooled=_difference(samples.pooled, everywhere),
    )


def correct_p_values(p_values: Sequence[float]) -> list[float]:
    """Correct for asking several questions at once, by Holm's step-down method."""
    corrected = [0.0] * len(p_values)
    so_far = 0.0
    for done, place in enumerate(sorted(range(len(p_values)), key=lambda place: p_values[place])):
        so_far = max(so_far, min(1.0, (len(p_values) - done) * p_values[place]))
        corrected[place] = so_far
    return corrected


def errors_of(counts: IntTable) -> IntTable:
    """Sum the edits of each row of a `count_table`: (N, 4) -> (N,)."""
    errors: IntTable = counts[:, 1:].sum(axis=1)
    return errors


def lengths_of(counts: IntTable) -> IntTable:
    """Sum the reference units of each row of a `count_table`: (N, 4) -> (N,)."""
    lengths: IntTable = counts[:, :3].sum(axis=1)
    return lengths


def _difference(rates: FloatTable, num_unequal: int) -> Difference:
    """Judge the columns (first, second) of (1 + S, 2) rates."""
    change = rates[:, 1] - rates[:, 0]
    drawn = change[1:]
    # The data themselves count as one resample: no p-value can be zero.
    beyond = 1 + min(int((drawn >= 0).sum()), int((drawn <= 0).sum()))
    p_value = min(1.0, 2 * beyond / (1 + len(drawn)))
    # Resampling very few utterances claims a certainty that they cannot give: a fair coin for
    # each utterance that differs would fall on one side all the time this often.
    least = min(1.0, 2.0 ** (1 - num_unequal))
    return Difference(
        first=float(rates[0, 0]),
        second=float(rates[0, 1]),
        estimate=Estimate.from_samples(change),
        share_better=float((drawn < 0).mean()),
        p_value=max(p_value, least),
    )


def _resampled_totals(
    summands: FloatTable, num_samples: int, generator: np.random.Generator
) -> FloatTable:
    """Sum the columns over the data, then over each resample: (N, C) -> (1 + S, C)."""
    num_rows = len(summands)
    at_once = max(1, DRAWS_AT_ONCE // max(num_rows, 1))
    totals = [summands.sum(axis=0, keepdims=True)]
    for start in range(0, num_samples, at_once):
        num = min(at_once, num_samples - start)
        drawn = generator.integers(0, num_rows, size=(num, num_rows))
        # How often each utterance was drawn; sums then are one matrix product for all columns.
        drawn += num_rows * np.arange(num)[:, None]
        times = np.bincount(drawn.ravel(), minlength=num * num_rows).reshape(num, num_rows)
        totals.append(times.astype(np.float64) @ summands)
    return np.concatenate(totals)


def _rates(totals: FloatTable) -> FloatTable:
    """Divide errors by lengths, the two halves of the columns, as ErrorCounts.rate does."""
    errors, lengths = np.hsplit(totals, 2)
    rates: FloatTable = errors / np.maximum(lengths, 1)
    return rates


def _generator(seed: int, language: str) -> np.random.Generator:
    # A language's interval must not depend on which other languages stand in the file.
    return np.random.default_rng([seed, zlib.crc32(language.encode())])
