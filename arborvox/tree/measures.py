"""Numbers about trees: how long the codes are, how two trees differ, where two units part."""

import hashlib
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from arborvox.errors import ArborvoxError
from arborvox.tree.code_tree import CodeTree


def entropy_bits(probabilities: NDArray[np.float64]) -> float:
    """Return the entropy of a distribution: no code can be shorter on average."""
    positive = probabilities[probabilities > 0]
    return float(-(positive * np.log2(positive)).sum())


def expected_code_length(tree: CodeTree, probabilities: NDArray[np.float64] | None = None) -> float:
    """Return the mean number of decisions for a unit, by the tree's own masses or by others."""
    masses = tree.probabilities if probabilities is None else probabilities
    return float(masses @ tree.depths())


@dataclass(frozen=True)
class TreeComparison:
    """How two trees over the same units differ."""

    units: tuple[str, ...]
    depths: tuple[NDArray[np.int64], NDArray[np.int64]]  # by token id of the first tree
    lengths: tuple[float, float]  # expected code lengths, each by its own masses
    same_codes: int
    shared_groups: int  # inner nodes, root aside, that hold the same units in both
    num_groups: int
    shared_siblings: int  # pairs of units that part last, in both
    num_siblings: tuple[int, int]

    @property
    def moved(self) -> list[tuple[str, int]]:
        """The units with the change in their depth, the greatest change first."""
        change = self.depths[1] - self.depths[0]
        order = np.argsort(-np.abs(change), kind="stable")
        return [(self.units[token], int(change[token])) for token in order if change[token]]


def compare_trees(first: CodeTree, second: CodeTree) -> TreeComparison:
    """Compare two trees over the same units, whatever ids the units have in each."""
    units, others = _names(first), _names(second)
    if set(units) != set(others):
        odd = sorted(set(units) ^ set(others))
        shown = ", ".join(map(repr, odd[:5])) + (", …" if len(odd) > 5 else "")
        raise ArborvoxError(
            f"The trees are over different units ({len(odd)} stand in one only: {shown}); "
            f"compare trees that were built from the same tokens."
        )
    place = {unit: token for token, unit in enumerate(others)}
    aligned = np.array([place[unit] for unit in units])
    codes, other_codes = first.codes(), second.codes()
    groups, other_groups = _group_marks(first, units), _group_marks(second, others)
    siblings, other_siblings = _siblings(first, units), _siblings(second, others)
    return TreeComparison(
        units=units,
        depths=(first.depths(), second.depths()[aligned]),
        lengths=(expected_code_length(first), expected_code_length(second)),
        same_codes=sum(
            code == other_codes[other] for code, other in zip(codes, aligned, strict=True)
        ),
        shared_groups=len(groups & other_groups),
        num_groups=len(groups),
        shared_siblings=len(siblings & other_siblings),
        num_siblings=(len(siblings), len(other_siblings)),
    )


@dataclass(frozen=True)
class Meeting:
    """Where the ways to two units part, and what lies on each side."""

    units: tuple[str, str]
    codes: tuple[str, str]
    masses: tuple[float, float]
    prefix: str  # the decisions that they share
    node_mass: float
    node_leaves: int
    merge: int  # 1 for the lightest inner node, V - 1 for the root
    sides: tuple[tuple[str, ...], tuple[str, ...]]  # all units on each one's side, heaviest first

    @property
    def are_siblings(self) -> bool:
        """Whether nothing but these two hangs where they part."""
        return self.node_leaves == 2


def explain_meeting(tree: CodeTree, unit: str, other: str) -> Meeting:
    """Find the last decision that two units share, and with whom they share it."""
    names = _names(tree)
    for wanted in (unit, other):
        if wanted not in names:
            raise ArborvoxError(f"The tree has no unit {wanted!r}; `arborvox tree show` lists all.")
    if unit == other:
        raise ArborvoxError(f"Name two different units; {unit!r} was given twice.")
    tokens = (names.index(unit), names.index(other))
    codes = tree.codes()
    a, b = (codes[token] for token in tokens)
    # No code is the beginning of another, so there is a first decision in which they differ.
    prefix = a[: next(n for n in range(len(a)) if a[n] != b[n])]
    node = int(tree.paths().nodes[tree.paths().offsets[tokens[0]] + len(prefix)])
    masses = np.add(*tree.sums_below(tree.probabilities))
    heaviest_first = np.argsort(-tree.probabilities, kind="stable").tolist()

    def side(code: str) -> tuple[str, ...]:
        start = code[: len(prefix) + 1]
        return tuple(names[token] for token in heaviest_first if codes[token].startswith(start))

    sides = (side(a), side(b))
    return Meeting(
        units=(unit, other),
        codes=(a, b),
        masses=(float(tree.probabilities[tokens[0]]), float(tree.probabilities[tokens[1]])),
        prefix=prefix,
        node_mass=float(masses[node]),
        node_leaves=len(sides[0]) + len(sides[1]),
        # A child is never heavier than its parent; of equal ones the child was merged first.
        merge=int((masses < masses[node]).sum() + (masses[node:] == masses[node]).sum()),
        sides=sides,
    )


def _names(tree: CodeTree) -> tuple[str, ...]:
    if tree.units is None:
        raise ArborvoxError("The tree does not name its units; build it again from its tokens.")
    return tree.units


def _group_marks(tree: CodeTree, units: tuple[str, ...]) -> set[int]:
    """Return a 64-bit mark for the set of units below each inner node but the root."""
    digests = [hashlib.sha256(unit.encode()).digest()[:8] for unit in units]
    marks = np.frombuffer(b"".join(digests), np.uint64)
    left, right = tree.sums_below(marks)  # sums wrap around, which is what is wanted
    return set((left + right)[1:].tolist())


def _siblings(tree: CodeTree, units: tuple[str, ...]) -> set[frozenset[str]]:
    both = (tree.left < 0) & (tree.right < 0)
    pairs = zip((~tree.left[both]).tolist(), (~tree.right[both]).tolist(), strict=True)
    return {frozenset((units[a], units[b])) for a, b in pairs}
