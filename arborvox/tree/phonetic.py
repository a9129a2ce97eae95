"""Trees by articulation: IPA units that are made alike in the mouth become neighbors."""

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from arborvox.errors import ArborvoxError
from arborvox.tree.assembly import assemble, probabilities_of
from arborvox.tree.clustering import deal_evenly, merge_nearest
from arborvox.tree.code_tree import CodeTree
from arborvox.tree.huffman import Count, exact_weights, merge_lightest

# panphon weighs its first 22 features; the two of tone count as much as its lightest.
TONE_WEIGHT = 0.125


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
    features = PhoneFeatures()
    vectors: dict[int, NDArray[np.float64]] = {}
    relatives: dict[str, str] = {}
    for token, unit in enumerate(units):
        if unit in special or not unit.strip():
            continue
        relative = features.nearest_relative(unit)
        if relative:
            vectors[token] = features.vector(relative)
            if not features.knows(unit):
                relatives[unit] = relative
    if len(vectors) < 2:
        raise ArborvoxError(
            "A phonetic tree needs IPA units, but panphon knows fewer than two of these; "
            "build the tokens with --unit phone."
        )
    phones = list(vectors)
    left, right = _join(phones, np.stack([vectors[token] for token in phones]), weights)
    tree = assemble("phonetic", left, right, len(left) - 1, weights, units)
    unplaced = [u for t, u in enumerate(units) if t not in vectors and u not in special]
    return PhoneticTree(tree, relatives, tuple(unplaced))


def announced_phonetic_tree(
    counts: Sequence[Count], units: Sequence[str], special: Sequence[str] = ()
) -> CodeTree:
    """Build a tree by articulation and say which units panphon did not know."""
    from arborvox.console import say, warn  # brings Rich, which no other tree needs

    made = phonetic_tree(counts, units, special)
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
    others = sorted(set(range(len(weights))) - set(phones))
    if not others:
        return left, right
    num_phonetic = len(left)
    outer = merge_lightest([*(weights[t] for t in others), sum(weights[t] for t in phones)])
    for children, outer_children in zip((left, right), outer, strict=True):
        for child in outer_children:
            if child >= 0:
                children.append(num_phonetic + child)
            elif ~child < len(others):
                children.append(~others[~child])
            else:  # the last "token" stands for all the phones
                children.append(num_phonetic - 1)
    return left, right


class PhoneFeatures:
    """What panphon says about a unit, and about what it does not know."""

    def __init__(self) -> None:
        from panphon import FeatureTable  # slow to import, and only this tree needs it

        self._table: Any = FeatureTable()
        weights = list(self._table.weights)
        weights += [TONE_WEIGHT] * (len(self._table.names) - len(weights))
        self._scale = np.sqrt(np.array(weights))

    def knows(self, unit: str) -> bool:
        """Say whether panphon's segments make up the whole unit."""
        return bool(unit) and "".join(self._segments(unit)) == _ipa_letters(unit)

    def vector(self, unit: str) -> NDArray[np.float64]:
        """Return weighted features, the mean over segments where a unit has several."""
        rows = self._table.word_to_vector_list(_ipa_letters(unit), numeric=True)
        mean: NDArray[np.float64] = np.mean(np.array(rows, np.float64), axis=0) * self._scale
        return mean

    def nearest_relative(self, unit: str) -> str:
        """Return the unit, or what is left of it that panphon knows, or ""."""
        if self.knows(unit):
            return unit
        # "ȡ" is LATIN SMALL LETTER D WITH CURL: the letter that it was made from is its relative.
        stripped = "".join(_plain_letter(c) for c in unicodedata.normalize("NFKD", unit).lower())
        for form in (unit, stripped):
            segments = "".join(self._segments(form))
            if segments:
                return segments
        return ""

    def vectors(self, units: Sequence[str]) -> NDArray[np.float64]:
        """Return the features of units, a row each; NaN where nothing is known of one."""
        rows = np.full((len(units), len(self._scale)), np.nan)
        for row, unit in zip(rows, units, strict=True):
            relative = self.nearest_relative(unit)
            if relative:
                row[:] = self.vector(relative)
        return rows

    def _segments(self, unit: str) -> list[str]:
        return list(self._table.ipa_segs(_ipa_letters(unit)))


def _ipa_letters(unit: str) -> str:
    """Return the decomposed form that panphon uses, with IPA's own letter for g."""
    return unicodedata.normalize("NFD", unit).replace("g", "ɡ")


def _plain_letter(character: str) -> str:
    """Return the letter that a letter with an addition was made from."""
    plain, addition, _ = unicodedata.name(character, "").partition(" WITH ")
    try:
        return unicodedata.lookup(plain) if addition else character
    except KeyError:
        return character
