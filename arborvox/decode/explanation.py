"""Why a unit was written: its path through the tree, turn by turn, and what came close."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from arborvox.decode.engine import Engine
from arborvox.decode.hypothesis import Hypothesis
from arborvox.decode.network import Encoded, Network
from arborvox.tokens.tokenizer import EOS_ID
from arborvox.tree import CodeTree

NUM_RIVALS = 4


@dataclass(frozen=True)
class Choice:
    """How one token was chosen, at the moment that it was surest of."""

    token: int
    probability: float
    rivals: tuple[tuple[int, float], ...]  # other tokens and their probabilities, best first
    # From the root: the gate, whether the path turns left there, and how probable that turn was.
    # With an inventory on condition that the unit is one of it. () where there is no tree.
    turns: tuple[tuple[int, bool, float], ...]


def explained_tree(engine: Engine) -> CodeTree | None:
    """Return the tree whose gates `explain` tells of, or None for a softmax."""
    return engine.network.decoder_tree if _asks_decoder(engine) else engine.network.ctc_tree


@torch.inference_mode()
def explain(
    engine: Engine, features: Sequence[Tensor], found: Sequence[Hypothesis]
) -> list[list[Choice]]:
    """Say of each token of each utterance how it was chosen; all are one batch."""
    lens = torch.tensor([len(values) for values in features])
    encoded = engine.network.encode(pad_sequence(list(features), batch_first=True), lens)
    tree = explained_tree(engine)
    look = _decoder_rows if _asks_decoder(engine) else _ctc_rows
    return [
        _choices(*look(engine.network, encoded, b, best), tree, best) if best.tokens else []
        for b, best in enumerate(found)
    ]


def _asks_decoder(engine: Engine) -> bool:
    return engine.search.needs_decoder


def _ctc_rows(
    network: Network, encoded: Encoded, b: int, found: Hypothesis
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return log P at the frame where each token is surest, (U, C), and the token of each column.

    A hypothesis without frames cannot have been said in so short a time; it is not explained.
    """
    scores = network.ctc_scores(encoded)
    frames = [
        begin + int(scores.log_probs[b, begin:end, scores.columns[token]].argmax())
        for token, (begin, end) in zip(found.tokens, found.frames, strict=False)
    ]
    return scores.log_probs[b, frames].astype(np.float64), scores.labels


def _decoder_rows(
    network: Network, encoded: Encoded, b: int, found: Hypothesis
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return log P by the decoder where each token was to be written, (U, C)."""
    U = len(found.tokens)
    tokens = np.array([[EOS_ID, *found.tokens[:-1]]])
    past = np.tril(np.ones((1, U, U), np.bool_))
    own = Encoded(encoded.states[b : b + 1], encoded.lens[b : b + 1])
    states = network.read_tree(own, tokens, np.arange(U)[None], past)  # (1, U, D)
    rows = network.decoder_log_probs(states.flatten(0, 1))
    return rows.astype(np.float64), network.decoder_choices


def _choices(
    rows: NDArray[np.float64],
    labels: NDArray[np.int64],
    tree: CodeTree | None,
    found: Hypothesis,
) -> list[Choice]:
    probs = np.exp(rows)  # (U, C)
    column = {token: place for place, token in enumerate(labels.tolist())}
    if tree is not None:
        leaves = np.zeros((tree.num_leaves, len(rows)))
        leaves[labels] = probs.T
        left, right = tree.sums_below(leaves)  # (V - 1, U) each
        paths = tree.paths()
    choices = []
    for place, (token, row) in enumerate(zip(found.tokens, probs, strict=False)):
        order = np.argsort(-row, kind="stable")[: NUM_RIVALS + 1]
        rivals = [(int(labels[n]), float(row[n])) for n in order if labels[n] != token]
        turns = []
        if tree is not None:
            for step in range(paths.offsets[token], paths.offsets[token + 1]):
                node, goes_left = int(paths.nodes[step]), bool(paths.signs[step] > 0)
                both = left[node, place] + right[node, place]
                taken = left[node, place] if goes_left else right[node, place]
                turns.append((node, goes_left, float(taken / both) if both > 0 else 0.0))
        choices.append(
            Choice(token, float(row[column[token]]), tuple(rivals[:NUM_RIVALS]), tuple(turns))
        )
    return choices
