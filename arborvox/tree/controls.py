"""Trees that know nothing of the units: what any other tree must beat."""

import hashlib
from collections.abc import Iterable, Sequence

import numpy as np

from arborvox.tree.assembly import Tokens, assemble, split_repeatedly
from arborvox.tree.code_tree import CodeTree
from arborvox.tree.huffman import Count, HuffmanTree, exact_weights
from arborvox.tree.phonetic import announce, phonetic_tree


def balanced_tree(counts: Sequence[Count], units: Sequence[str] | None = None) -> CodeTree:
    """Halve the vocabulary in the order of the token ids until each token stands alone."""
    return _halved("balanced", np.arange(len(counts)), counts, units)


def random_tree(
    counts: Sequence[Count], units: Sequence[str] | None = None, *, seed: int = 0
) -> CodeTree:
    """Halve a shuffled vocabulary: as flat as `balanced`, but with neighbors drawn by lot."""
    return _halved("random", np.array(_shuffled(range(len(counts)), seed)), counts, units)


def shuffled_tree(
    counts: Sequence[Count], units: Sequence[str] | None = None, *, seed: int = 0
) -> CodeTree:
    """Take Huffman's tree and let units with codes of one length change places by lot.

    Every code stays as long as it was, so what differs from Huffman's tree is who meets whom.
    """
    return _with_others_beside("shuffled", HuffmanTree.from_counts(counts, units), counts, seed)


def shuffled_phonetic_tree(
    counts: Sequence[Count], units: Sequence[str], special: Sequence[str] = (), *, seed: int = 0
) -> CodeTree:
    """Do the same with the phonetic tree: its shape and code lengths without its phonetics."""
    phonetic = announce(phonetic_tree(counts, units, special))
    return _with_others_beside("shuffled-phonetic", phonetic, counts, seed)


def _with_others_beside(kind: str, tree: CodeTree, counts: Sequence[Count], seed: int) -> CodeTree:
    depths = tree.depths()
    moved: dict[int, int] = {}
    for depth in np.unique(depths):
        tokens = np.flatnonzero(depths == depth).tolist()
        moved.update(zip(tokens, _shuffled(tokens, seed), strict=True))
    left, right = (
        [child if child >= 0 else ~moved[~child] for child in side.tolist()]
        for side in (tree.left, tree.right)
    )
    return assemble(kind, left, right, 0, exact_weights(counts), tree.units)


def _shuffled(tokens: Iterable[int], seed: int) -> list[int]:
    # Sorting by a hash is a shuffle that no version of a random generator can change.
    return sorted(tokens, key=lambda token: hashlib.sha256(f"{seed}:{token}".encode()).digest())


def _halved(
    kind: str, tokens: Tokens, counts: Sequence[Count], units: Sequence[str] | None
) -> CodeTree:
    weights = exact_weights(counts)
    left, right = split_repeatedly(tokens, lambda t: (t[: len(t) // 2], t[len(t) // 2 :]))
    return assemble(kind, left, right, 0, weights, units)
