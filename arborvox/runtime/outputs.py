"""Output layers of an export: log-probabilities as the graph gives them, or a tree's gates."""

import heapq
import math
from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from arborvox.decode.ctc import best_columns
from arborvox.runtime.manifest import GateTree

Scores = NDArray[np.float32]
Best = tuple[NDArray[np.float32], NDArray[np.int64]]


class ScoreOutput(Protocol):
    """What searches ask of an output layer; rows of scores are what the graph gave."""

    choices: NDArray[np.int64]  # tokens that can be given, rising

    def log_probs(self, scores: Scores) -> Scores:
        """Return log P of the choices, (N, C) -> (N, choices)."""

    def topk(self, scores: Scores, k: int) -> Best:
        """Return the k best log P, best first, and their tokens, (N, k) each; exact."""


class PlainOutput:
    """A graph that gives log-probabilities."""

    def __init__(self, num_tokens: int) -> None:
        self.choices = np.arange(num_tokens)

    def log_probs(self, scores: Scores) -> Scores:
        """Return them."""
        return scores

    def topk(self, scores: Scores, k: int) -> Best:
        """Sort them."""
        ids = best_columns(scores, k)
        return np.take_along_axis(scores, ids, axis=1), ids


class GateOutput:
    """A graph that gives the gates of a tree: left is sigma(g), right is sigma(-g)."""

    def __init__(self, tree: GateTree) -> None:
        self.choices = np.arange(len(tree.left) + 1)
        self._left, self._right = tree.left.tolist(), tree.right.tolist()
        self._levels = _levels(tree)

    def log_probs(self, scores: Scores) -> Scores:
        """Walk the tree, all leaves at once and level after level."""
        # log sigma(g) and log sigma(-g) share all but the sign's part.
        shared = -np.log1p(np.exp(-np.abs(scores)))
        turns = (shared + np.minimum(scores, 0), shared - np.maximum(scores, 0))
        reached = np.zeros_like(scores)  # log P of coming to an inner node
        leaves = np.empty((len(scores), len(self.choices)), scores.dtype)
        for nodes, children, side in self._levels:
            values = reached[:, nodes] + turns[side][:, nodes]
            inner = children >= 0
            reached[:, children[inner]] = values[:, inner]
            leaves[:, ~children[~inner]] = values[:, ~inner]
        return leaves

    def topk(self, scores: Scores, k: int) -> Best:
        """Search best nodes first: what leaves the queue k-th is the k-th best leaf."""
        values, ids = np.empty((len(scores), k), np.float32), np.empty((len(scores), k), np.int64)
        for row, gates in enumerate(scores):
            found = best_leaves(gates, self._left, self._right, k)
            values[row], ids[row] = zip(*found, strict=True)
        return values, ids


def best_leaves(
    gates: NDArray[np.float32], left: Sequence[int], right: Sequence[int], k: int
) -> list[tuple[float, int]]:
    """Return log P and token of the k best leaves, of equal ones the lower token first."""
    # Probabilities only fall along a path, so a leaf that is taken out first is the best there is.
    # At equal scores inner nodes come before leaves: a lower token may be below one.
    waiting = [(0.0, 0, 0)]  # cost, whether it is a leaf, node or token
    found: list[tuple[float, int]] = []
    while len(found) < k:
        cost, is_leaf, node = heapq.heappop(waiting)
        if is_leaf:
            found.append((-cost, node))
            continue
        gate = float(gates[node])
        shared = cost + math.log1p(math.exp(-abs(gate)))
        for child, turn in ((left[node], max(-gate, 0.0)), (right[node], max(gate, 0.0))):
            entry = (shared + turn, 0, child) if child >= 0 else (shared + turn, 1, ~child)
            heapq.heappush(waiting, entry)
    return found


def _levels(tree: GateTree) -> list[tuple[NDArray[np.int64], NDArray[np.int64], int]]:
    """Return the nodes of each level with their children, left and right."""
    levels = []
    nodes = np.zeros(1, np.int64)
    while len(nodes):
        sides = (tree.left[nodes], tree.right[nodes])
        levels += [(nodes, children, side) for side, children in enumerate(sides)]
        children = np.concatenate(sides)
        nodes = children[children >= 0]
    return levels


class RestrictedOutput:
    """Another output on condition that the token is one of an inventory."""

    def __init__(self, output: ScoreOutput, ids: Sequence[int]) -> None:
        self._output, self.choices = output, np.unique(np.array(list(ids), np.int64))

    def log_probs(self, scores: Scores) -> Scores:
        """Return log P of the inventory's tokens."""
        allowed = self._output.log_probs(scores)[:, self.choices]
        highest = allowed.max(axis=1, keepdims=True)
        mass = np.exp(allowed - highest).sum(axis=1, keepdims=True)
        scored: Scores = allowed - highest - np.log(mass)
        return scored

    def topk(self, scores: Scores, k: int) -> Best:
        """Sort them."""
        values = self.log_probs(scores)
        columns = best_columns(values, k)
        return np.take_along_axis(values, columns, axis=1), self.choices[columns]
