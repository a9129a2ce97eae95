"""Huffman trees: the paper's Algorithms 1 and 2, exact and canonical."""

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from arborvox.errors import ArborvoxError
from arborvox.tree.assembly import number_in_level_order, probabilities_of
from arborvox.tree.code_tree import CodeTree

Count = int | float | Fraction


class HuffmanTree(CodeTree):
    """The tree whose expected code length is the least that any tree over the counts can have."""

    @classmethod
    def from_counts(
        cls,
        counts: Sequence[Count] | NDArray[Any] | Mapping[str, Count],
        units: Sequence[str] | None = None,
    ) -> "HuffmanTree":
        """Build from counts by token id, or from a mapping of units in any order."""
        if isinstance(counts, Mapping):
            units = sorted(counts) if units is None else units
            if set(units) != set(counts):
                raise ArborvoxError("The counts and the units of the tree are not the same units.")
            counts = [counts[unit] for unit in units]
        weights = exact_weights(list(counts))
        left, right = number_in_level_order(*merge_lightest(weights), root=len(weights) - 2)
        return cls(
            left,
            right,
            probabilities_of(weights),
            None if units is None else tuple(units),
            "huffman",
        )


def merge_lightest(weights: Sequence[int]) -> tuple[list[int], list[int]]:
    """Merge the two lightest nodes until one is left; the lighter becomes the left child.

    Merges are numbered in the order they happen. Merged weights only grow, so two queues stand in
    for the paper's priority queue: leaves sorted by weight, and merges, which come sorted by
    themselves. Of equal weights a leaf goes before a merge, a lower token id before a higher one.
    """
    waiting = sorted(range(len(weights)), key=lambda token: (weights[token], token))
    left: list[int] = []
    right: list[int] = []
    merged: list[int] = []  # weights of the merges
    next_leaf = next_merge = 0
    for _ in range(len(weights) - 1):
        pair = []
        weight = 0
        for _ in range(2):
            leaf_left = next_leaf < len(waiting)
            if leaf_left and (
                next_merge == len(merged) or weights[waiting[next_leaf]] <= merged[next_merge]
            ):
                token = waiting[next_leaf]
                pair.append(~token)
                weight += weights[token]
                next_leaf += 1
            else:
                pair.append(next_merge)
                weight += merged[next_merge]
                next_merge += 1
        left.append(pair[0])
        right.append(pair[1])
        merged.append(weight)
    return left, right


def exact_weights(counts: Sequence[Count]) -> list[int]:
    """Bring counts of any kind to whole numbers, exactly, with a floor below the unseen units.

    Whole numbers make sums exact, so neither rounding nor the order of addition can move a unit.
    The units without a count together weigh less than the smallest difference between two sums
    of counts: each gets a leaf, and the expected code length of the others stays the least.
    """
    if len(counts) < 2:
        raise ArborvoxError(
            f"A tree needs at least 2 units, but {len(counts)} was given; "
            f"give a corpus with more than one unit."
        )
    ratios = [_ratio(token, count) for token, count in enumerate(counts)]
    scale = math.lcm(*{denominator for _, denominator in ratios})
    weights = [numerator * (scale // denominator) for numerator, denominator in ratios]
    num_unseen = weights.count(0)
    if num_unseen == len(weights):
        raise ArborvoxError("All counts are 0: the corpus is empty, so there is nothing to code.")
    return [weight * (num_unseen + 1) or 1 for weight in weights] if num_unseen else weights


def _ratio(token: int, count: Count) -> tuple[int, int]:
    try:
        # numpy's integers have no as_integer_ratio; .item() gives Python's own number
        number = count.item() if isinstance(count, np.generic) else count
        numerator, denominator = number.as_integer_ratio()
    except (AttributeError, ValueError, OverflowError):
        raise ArborvoxError(
            f"The count of token {token} is not a finite number: {count!r}."
        ) from None
    if numerator < 0:
        raise ArborvoxError(f"The count of token {token} is below 0: {count}.")
    return numerator, denominator
