"""Attention rescoring: CTC proposes, the decoder reads all proposals at once and decides."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from arborvox.decode.ctc import align_hypothesis, search_prefixes
from arborvox.decode.encoded import Encoded, SearchNetwork
from arborvox.decode.hypothesis import Hypothesis
from arborvox.decode.settings import BeamSettings
from arborvox.vocabulary import EOS_ID


def attention_rescoring(
    network: SearchNetwork, encoded: Encoded, settings: BeamSettings
) -> list[list[Hypothesis]]:
    """Rank the n-best list of CTC by (1 - w) log P by the decoder + w times CTC's own score."""
    scores, ctc_weight = network.ctc_scores(encoded), settings.ctc_weight
    lens = encoded.lens.tolist()
    proposed = search_prefixes(scores, lens, settings)
    transcripts = [[tokens for tokens, _, _ in prefixes] for prefixes in proposed]
    values = decoder_log_probs(network, encoded, transcripts)
    results = []
    for b, prefixes in enumerate(proposed):
        found = []
        for (tokens, score, ctc_score), by_token in zip(prefixes, values[b], strict=True):
            extra = score - ctc_score  # language model and length bonus
            total = (1.0 - ctc_weight) * float(by_token.sum()) + ctc_weight * ctc_score + extra
            confidences = tuple(np.exp(by_token[:-1]).tolist())  # without <eos>
            found.append(Hypothesis(tokens, total, confidences))
        found.sort(key=lambda hypothesis: -hypothesis.score)
        results.append(
            [align_hypothesis(scores, b, lens[b], best) for best in found[: settings.num_best]]
        )
    return results


def decoder_log_probs(
    network: SearchNetwork, encoded: Encoded, transcripts: Sequence[list[tuple[int, ...]]]
) -> list[list[NDArray[np.float32]]]:
    """Return log P by the decoder of each token of each utterance's transcripts, <eos> last."""
    trees = [_PrefixTree.of(proposed) for proposed in transcripts]
    values = _read_trees(network, encoded, trees)
    return [[values[b][rows] for rows in tree.rows] for b, tree in enumerate(trees)]


@dataclass(frozen=True)
class _PrefixTree:
    """Transcripts folded together where they begin alike; node 0 has read nothing but <eos>."""

    tokens: NDArray[np.int64]  # (Q,) what each node has read last
    depths: NDArray[np.int64]  # (Q,)
    past: NDArray[np.bool_]  # (Q, Q) ancestors, the node itself included
    states: NDArray[np.int64]  # (P,) nodes whose states predict something,
    targets: NDArray[np.int64]  # (P,) and the token that is asked for there
    rows: list[NDArray[np.int64]]  # by transcript: which of the P are its own, <eos> last

    @classmethod
    def of(cls, transcripts: list[tuple[int, ...]]) -> "_PrefixTree":
        """Fold transcripts together."""
        tokens, parents, depths = [EOS_ID], [-1], [0]
        children: dict[tuple[int, int], int] = {}
        predictions: dict[tuple[int, int], int] = {}
        rows = []
        for transcript in transcripts:
            node, own = 0, []
            for token in (*transcript, EOS_ID):
                own.append(predictions.setdefault((node, token), len(predictions)))
                if token == EOS_ID:
                    break
                child = children.setdefault((node, token), len(tokens))
                if child == len(tokens):
                    tokens.append(token)
                    parents.append(node)
                    depths.append(depths[node] + 1)
                node = child
            rows.append(np.array(own, np.int64))
        past = np.eye(len(tokens), dtype=np.bool_)
        for node in range(1, len(tokens)):
            past[node] |= past[parents[node]]
        pairs = np.array(list(predictions), np.int64).reshape(-1, 2)
        return cls(np.array(tokens), np.array(depths), past, pairs[:, 0], pairs[:, 1], rows)


def _read_trees(
    network: SearchNetwork, encoded: Encoded, trees: list[_PrefixTree]
) -> list[NDArray[np.float32]]:
    """Return the log-probability of each prediction of each tree."""
    B, Q = len(trees), max(len(tree.tokens) for tree in trees)
    tokens, depths = np.full((B, Q), EOS_ID), np.zeros((B, Q), np.int64)
    past = np.zeros((B, Q, Q), np.bool_)
    past[:] = np.eye(Q, dtype=np.bool_)  # padding sees itself: nothing at all would give NaN
    for b, tree in enumerate(trees):
        size = len(tree.tokens)
        tokens[b, :size], depths[b, :size], past[b, :size, :size] = (
            tree.tokens,
            tree.depths,
            tree.past,
        )
    states = network.read_tree(encoded, tokens, depths, past)
    where = np.concatenate([b * Q + tree.states for b, tree in enumerate(trees)])
    targets = np.concatenate([tree.targets for tree in trees])
    values = network.token_log_probs(states, where, targets)
    bounds = np.cumsum([len(tree.targets) for tree in trees])[:-1]
    return np.split(values, bounds)
