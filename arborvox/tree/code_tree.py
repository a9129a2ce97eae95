"""The one tree type: a binary tree whose leaves are the tokens and whose paths are their codes."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from arborvox.config.choices import TreeKind, values_of
from arborvox.errors import ArborvoxError

KINDS = values_of(TreeKind)

# What would break a unit over two lines of a file.
LINE_BREAKS = frozenset("\n\v\f\r\x1c\x1d\x1e\x85\u2028\u2029")

LONGEST_QUESTION = 64

# Decisions of all codes together; an unbalanced tree has V * V / 2 of them, and all are kept.
MOST_DECISIONS = 1 << 26

# Masses are kept as float64; a sum over 100,000 of them is off by far less than this.
MASS_TOLERANCE = 1e-6


class Paths(NamedTuple):
    """Every token's way from the root, one after the other (CSR): token t owns offsets[t:t+2]."""

    offsets: NDArray[np.int64]  # (V + 1,)
    nodes: NDArray[np.int32]  # (L,) inner nodes, root first
    signs: NDArray[np.int8]  # (L,) +1 where the path turns left, -1 where it turns right


@dataclass(frozen=True, eq=False, repr=False)
class CodeTree:
    """A binary tree over tokens 0..V-1, inner nodes numbered in level order from the root, 0."""

    left: NDArray[np.int32]  # (V - 1,) c >= 0: inner node c; c < 0: the leaf of token ~c
    right: NDArray[np.int32]  # (V - 1,)
    probabilities: NDArray[np.float64]  # (V,) leaf masses by token id
    units: tuple[str, ...] | None = None
    kind: str = "balanced"
    # (V - 1,) what each inner node asks, yes on the left; None where it asks nothing with a name
    questions: tuple[str | None, ...] | None = None

    def __post_init__(self) -> None:
        """Freeze the arrays and refuse anything that is not a tree in level order."""
        for name, dtype in (("left", np.int32), ("right", np.int32), ("probabilities", np.float64)):
            object.__setattr__(self, name, _frozen_array(name, getattr(self, name), dtype))
        if self.units is not None:
            object.__setattr__(self, "units", tuple(self.units))
        if self.questions is not None:
            object.__setattr__(self, "questions", tuple(self.questions))
        _check_labels(self)
        _check_questions(self)
        _check_shape_of_tree(self.left, self.right)
        _check_depth(self)

    @property
    def num_leaves(self) -> int:
        """V, the number of tokens."""
        return len(self.probabilities)

    @property
    def num_inner(self) -> int:
        """V - 1, the number of left/right decisions that the tree knows."""
        return len(self.left)

    @cached_property
    def depth(self) -> int:
        """Length of the longest code."""
        return sum(1 for _ in self.levels())

    def levels(self) -> Iterator[tuple[int, int]]:
        """Yield each level's inner nodes as a range (start, end), from the root down."""
        start, end = 0, 1
        while start < end:
            yield start, end
            children = np.count_nonzero(self.left[start:end] >= 0)
            children += np.count_nonzero(self.right[start:end] >= 0)
            start, end = end, end + int(children)

    def depths(self) -> NDArray[np.int64]:
        """Return the code length of each token, (V,)."""
        return np.diff(self.paths().offsets)

    def codes(self) -> list[str]:
        """Return each token's code, left = 0 and right = 1, as in "0110"."""
        offsets, _, signs = self.paths()
        digits = ((signs < 0) + np.uint8(ord("0"))).tobytes().decode("ascii")
        bounds = offsets.tolist()
        return [digits[a:b] for a, b in pairwise(bounds)]

    def paths(self) -> Paths:
        """Return all paths as CSR arrays; made once, read-only."""
        return self._paths

    def path_tables(self) -> tuple[NDArray[np.int32], NDArray[np.int8], NDArray[np.int8]]:
        """Return the paper's Index, Sign and Bias tables, (V, depth) each.

        P(token) is the product over columns of sign * sigma(gate[index]) + bias, so padding is
        index 0, sign 0, bias 1.
        """
        offsets, nodes, signs = self.paths()
        shape = (self.num_leaves, self.depth)
        used = np.arange(self.depth) < np.diff(offsets)[:, None]  # (V, depth)
        index, sign = np.zeros(shape, np.int32), np.zeros(shape, np.int8)
        index[used], sign[used] = nodes, signs
        return index, sign, (sign < 1).astype(np.int8)

    def leaves_below(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Count the leaves in each inner node's left and right subtree, (V - 1,) each."""
        return self.sums_below(np.ones(self.num_leaves, np.int64))

    def sums_below(self, leaf_values: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
        """Sum values by token, (V, ...), over each inner node's left and right subtree."""
        shape = (self.num_inner, *leaf_values.shape[1:])
        left_sums, right_sums = (
            np.zeros(shape, leaf_values.dtype),
            np.zeros(shape, leaf_values.dtype),
        )
        for start, end in reversed(list(self.levels())):
            for children, sums in ((self.left, left_sums), (self.right, right_sums)):
                child = children[start:end]
                leaf = child < 0
                below = sums[start:end]
                below[leaf] = leaf_values[~child[leaf]]
                below[~leaf] = left_sums[child[~leaf]] + right_sums[child[~leaf]]
        return left_sums, right_sums

    def with_leaf(self, probability: float, unit: str = "<blank>") -> "CodeTree":
        """Return a tree with one more token, id V, as the other child of a new root."""
        if not 0.0 < probability < 1.0:
            raise ArborvoxError(
                f"A new leaf needs a probability between 0 and 1, but {probability} was given."
            )
        new_leaf, old_root = ~self.num_leaves, 1
        root = (new_leaf, old_root) if probability <= 0.5 else (old_root, new_leaf)
        # Every old inner node moves down by one, which keeps the level order.
        left = self.left + (self.left >= 0)
        right = self.right + (self.right >= 0)
        return CodeTree(
            left=np.concatenate(([root[0]], left)).astype(np.int32),
            right=np.concatenate(([root[1]], right)).astype(np.int32),
            probabilities=np.append(self.probabilities * (1.0 - probability), probability),
            units=None if self.units is None else (*self.units, unit),
            kind=self.kind,
            questions=None if self.questions is None else (None, *self.questions),
        )

    def heard_below(self) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Say whether the left and the right of each inner node hold a unit with any mass."""
        on_left, on_right = self.sums_below((self.probabilities > 0).astype(np.int64))
        return on_left > 0, on_right > 0

    def __eq__(self, other: object) -> bool:
        """Say whether structure, masses and questions are the same."""
        if not isinstance(other, CodeTree):
            return NotImplemented
        return self._fingerprint == other._fingerprint

    def __hash__(self) -> int:
        """Hash what equality compares."""
        return hash(self._fingerprint)

    def __repr__(self) -> str:
        """Name the tree by what it is, not by its arrays."""
        return f"<{self.kind} {type(self).__name__}: {self.num_leaves} leaves, depth {self.depth}>"

    @property
    def _fingerprint(self) -> tuple[bytes, bytes, bytes, tuple[str | None, ...] | None]:
        arrays = (self.left.tobytes(), self.right.tobytes(), self.probabilities.tobytes())
        return *arrays, self.questions

    @cached_property
    def _paths(self) -> Paths:
        parent = np.full(self.num_inner, -1, np.int32)  # of each inner node
        side = np.zeros(self.num_inner, np.int8)  # the turn that leads to it
        node = np.empty(self.num_leaves, np.int32)  # parent of each leaf
        turn = np.empty(self.num_leaves, np.int8)
        above = np.arange(self.num_inner, dtype=np.int32)
        for children, sign in ((self.left, 1), (self.right, -1)):
            leaf = children < 0
            node[~children[leaf]], turn[~children[leaf]] = above[leaf], sign
            parent[children[~leaf]], side[children[~leaf]] = above[~leaf], sign

        node_depth = np.zeros(self.num_inner, np.int64)
        for level, (start, end) in enumerate(self.levels()):
            node_depth[start:end] = level
        offsets = np.concatenate(([0], np.cumsum(node_depth[node] + 1)))
        nodes, signs = np.empty(offsets[-1], np.int32), np.empty(offsets[-1], np.int8)
        # All leaves climb together, each writing its path from the back; the done ones drop out.
        place = offsets[1:] - 1
        while len(node):
            nodes[place], signs[place] = node, turn
            climbing = node > 0
            turn, node, place = side[node[climbing]], parent[node[climbing]], place[climbing] - 1
        offsets.setflags(write=False)
        nodes.setflags(write=False)
        signs.setflags(write=False)
        return Paths(offsets, nodes, signs)


def _frozen_array(name: str, values: ArrayLike, dtype: type) -> NDArray[Any]:
    """Copy a vector into the wanted type, unchanged in value, and make it read-only."""
    given = np.asarray(values)
    if given.ndim != 1 or given.dtype.kind not in "iuf":
        raise ArborvoxError(f"A tree's '{name}' must be a list of numbers.")
    if dtype is np.int32 and given.size:
        whole = given.dtype.kind in "iu" and np.abs(given.astype(np.float64)).max() < 2**31
        if not whole:
            raise ArborvoxError(f"A tree's '{name}' must hold whole numbers that fit in 32 bits.")
    array: NDArray[Any] = np.array(given, dtype=dtype)
    array.setflags(write=False)
    return array


def _check_labels(tree: CodeTree) -> None:
    """Refuse masses that are no distribution, unit lists of another size, and unknown kinds."""
    V, masses = tree.num_leaves, tree.probabilities
    if V < 2:
        raise ArborvoxError(f"A tree needs at least 2 units, but {V} was given.")
    if len(tree.left) != V - 1 or len(tree.right) != V - 1:
        raise ArborvoxError(
            f"A tree of {V} leaves has {V - 1} inner nodes, but {len(tree.left)} left and "
            f"{len(tree.right)} right children were given."
        )
    if not np.all(np.isfinite(masses)) or masses.min() < 0:
        raise ArborvoxError("A tree's probabilities must be finite and not below 0.")
    if abs(masses.sum() - 1.0) > MASS_TOLERANCE:
        raise ArborvoxError(f"A tree's probabilities must sum to 1, but sum to {masses.sum():.9g}.")
    if tree.kind not in KINDS:
        raise ArborvoxError(
            f"Unknown kind of tree {tree.kind[:40]!r}; there are: {', '.join(KINDS)}."
        )
    if tree.units is not None:
        if len(tree.units) != V:
            raise ArborvoxError(f"The tree has {V} leaves but {len(tree.units)} units.")
        for token, unit in enumerate(tree.units):
            if not unit.isascii() and any("\ud800" <= character <= "\udfff" for character in unit):
                raise ArborvoxError(f"The unit of token {token}, {unit!r}, is no Unicode text.")
            if not LINE_BREAKS.isdisjoint(unit):
                raise ArborvoxError(f"The unit of token {token}, {unit!r}, contains a newline.")
        if len(set(tree.units)) != V:
            twice = Counter(tree.units).most_common(1)[0][0]
            raise ArborvoxError(f"The unit {twice!r} stands twice in the tree; each has one leaf.")


def _check_questions(tree: CodeTree) -> None:
    """Refuse questions that are not one for each inner node, or that no line can show."""
    if tree.questions is None:
        return
    if len(tree.questions) != tree.num_inner:
        raise ArborvoxError(
            f"The tree has {tree.num_inner} inner nodes but {len(tree.questions)} questions."
        )
    for node, question in enumerate(tree.questions):
        if question is None:
            continue
        if not 0 < len(question) <= LONGEST_QUESTION or not LINE_BREAKS.isdisjoint(question):
            raise ArborvoxError(
                f"The question of inner node {node} must be one line of 1 to {LONGEST_QUESTION} "
                "characters."
            )


def _check_shape_of_tree(left: NDArray[np.int32], right: NDArray[np.int32]) -> None:
    """Refuse cycles, lost nodes, lost or doubled leaves, and any order but the level order."""
    V = len(left) + 1
    children = np.stack((left, right), axis=1)  # (V - 1, 2)
    leaves = ~children[children < 0]
    inner = children[children >= 0]  # in level order, where the tree is sound
    if leaves.max(initial=0) >= V or inner.max(initial=0) >= V - 1:
        raise ArborvoxError(f"The tree points to a node or leaf outside its {V} leaves.")
    leaf_counts = np.bincount(leaves, minlength=V)
    if np.any(leaf_counts != 1):
        token = int(np.flatnonzero(leaf_counts != 1)[0])
        raise ArborvoxError(
            f"The tree is incomplete: token {token} has {leaf_counts[token]} leaves, not one."
        )
    parents = np.repeat(np.arange(V - 1), (children >= 0).sum(axis=1))
    if np.any(inner <= parents):
        node = int(inner[inner <= parents][0])
        raise ArborvoxError(
            f"The tree is cyclic or not in level order: inner node {node} hangs below itself or "
            f"below a later node."
        )
    if not np.array_equal(inner, np.arange(1, V - 1)):
        raise ArborvoxError(
            "The tree is not in level order, or an inner node has no parent or two of them."
        )


def _check_depth(tree: CodeTree) -> None:
    """Refuse a tree whose codes are too long to be kept, without following all of it."""
    waiting = tree.num_leaves  # leaves below the level
    num_decisions = 0
    for start, end in tree.levels():
        num_decisions += waiting
        if num_decisions > MOST_DECISIONS:
            raise ArborvoxError(
                f"The tree is too deep: its {tree.num_leaves:,} codes have more than "
                f"{MOST_DECISIONS:,} decisions together."
            )
        for children in (tree.left[start:end], tree.right[start:end]):
            waiting -= int(np.count_nonzero(children < 0))
