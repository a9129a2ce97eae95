"""Searches that need the CTC branch alone, and the alignment that tells when a token was said."""

import math
from collections.abc import Collection, Sequence

import numpy as np
from numpy.typing import NDArray

from arborvox.decode import ctc_kernels
from arborvox.decode.automaton import LanguageModel
from arborvox.decode.encoded import CtcScores, Encoded, SearchNetwork
from arborvox.decode.hypothesis import Hypothesis
from arborvox.decode.settings import BeamSettings
from arborvox.kernels.threads import run_split
from arborvox.vocabulary import EOS_ID


def ctc_greedy(
    network: SearchNetwork, encoded: Encoded, settings: BeamSettings
) -> list[list[Hypothesis]]:
    """Take the best label of each frame, merge repeats, drop blanks; one hypothesis each."""
    values, labels = network.ctc_best(encoded)
    return [
        [_collapse(values[b, :T], labels[b, :T], network.blank)]
        for b, T in enumerate(encoded.lens.tolist())
    ]


def ctc_beam(
    network: SearchNetwork, encoded: Encoded, settings: BeamSettings
) -> list[list[Hypothesis]]:
    """Find the transcripts that are best over all their alignments, best first."""
    scores = network.ctc_scores(encoded)
    found = search_prefixes(scores, encoded.lens.tolist(), settings)
    return [
        [
            align_hypothesis(scores, b, T, Hypothesis(tokens, score, ()))
            for tokens, score, _ in prefixes[: settings.num_best]
        ]
        for b, (prefixes, T) in enumerate(zip(found, encoded.lens.tolist(), strict=True))
    ]


def search_prefixes(
    ctc: CtcScores, lens: Sequence[int], settings: BeamSettings
) -> list[list[tuple[tuple[int, ...], float, float]]]:
    """Return tokens, score and log P by CTC of the `beam` best prefixes of each utterance."""
    log_probs, beam = ctc.log_probs, settings.beam
    B, T, num_labels = log_probs.shape
    # Of a prefix's best labels up to `beam` may lead to prefixes that the beam has already; one is
    # the blank, one <eos>, and one repeats the last label.
    C = min(num_labels, 2 * beam + 3)
    candidates = best_columns(log_probs, C)
    automaton = LanguageModel.none() if settings.lm is None else settings.lm
    tokens, token_lens = np.empty((B, beam, T), np.int32), np.empty((B, beam), np.int32)
    scores, ctc_scores = np.empty((B, beam)), np.empty((B, beam))
    found = np.empty(B, np.int64)

    def work(first: int, last: int) -> None:
        for b in range(first, last):
            frames = slice(lens[b])
            found[b] = ctc_kernels.prefix_beam(
                log_probs[b, frames], candidates[b, frames], ctc.labels, beam, automaton,
                settings.lm_weight, settings.length_bonus, tokens[b], token_lens[b], scores[b],
                ctc_scores[b],
            )  # fmt: skip

    run_split(work, B, 1)
    return [
        [
            (
                tuple(tokens[b, n, : token_lens[b, n]].tolist()),
                float(scores[b, n]),
                float(ctc_scores[b, n]),
            )
            for n in range(found[b])
        ]
        for b in range(B)
    ]


def best_columns(scores: NDArray[np.float32], count: int) -> NDArray[np.int64]:
    """Return the `count` best columns of each row, best first, (…, C) -> (…, count)."""
    most = scores.shape[-1] - count
    best = np.argpartition(scores, most, axis=-1)[..., most:] if most else None
    values = scores if best is None else np.take_along_axis(scores, best, axis=-1)
    order = np.argsort(-values, axis=-1)
    return order if best is None else np.take_along_axis(best, order, axis=-1)


def align_hypothesis(ctc: CtcScores, b: int, num_frames: int, found: Hypothesis) -> Hypothesis:
    """Add when each token of utterance b was said, and its confidence if it has none yet."""
    U = len(found.tokens)
    frames, means = np.empty((U, 2), np.int64), np.empty(U)
    columns = ctc.columns[np.array(found.tokens, np.int64)]
    possible = ctc_kernels.align(ctc.log_probs[b, :num_frames], columns, frames, means)
    confidences = found.confidences
    if U and not confidences:
        confidences = tuple(np.exp(means).tolist()) if possible else (0.0,) * U
    spans = tuple((begin, end) for begin, end in frames.tolist()) if possible else ()
    return Hypothesis(found.tokens, found.score, confidences, spans)


def align_all(
    network: SearchNetwork, encoded: Encoded, found: list[list[Hypothesis]]
) -> list[list[Hypothesis]]:
    """Ask CTC when tokens were said, if there is CTC to ask and the search has not done so."""
    every = (best for hypotheses in found for best in hypotheses)
    if not network.has_ctc or all(best.frames or not best.tokens for best in every):
        return found
    scores, lens = network.ctc_scores(encoded), encoded.lens.tolist()
    return [
        [best if best.frames else align_hypothesis(scores, b, lens[b], best) for best in hypotheses]
        for b, hypotheses in enumerate(found)
    ]


def _collapse(values: NDArray[np.float32], labels: NDArray[np.int64], blank: int) -> Hypothesis:
    """Turn the best label of each frame, (T',), into tokens."""
    spans = merge_repeats(labels, dropped=(blank, EOS_ID))
    return Hypothesis(
        tokens=tuple(token for token, _, _ in spans),
        score=float(values.sum(dtype=np.float64)),
        confidences=tuple(math.exp(float(values[begin:end].mean())) for _, begin, end in spans),
        frames=tuple((begin, end) for _, begin, end in spans),
    )


def merge_repeats(
    labels: NDArray[np.int64], dropped: Collection[int]
) -> list[tuple[int, int, int]]:
    """Turn the label of each frame, (T,), into labels with first and last-plus-one frame."""
    starts = np.flatnonzero(np.diff(labels, prepend=-1))
    ends = np.append(starts[1:], len(labels))
    return [
        (int(labels[begin]), int(begin), int(end))
        for begin, end in zip(starts, ends, strict=True)
        if labels[begin] not in dropped
    ]
