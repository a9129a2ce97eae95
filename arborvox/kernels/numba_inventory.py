"""The k best leaves of a pruned tree on a CPU, normalised over its living leaves, in one pass."""

import math
from typing import Any

import numpy as np

from arborvox.kernels.compiling import kernel
from arborvox.kernels.gate_math import gate_terms
from arborvox.kernels.numba_search import keep_leaf
from arborvox.kernels.tables import DEAD

# Leaves that are so much less likely than the best, e^-30 = 1e-13, add nothing in float32.
REACH = 30.0


@kernel
def best_living(
    gates: Any, left: Any, right: Any, leaf_ids: Any, first: int, last: int, values: Any, ids: Any
) -> None:
    """Fill values and ids (N, k) of rows first..last from the gates (N, living inner nodes)."""
    k, zero = values.shape[1], gates.dtype.type(0)
    inner = gates.shape[1]
    terms = np.empty(inner, gates.dtype)
    reach = np.empty(inner, gates.dtype)  # log P of coming to each inner node
    scores = np.empty(leaf_ids.shape[0], gates.dtype)
    for n in range(first, last):
        for node in range(inner):
            terms[node] = gate_terms(gates[n, node])[0]
        reach[0] = zero
        best = gates.dtype.type(-np.inf)
        for node in range(inner):
            gate = gates[n, node]
            base = reach[node] - terms[node]
            for side in range(2):
                child = left[node] if side == 0 else right[node]
                score = base - max(-gate if side == 0 else gate, zero)
                if child >= 0:
                    reach[child] = score
                elif child != DEAD:
                    scores[~child] = score
                    best = max(best, score)
        found, total = 0, 0.0
        for leaf in range(scores.shape[0]):
            score = scores[leaf]
            if score - best > -REACH:
                total += math.exp(score - best)
            if found < k or score > values[n, k - 1]:
                found = keep_leaf(values, ids, n, found, k, score, leaf_ids[leaf])
        log_mass = gates.dtype.type(best + math.log(total))
        for i in range(k):
            values[n, i] -= log_mass
