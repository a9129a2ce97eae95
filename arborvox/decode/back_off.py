"""Where the model is not sure of a phone, say what it is sure of: "voiceless stop, place unsure".

The tree tells how: a node has the mass of all phones below it. Of a phone that has too little the
nearest node above it that has enough is taken, and those of its phones are described, the likeliest
first, that have enough together.
"""

from dataclasses import replace
from functools import cache
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from arborvox.decode.hypothesis import Hypothesis
from arborvox.decode.network import CtcScores
from arborvox.errors import ArborvoxError
from arborvox.tokens.tokenizer import EOS_ID, Tokenizer
from arborvox.tree import CodeTree
from arborvox.tree.articulation import Articulation
from arborvox.tree.description import describe


class BackOff:
    """Describes the phones whose probability is below a threshold."""

    def __init__(self, tree: CodeTree | None, tokenizer: Tokenizer, threshold: float) -> None:
        """Read the tree of a model; one without questions has nothing to say."""
        if tree is None or tree.questions is None or tokenizer.unit != "phone":
            raise ArborvoxError(
                "back_off needs a model of phones over a tree of questions (tree.kind: questions), "
                "and this one has none; leave it out."
            )
        self._threshold = threshold
        self._tree = tree
        articulation = Articulation()
        offsets, nodes, _ = tree.paths()
        self._paths = [nodes[a:b] for a, b in pairwise(offsets)]
        self._below: list[list[int]] = [[] for _ in range(tree.num_inner)]
        for token, unit in enumerate(tokenizer.units):
            if token >= tokenizer.num_special and articulation.nearest_relative(unit):
                for node in self._paths[token]:
                    self._below[node].append(token)
        self._describe = cache(
            lambda tokens: describe(
                articulation, [tokenizer.units[token] for token in sorted(tokens)]
            )
        )

    def __call__(self, ctc: CtcScores, b: int, found: Hypothesis) -> Hypothesis:
        """Add to a hypothesis of utterance b what may be said of its unsure phones."""
        if not found.tokens or not found.frames:
            return found
        told = [
            self._name(self._phone_masses(ctc, b, token, *span), token)
            for token, span in zip(found.tokens, found.frames, strict=True)
        ]
        return replace(found, unsure=tuple(told))

    def _phone_masses(
        self, ctc: CtcScores, b: int, token: int, begin: int, end: int
    ) -> NDArray[np.float64]:
        """Return P of each token, given that a phone is said, where `token` is surest, (V,)."""
        span = ctc.log_probs[b, begin:end]
        frame = span[int(span[:, ctc.columns[token]].argmax())]
        masses = np.zeros(self._tree.num_leaves)
        phones = (ctc.labels < self._tree.num_leaves) & (ctc.labels != EOS_ID)
        masses[ctc.labels[phones]] = np.exp(frame[phones], dtype=np.float64)
        shares: NDArray[np.float64] = masses / max(masses.sum(), np.finfo(np.float64).tiny)
        return shares

    def _name(self, masses: NDArray[np.float64], token: int) -> str | None:
        """Return nothing where the token itself has enough mass, else what has."""
        if masses[token] >= self._threshold:
            return None
        on_left, on_right = self._tree.sums_below(masses)
        path = self._paths[token]
        enough = np.flatnonzero(on_left[path] + on_right[path] >= self._threshold)
        # The deepest node on the way that has enough; rounding may leave the root a little short.
        below = np.array(self._below[path[enough[-1] if len(enough) else 0]])
        likeliest = below[np.argsort(-masses[below], kind="stable")]
        together = np.cumsum(masses[likeliest])
        number = int(np.searchsorted(together, self._threshold)) + 1
        return self._describe(frozenset(likeliest[:number].tolist()))
