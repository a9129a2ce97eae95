"""Length-limited Huffman trees: the least expected code length of all trees that are no deeper.

A Huffman tree gives rare units codes of twenty decisions and more. Bounding the depth bounds the
work of the worst unit, at a price of some hundredths of a bit for the mean one.
"""

from collections.abc import Iterator, Sequence
from heapq import merge

from arborvox.errors import ArborvoxError
from arborvox.tree.assembly import assemble
from arborvox.tree.code_tree import CodeTree
from arborvox.tree.huffman import Count, exact_weights

# How much longer than in a tree as flat as can be a code may grow.
MARGIN_BITS = 3


def limited_tree(
    counts: Sequence[Count], units: Sequence[str] | None = None, *, max_depth: int | None = None
) -> CodeTree:
    """Build the best tree of at most `max_depth` levels; by default 3 above the flattest."""
    weights = exact_weights(counts)
    flattest = (len(weights) - 1).bit_length()  # log2 V, rounded up
    depth = flattest + MARGIN_BITS if max_depth is None else max_depth
    if depth < flattest:
        raise ArborvoxError(
            f"A tree over {len(weights)} units has at least {flattest} levels, not {depth}."
        )
    by_weight = sorted(range(len(weights)), key=lambda token: (weights[token], token))
    lengths = code_lengths([weights[token] for token in by_weight], depth)
    left, right = _join_levels(weights, dict(zip(by_weight, lengths, strict=True)))
    return assemble("limited", left, right, len(left) - 1, weights, units)


def code_lengths(weights: Sequence[int], max_depth: int) -> list[int]:
    """Return the best code lengths for rising weights, none above `max_depth` (package-merge).

    Every level of depth offers each leaf as a coin that is worth its weight. From the deepest level
    up, pairs of the cheapest coins become packages among the coins of the level above; of the top
    level the 2 (V - 1) cheapest are bought. A leaf's code is as long as its coins are many.
    """
    num_leaves = len(weights)
    # Which coins of each level are leaves, cheapest coin first, the deepest level first.
    levels: list[list[bool]] = []
    packages: list[int] = []
    for _ in range(max_depth):
        coins = list(
            merge(
                ((weight, False) for weight in weights),
                ((package, True) for package in packages),
            )
        )
        levels.append([not is_package for _, is_package in coins])
        packages = [a[0] + b[0] for a, b in zip(coins[::2], coins[1::2], strict=False)]
    lengths = [0] * num_leaves
    bought = 2 * (num_leaves - 1)
    for are_leaves in reversed(levels):
        num_bought_leaves = sum(are_leaves[:bought])
        # Leaves come in order of weight, so those bought are the lightest ones.
        for leaf in range(num_bought_leaves):
            lengths[leaf] += 1
        bought = 2 * (bought - num_bought_leaves)
    return lengths


def _join_levels(weights: Sequence[int], lengths: dict[int, int]) -> tuple[list[int], list[int]]:
    """Join what hangs at each depth in pairs by weight, from the deepest level up to the root."""
    left: list[int] = []
    right: list[int] = []
    joined: list[tuple[int, int, int]] = []  # (weight, order, node), lightest first
    for depth in range(max(lengths.values()), 0, -1):
        # Of equal weights a leaf goes before a join, as in Huffman's algorithm.
        leaves = [(weights[t], t, ~t) for t, length in lengths.items() if length == depth]
        level = sorted([*leaves, *joined], key=lambda node: (node[0], node[2] >= 0, node[1]))
        joined = []
        for (weight, _, node), (other_weight, _, other) in _pairs(level):
            left.append(node)
            right.append(other)
            joined.append((weight + other_weight, len(left), len(left) - 1))
    return left, right


def _pairs(
    level: Sequence[tuple[int, int, int]],
) -> Iterator[tuple[tuple[int, int, int], tuple[int, int, int]]]:
    return zip(level[::2], level[1::2], strict=True)
