"""A grid of weights: for each point, the errors of the hypotheses that would win with it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

CTC_WEIGHTS = tuple(round(0.1 * step, 1) for step in range(11))
LM_WEIGHTS = tuple(round(0.1 * step, 1) for step in range(21))
LENGTH_BONUSES = tuple(0.25 * step for step in range(-2, 17))


@dataclass(frozen=True)
class Weights:
    """What is tuned."""

    ctc_weight: float
    lm_weight: float
    length_bonus: float


@dataclass(frozen=True)
class ScoredList:
    """An utterance's candidates by their scores, and how wrong each is."""

    ctc: NDArray[np.float64]  # (N,)
    attention: NDArray[np.float64]  # (N,)
    lm: NDArray[np.float64]  # (N,)
    num_tokens: NDArray[np.int64]  # (N,)
    num_errors: NDArray[np.int64]  # (N,)


@dataclass(frozen=True)
class ErrorGrid:
    """Errors of a development set, by CTC weight, language model weight and length bonus."""

    ctc_weights: tuple[float, ...]
    lm_weights: tuple[float, ...]
    length_bonuses: tuple[float, ...]
    num_errors: NDArray[np.int64]  # (ctc_weights, lm_weights, length_bonuses)

    @property
    def axes(self) -> tuple[tuple[str, tuple[float, ...]], ...]:
        """Name and values of each axis."""
        return (
            ("CTC weight", self.ctc_weights),
            ("language model weight", self.lm_weights),
            ("length bonus", self.length_bonuses),
        )

    def best(self, number: int) -> list[Weights]:
        """Return the points with the fewest errors; of equal ones those with the calmest weights.

        A point whose neighbors are bad was lucky: errors are smoothed over the nearest points.
        """
        smooth = _mean_of_neighbors(self.num_errors)
        values = (self.ctc_weights, self.lm_weights, self.length_bonuses)
        points = [Weights(*point) for point in product(*values)]
        order = sorted(
            range(len(points)),
            key=lambda n: (
                smooth.flat[n],
                points[n].lm_weight,
                abs(points[n].length_bonus),
                abs(points[n].ctc_weight - 0.5),
            ),
        )
        return [points[n] for n in order[:number]]


def search_grid(
    lists: Sequence[ScoredList],
    ctc_weights: Iterable[float],
    lm_weights: Iterable[float],
    length_bonuses: Iterable[float],
) -> ErrorGrid:
    """Re-rank all candidates with each point's weights, and count the errors of the winners."""
    axes = (tuple(ctc_weights), tuple(lm_weights), tuple(length_bonuses))
    ctc, lm, bonus = (grid[..., None] for grid in np.meshgrid(*axes, indexing="ij"))
    total = np.zeros(ctc.shape[:-1], np.int64)
    for found in lists:
        scores = (1 - ctc) * found.attention + ctc * found.ctc  # (…, N)
        scores = scores + lm * found.lm + bonus * found.num_tokens
        total += found.num_errors[scores.argmax(axis=-1)]
    return ErrorGrid(*axes, total)


def _mean_of_neighbors(values: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the mean of each point and its nearest neighbors along each axis."""
    total, number = values.astype(np.float64), np.ones(values.shape)
    for axis in range(values.ndim):
        for ahead in (True, False):
            near: list[slice] = [slice(None)] * values.ndim
            far: list[slice] = [slice(None)] * values.ndim
            near[axis], far[axis] = slice(1, None), slice(None, -1)
            here, there = (near, far) if ahead else (far, near)
            total[tuple(here)] += values[tuple(there)]
            number[tuple(here)] += 1
    return total / number
