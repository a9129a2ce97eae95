"""Trees by articulation: IPA units that are made alike in the mouth become neighbors."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from arborvox.errors import ArborvoxError
from arborvox.tree.articulation import Articulation
from arborvox.tree.assembly import assemble, probabilities_of
from arborvox.tree.clustering import deal_evenly, merge_nearest
from arborvox.tree.code_tree import CodeTree
from arborvox.tree.huffman import Count, exact_weights, merge_lightest


@dataclass(frozen=True)
class PhoneticTree:
    """A tree by articulation, with what panphon did not know."""

    tree: CodeTree
    relatives: dict[str, str]  # unknown unit -> the known one whose place it shares
    unplaced: tuple[str, ...]  # units without any relative, joined by mass alone


def phonetic_tree(
    counts: Sequence[Count], units: Sequence[str], special: Sequence[str] = ()
) -> PhoneticTree:
    """Cluster units by articulatory features; the special ones join above by Huffman's rule."""
    weights = exact_weights(counts)
    articulation = Articulation()
    places = place_units(articulation, units, special)
    vectors = np.stack([articulation.vector(relative) for relative in places.values()])
    left, right = _join(list(places), vectors, weights)
    tree = assemble("phonetic", left, right, len(left) - 1, weights, units)
    return PhoneticTree(tree, *unknown_units(articulation, units, special, places))


def place_units(
    articulation: Articulation, units: Sequence[str], special: Sequence[str]
) -> dict[int, str]:
    """Return, by token id, what panphon knows of each sound; refuse units that are none."""
    places = {
        token: relative
        for token, unit in enumerate(units)
        if unit not in special and unit.strip()
        if (relative := articulation.nearest_relative(unit))
    }
    if len(places) < 2:
        raise ArborvoxError(
            "A tree by articulation needs IPA units, but panphon knows fewer than two of these; "
            "build the tokens with --unit phone."
        )
    return places


def unknown_units(
    articulation: Articulation,
    units: Sequence[str],
    special: Sequence[str],
    places: Mapping[int, str],
) -> tuple[dict[str, str], tuple[str, ...]]:
    """Return the units that stand with a relative, and those that have none."""
    relatives = {
        units[token]: relative
        for token, relative in places.items()
        if not articulation.knows(units[token])
    }
    unplaced = [u for t, u in enumerate(units) if t not in places and u not in special]
    return relatives, tuple(unplaced)


def announce(made: PhoneticTree) -> CodeTree:
    """Say which units panphon did not know, and return the tree."""
    from arborvox.console import say, warn  # brings Rich, which no other tree needs

    if made.relatives:
        pairs = ", ".join(f"{unit} by {near}" for unit, near in made.relatives.items())
        say(f"{len(made.relatives)} units unknown to panphon, placed by their relatives: {pairs}")
    if made.unplaced:
        warn(
            f"{len(made.unplaced)} units have no relative that panphon knows; they join the tree "
            f"by mass alone: {' '.join(made.unplaced)}"
        )
    return made.tree


def _join(
    phones: list[int], vectors: NDArray[np.float64], weights: Sequence[int]
) -> tuple[list[int], list[int]]:
    """Cluster the phones, then merge that cluster with all other tokens by weight."""
    masses = deal_evenly(probabilities_of([weights[token] for token in phones]))
    left, right = (
        [child if child >= 0 else ~phones[~child] for child in children]
        for children in merge_nearest(vectors, masses)
    )
    join_above(left, right, len(left) - 1, phones, weights)
    return left, right


def join_above(
    left: list[int], right: list[int], root: int, phones: Sequence[int], weights: Sequence[int]
) -> int:
    """Merge what hangs at `root`, the phones, with all other tokens by weight; return the root."""
    others = sorted(set(range(len(weights))) - set(phones))
    if not others:
        return root
    first = len(left)
    outer = merge_lightest([*(weights[t] for t in others), sum(weights[t] for t in phones)])
    for children, outer_children in zip((left, right), outer, strict=True):
        for child in outer_children:
            if child >= 0:
                children.append(first + child)
            elif ~child < len(others):
                children.append(~others[~child])
            else:  # the last "token" stands for all the phones
                children.append(root)
    return len(left) - 1
