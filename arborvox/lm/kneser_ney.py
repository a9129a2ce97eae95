"""Interpolated modified Kneser–Ney smoothing (Chen and Goodman, 1999), as KenLM's lmplz has it.

For an n-gram of context h and last word w with count c, and h' the context without its first word:

    P(w | h) = (c − D(c)) / total(h) + γ(h) P(w | h')

γ(h), the mass that the discounts D leave over, is what the context h weighs when the search backs
off from it. The unigrams are mixed with the same probability for each word, <unk> included.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from arborvox.kernels.compiling import kernel
from arborvox.lm.counting import Workspace
from arborvox.lm.table import BEGIN_ROW, EMPTY_ROW, UNKNOWN_ROW, WORD_BITS, NgramTable

HIGHEST_DISCOUNTED = 3  # counts of 3 and more are discounted alike
# Taken where a text has too few counts to estimate from, by lmplz --discount_fallback too.
FALLBACK_DISCOUNTS = (0.5, 1.0, 1.5)
# Where no discount takes anything, nothing is left over; but nothing has no logarithm.
SMALLEST = np.float32(1e-37)


@dataclass(frozen=True)
class Discounts:
    """What is taken off the counts 1, 2, and 3 or more of an order's n-grams."""

    amounts: tuple[float, float, float]
    is_fallback: bool = False


@dataclass(frozen=True)
class NgramModel:
    """A table with what each n-gram weighs; natural numbers, no logarithms."""

    table: NgramTable
    probabilities: NDArray[np.float32]  # (R,)
    backoffs: NDArray[np.float32]  # (rows below the highest order,)
    discounts: tuple[Discounts, ...]  # by order, from 1

    def num_kept(self, order: int) -> int:
        """Count the n-grams of an order that the model lists."""
        return int(np.count_nonzero(self.table.kept[self.table.rows(order)]))


def smooth(table: NgramTable, workspace: Workspace) -> NgramModel:
    """Compute the probability of each n-gram and the weight of each context."""
    discounts = tuple(
        estimate_discounts(count_small_counts(table, n)) for n in range(1, table.order + 1)
    )
    num_contexts = int(table.starts[table.order])
    totals = workspace.zeros(num_contexts, np.float64)
    weights = workspace.zeros(num_contexts, np.float64)
    probabilities = workspace.zeros(len(table.names), np.float32)
    taken = np.array([(0.0, *order.amounts) for order in discounts])
    sum_contexts(table.contexts, table.counts, table.kept, table.starts, taken, totals, weights)
    # <s> is no word that can follow; the empty n-gram stands for "any word".
    num_words = int(np.count_nonzero(table.kept[table.rows(1)])) - 1
    probabilities[EMPTY_ROW] = 1.0 / num_words
    interpolate(
        table.names, table.contexts, table.counts, table.starts, taken, totals, weights,
        probabilities,
    )  # fmt: skip
    np.maximum(probabilities, SMALLEST, out=probabilities)
    backoffs = np.maximum(weights.astype(np.float32), SMALLEST)
    return NgramModel(table, probabilities, backoffs, discounts)


def count_small_counts(table: NgramTable, order: int) -> NDArray[np.int64]:
    """Return how many n-grams of an order have a count of 0, 1, 2, 3 and 4."""
    counts = table.counts[table.rows(order)]
    return np.array([np.count_nonzero(counts == number) for number in range(5)], np.int64)


def estimate_discounts(num_with: Sequence[int] | NDArray[np.int64]) -> Discounts:
    """Return the discounts of an order by how many n-grams were counted 0, 1, 2, 3 and 4 times."""
    if not all(num_with[1 : HIGHEST_DISCOUNTED + 1]):
        return Discounts(FALLBACK_DISCOUNTS, is_fallback=True)
    n1, n2, n3, n4 = (float(number) for number in num_with[1:])
    y = n1 / (n1 + 2 * n2)
    amounts = (1 - 2 * y * n2 / n1, 2 - 3 * y * n3 / n2, 3 - 4 * y * n4 / n3)
    if not all(0 <= amount <= number for number, amount in enumerate(amounts, start=1)):
        return Discounts(FALLBACK_DISCOUNTS, is_fallback=True)
    return Discounts(amounts)


@kernel
def sum_contexts(
    contexts: Any, counts: Any, kept: Any, starts: Any, discounts: Any, totals: Any, weights: Any
) -> None:
    """Add up the counts after each context, and the share of them that goes to the shorter one."""
    for n in range(1, len(starts) - 1):
        for row in range(starts[n], starts[n + 1]):
            count = counts[row]
            totals[contexts[row]] += count
            # What is not listed leaves all its mass, and <unk> to all words.
            is_listed = kept[row] and row != UNKNOWN_ROW
            lost = discounts[n - 1, min(count, HIGHEST_DISCOUNTED)] if is_listed else count
            weights[contexts[row]] += lost
    for row in range(len(totals)):
        weights[row] = weights[row] / totals[row] if totals[row] > 0 else 1.0


@kernel
def interpolate(
    names: Any,
    contexts: Any,
    counts: Any,
    starts: Any,
    discounts: Any,
    totals: Any,
    weights: Any,
    probabilities: Any,
) -> None:
    """Fill in the probability of each n-gram, shorter ones first."""
    for n in range(1, len(starts) - 1):
        for row in range(starts[n], starts[n + 1]):
            count, context = counts[row], contexts[row]
            own = (count - discounts[n - 1, min(count, HIGHEST_DISCOUNTED)]) / totals[context]
            shorter = probabilities[names[row] >> WORD_BITS]
            if row == UNKNOWN_ROW:  # its count has gone to all words
                own = 0.0
            probabilities[row] = own + weights[context] * shorter
    probabilities[BEGIN_ROW] = 1.0  # given, not predicted
