"""BPE-dropout: words fall into other pieces each time, so that a model learns what pieces spell.

Provilkov and others, "BPE-Dropout: Simple and Effective Subword Regularization", ACL 2020: at each
step a possible merge is left out with some probability. By hand, because sentencepiece draws from
a generator of its own that cannot be set for an utterance, and a resumed run would see others.
"""

import itertools
from collections.abc import Iterator, Sequence

import numpy as np

from arborvox.errors import ArborvoxError
from arborvox.tokens.segmentation import Pieces
from arborvox.tokens.tokenizer import Tokenizer
from arborvox.vocabulary import PIECE_SPACE


class PieceDropout:
    """Cuts the words of encoded texts anew; what is no piece of letters stays as it is."""

    def __init__(self, tokenizer: Tokenizer, rate: float) -> None:
        """Take the merges of a BPE vocabulary, each of which is left out at a rate."""
        if tokenizer.model is None:
            raise ArborvoxError(
                f"Piece dropout needs tokens of unit bpe; these are of unit {tokenizer.unit}."
            )
        ids = {unit: token for token, unit in enumerate(tokenizer.units)}
        scores = Pieces(tokenizer.model).scores
        self._rate = rate
        self._ids = {piece: ids[piece] for piece in scores if piece in ids}
        self._scores = {piece: scores[piece] for piece in self._ids}
        self._pieces = {
            token: piece
            for piece, token in self._ids.items()
            if all(letter in self._ids for letter in piece)
        }

    def __call__(self, tokens: Sequence[int], seed: int) -> tuple[int, ...]:
        """Return other tokens for the same text; the same ones for the same seed."""
        chance = np.random.default_rng(seed)
        drawn: list[int] = []
        for word in self._words(tokens):
            if word[0] in self._pieces:
                letters = list("".join(self._pieces[token] for token in word))
                drawn += [self._ids[piece] for piece in self._merge(letters, chance)]
            else:
                drawn += word
        return tuple(drawn)

    def _words(self, tokens: Sequence[int]) -> Iterator[list[int]]:
        """Yield stretches that no merge reaches beyond."""
        word: list[int] = []
        for token in tokens:
            piece = self._pieces.get(token)
            inside = piece is not None and not piece.startswith(PIECE_SPACE)
            if word and not (inside and word[0] in self._pieces):
                yield word
                word = []
            word.append(token)
        if word:
            yield word

    def _merge(self, pieces: list[str], chance: np.random.Generator) -> list[str]:
        """Join neighbors, the most frequent pair first, until every merge left is dropped."""
        while len(pieces) > 1:
            draws = chance.random(len(pieces) - 1)
            possible = [
                (-self._scores[joined], place)
                for place, joined in enumerate(map("".join, itertools.pairwise(pieces)))
                if joined in self._scores and draws[place] >= self._rate
            ]
            if not possible:
                break
            _, place = min(possible)
            pieces = [*pieces[:place], pieces[place] + pieces[place + 1], *pieces[place + 2 :]]
        return pieces
