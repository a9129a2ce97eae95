"""Trees that know nothing of the units: what any other tree must beat."""

import hashlib
from collections.abc import Sequence

import numpy as np

from arborvox.tree.assembly import Tokens, assemble, split_repeatedly
from arborvox.tree.code_tree import CodeTree
from arborvox.tree.huffman import Count, exact_weights


def balanced_tree(counts: Sequence[Count], units: Sequence[str] | None = None) -> CodeTree:
    """Halve the vocabulary in the order of the token ids until each token stands alone."""
    return _halved("balanced", np.arange(len(counts)), counts, units)


def random_tree(
    counts: Sequence[Count], units: Sequence[str] | None = None, *, seed: int = 0
) -> CodeTree:
    """Halve a shuffled vocabulary: as flat as `balanced`, but with neighbours drawn by lot."""

    # Sorting by a hash is a shuffle that no version of a random generator can change.
    def lot(token: int) -> bytes:
        return hashlib.sha256(f"{seed}:{token}".encode()).digest()

    return _halved("random", np.array(sorted(range(len(counts)), key=lot)), counts, units)


def _halved(
    kind: str, tokens: Tokens, counts: Sequence[Count], units: Sequence[str] | None
) -> CodeTree:
    weights = exact_weights(counts)
    left, right = split_repeatedly(tokens, lambda t: (t[: len(t) // 2], t[len(t) // 2 :]))
    return assemble(kind, left, right, 0, weights, units)
