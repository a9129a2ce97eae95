"""The k best leaves of a pruned tree on a CPU, normalized over its living leaves, in one call.

Every living gate adds to what the leaves are divided by, so all of them are computed. Then a block
of gates and rows at a time is the fast order: weights are read once for all rows of a group.
"""

from typing import Any, NamedTuple

import numpy as np
from numba import carray
from numpy.typing import NDArray

from arborvox.hsoftmax.cpu.dots import four_dots, one_dot
from arborvox.hsoftmax.cpu.search import fill_with_nan, keep_leaf
from arborvox.hsoftmax.tables import DEAD, SearchTree
from arborvox.kernels.compiling import kernel, pointer_from_address
from arborvox.kernels.gate_math import LEAST_EXPONENT, exp_float32, gate_terms

ZERO = np.float32(0.0)
# Rows whose gates are held at once: they and the weights of a block stay in the first cache.
ROWS_TOGETHER = 16


class Turns(NamedTuple):
    """A pruned tree seen from below: the turn that leads to each node and leaf.

    Turn 2 * n goes left at inner node n, turn 2 * n + 1 goes right.
    """

    to_inner: NDArray[np.int32]  # (M,) in level order; of the root nothing, said as 2 * M
    to_leaf: NDArray[np.int32]  # (leaves,)
    leaf_ids: NDArray[np.int64]  # (leaves,) token of each leaf, rising

    @classmethod
    def of_tree(cls, tree: SearchTree) -> "Turns":
        """Turn a tree around."""
        children = np.stack((tree.left, tree.right), axis=1).ravel()  # (2 M,) by turn
        to_inner = np.full(len(tree.left), len(children), np.int32)
        to_leaf = np.empty(tree.num_leaves, np.int32)
        inner = np.flatnonzero(children >= 0)
        leaves = np.flatnonzero((children < 0) & (children != DEAD))
        to_inner[children[inner]] = inner
        to_leaf[~children[leaves]] = leaves
        return cls(to_inner, to_leaf, tree.leaf_ids)


@kernel
def eight_dots(weight: Any, a: int, h: Any, n: int, gates: Any, row: int) -> None:
    """Set four gates from `a` on for rows n and n + 1 of h; both sides are read once."""
    s0, s1, s2, s3 = ZERO, ZERO, ZERO, ZERO
    t0, t1, t2, t3 = ZERO, ZERO, ZERO, ZERO
    for i in range(h.shape[1]):
        x, y = h[n, i], h[n + 1, i]
        w0, w1, w2, w3 = weight[a, i], weight[a + 1, i], weight[a + 2, i], weight[a + 3, i]
        s0 += w0 * x
        s1 += w1 * x
        s2 += w2 * x
        s3 += w3 * x
        t0 += w0 * y
        t1 += w1 * y
        t2 += w2 * y
        t3 += w3 * y
    gates[row, a], gates[row, a + 1], gates[row, a + 2], gates[row, a + 3] = s0, s1, s2, s3
    row += 1
    gates[row, a], gates[row, a + 1], gates[row, a + 2], gates[row, a + 3] = t0, t1, t2, t3


@kernel
def open_all_gates(weight: Any, h: Any, first: int, last: int, gates: Any) -> None:
    """Set gates (rows, M) to the inner products of all gates with rows first..last of h."""
    inner, num_rows = weight.shape[0], last - first
    fours, pairs = inner - inner % 4, num_rows - num_rows % 2
    for a in range(0, fours, 4):
        for row in range(0, pairs, 2):
            eight_dots(weight, a, h, first + row, gates, row)
        if pairs < num_rows:
            gates[pairs, a], gates[pairs, a + 1], gates[pairs, a + 2], gates[pairs, a + 3] = (
                four_dots(weight, a, a + 1, a + 2, a + 3, h, first + pairs)
            )
    for a in range(fours, inner):
        for row in range(num_rows):
            gates[row, a] = one_dot(weight, a, h, first + row)


@kernel
def rank_leaves(
    gates: Any, to_inner: Any, to_leaf: Any, leaf_ids: Any,
    terms: Any, turns: Any, scores: Any, n: int, values: Any, ids: Any,
) -> None:  # fmt: skip
    """Fill row n of values and ids (N, k) from its gates (M,).

    The rest is scratch memory: terms (M,), and log P of taking each turn (2 M + 1,) and of coming
    to each leaf (leaves,).
    """
    inner, leaves, k = gates.shape[0], scores.shape[0], values.shape[1]
    for node in range(inner):
        terms[node] = gate_terms(gates[node])[0]
    turns[2 * inner] = ZERO
    for node in range(inner):
        gate = gates[node]
        reached = turns[to_inner[node]] - terms[node]
        turns[2 * node] = reached - max(-gate, ZERO)
        turns[2 * node + 1] = reached - max(gate, ZERO)
    best = np.float32(-np.inf)
    for leaf in range(leaves):
        scores[leaf] = turns[to_leaf[leaf]]
        best = max(best, scores[leaf])
    total = ZERO
    for leaf in range(leaves):
        # Written so that NaN stays NaN.
        below = scores[leaf] - best
        total += exp_float32(LEAST_EXPONENT if below < LEAST_EXPONENT else below)
    if total != total:
        fill_with_nan(values, ids, n, k, leaf_ids)
        return
    found = 0
    for leaf in range(leaves):
        if found < k or scores[leaf] > values[n, k - 1]:
            found = keep_leaf(values, ids, n, found, k, scores[leaf], leaf_ids[leaf])
    log_mass = best + np.log(total)
    for i in range(k):
        values[n, i] -= log_mass


@kernel
def best_living(
    h_address: int,
    weight_address: int,
    values: Any,
    ids: Any,
    D: int,
    first: int,
    last: int,
    to_inner: Any,
    to_leaf: Any,
    leaf_ids: Any,
) -> None:
    """Fill values and ids (N, k) of rows first..last of h (N, D) by the weight (M, D).

    Addresses as in `search.search`: the caller vouches for contiguous float32 memory.
    """
    N, inner = values.shape[0], to_inner.shape[0]
    h = carray(pointer_from_address(h_address), (N, D), np.float32)
    weight = carray(pointer_from_address(weight_address), (inner, D), np.float32)
    gates = np.empty((min(ROWS_TOGETHER, last - first), inner), np.float32)
    terms, turns = np.empty(inner, np.float32), np.empty(2 * inner + 1, np.float32)
    scores = np.empty(len(leaf_ids), np.float32)
    for start in range(first, last, ROWS_TOGETHER):
        stop = min(start + ROWS_TOGETHER, last)
        open_all_gates(weight, h, start, stop, gates)
        for n in range(start, stop):
            rank_leaves(
                gates[n - start], to_inner, to_leaf, leaf_ids, terms, turns, scores, n, values, ids
            )
