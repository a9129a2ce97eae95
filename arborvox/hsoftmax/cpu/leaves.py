"""All leaves at once on a CPU: their log-probabilities, gradients, and the k best of them."""

from typing import Any

import numpy as np

from arborvox.hsoftmax.cpu.search import keep_leaf
from arborvox.hsoftmax.tables import DEAD
from arborvox.kernels.compiling import kernel
from arborvox.kernels.gate_math import gate_terms


@kernel
def walk_leaves(gates: Any, left: Any, right: Any, log_probs: Any) -> None:
    """Turn gates (N, >= inner nodes) into log P of leaves, (N, leaves), from the root down."""
    inner = left.shape[0]
    zero = gates.dtype.type(0)
    scores = np.empty(inner, gates.dtype)  # log-probability of reaching each inner node
    terms = np.empty(inner, gates.dtype)
    for n in range(gates.shape[0]):
        for node in range(inner):
            terms[node] = gate_terms(gates[n, node])[0]
        scores[0] = zero
        for node in range(inner):
            gate = gates[n, node]
            base = scores[node] - terms[node]
            child = left[node]
            score = base - max(-gate, zero)
            if child >= 0:
                scores[child] = score
            elif child != DEAD:
                log_probs[n, ~child] = score
            child = right[node]
            score = base - max(gate, zero)
            if child >= 0:
                scores[child] = score
            elif child != DEAD:
                log_probs[n, ~child] = score


@kernel
def gate_gradients_of_leaves(
    gates: Any, left: Any, right: Any, leaf_grads: Any, gate_grads: Any
) -> None:
    """Turn the gradients of all leaves, (N, leaves), into those of the gates, (N, >= inner nodes).

    A gate moves mass between the leaves on its two sides, so its gradient is
    sigma(-g) * (sum of gradients on the left) - sigma(g) * (sum on the right).
    """
    inner = left.shape[0]
    zero = gates.dtype.type(0)
    below = np.empty(inner, gates.dtype)  # sum of the leaf gradients below each inner node
    for n in range(gates.shape[0]):
        for node in range(inner - 1, -1, -1):
            child = left[node]
            on_left = zero
            if child != DEAD:
                on_left = below[child] if child >= 0 else leaf_grads[n, ~child]
            child = right[node]
            on_right = zero
            if child != DEAD:
                on_right = below[child] if child >= 0 else leaf_grads[n, ~child]
            below[node] = on_left + on_right
            gate = gates[n, node]
            _, larger, smaller = gate_terms(gate)
            if gate >= zero:
                gate_grads[n, node] = smaller * on_left - larger * on_right
            else:
                gate_grads[n, node] = larger * on_left - smaller * on_right


@kernel
def select_best(scores: Any, leaf_ids: Any, values: Any, ids: Any) -> None:
    """Fill values and ids (N, k) with the k best of scores (N, V), lower ids first at ties.

    A row with NaN among its scores gets NaN values, as the best-first search gives it.
    """
    k = values.shape[1]
    for n in range(scores.shape[0]):
        found = 0
        nan_seen = False
        for leaf in range(scores.shape[1]):
            score = scores[n, leaf]
            if score != score:
                nan_seen = True
                break
            if found < k or score >= values[n, k - 1]:
                found = keep_leaf(values, ids, n, found, k, score, leaf_ids[leaf])
        if nan_seen:
            for i in range(k):
                values[n, i] = np.nan
                ids[n, i] = leaf_ids[i]
