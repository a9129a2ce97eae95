"""From merges or splits to a tree: the lighter side left, numbers in level order, no recursion."""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from arborvox.tree.code_tree import CodeTree

Tokens = NDArray[np.int64]


def number_in_level_order(
    left: Sequence[int], right: Sequence[int], root: int
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Renumber inner nodes in level order, the root as 0; leaves are ~token before and after."""
    order = level_order(left, right, root)
    place = np.empty(len(left), np.int32)
    place[order] = np.arange(len(order), dtype=np.int32)
    renumbered = []
    for side in (left, right):
        child = np.array(side, np.int64)[order]
        renumbered.append(np.where(child >= 0, place[np.maximum(child, 0)], child).astype(np.int32))
    return renumbered[0], renumbered[1]


def level_order(left: Sequence[int], right: Sequence[int], root: int) -> list[int]:
    """Return the inner nodes level by level, the root first."""
    order = [root]
    # `order` grows while it is read: the queue of a breadth-first walk.
    for node in order:
        order += [child for child in (left[node], right[node]) if child >= 0]
    return order


def probabilities_of(weights: Sequence[int]) -> NDArray[np.float64]:
    """Divide whole weights by their sum, each quotient rounded once."""
    total = sum(weights)
    return np.array([weight / total for weight in weights], np.float64)


def assemble(
    kind: str,
    left: Sequence[int],
    right: Sequence[int],
    root: int,
    weights: Sequence[int],
    units: Sequence[str] | None,
) -> CodeTree:
    """Make a tree from inner nodes in any order, the lighter child of each moved to the left."""
    first, second = (side.tolist() for side in number_in_level_order(left, right, root))
    # Weight and lowest token of what hangs below each node; children have the higher numbers.
    rank = [(0, 0)] * len(first)
    for node in reversed(range(len(first))):
        a, b = (
            rank[child] if child >= 0 else (weights[~child], ~child)
            for child in (first[node], second[node])
        )
        if b < a:
            first[node], second[node] = second[node], first[node]
        rank[node] = (a[0] + b[0], min(a[1], b[1]))
    new_left, new_right = number_in_level_order(first, second, 0)
    names = None if units is None else tuple(units)
    return CodeTree(new_left, new_right, probabilities_of(weights), names, kind)


def split_repeatedly(
    tokens: Tokens, split: Callable[[Tokens], tuple[Tokens, Tokens]]
) -> tuple[list[int], list[int]]:
    """Split a group of tokens in two until each stands alone; the first group is the root."""
    groups = [tokens]
    left: list[int] = []
    right: list[int] = []
    for group in groups:  # grows while it is read
        for side, children in zip(split(group), (left, right), strict=True):
            if len(side) == 1:
                children.append(~int(side[0]))
            else:
                children.append(len(groups))
                groups.append(side)
    return left, right
