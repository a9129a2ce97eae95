"""What a development set's utterances may be heard as, with every score that weights are put on."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from arborvox.decode.automaton import LanguageModel
from arborvox.decode.language_model import read_token
from arborvox.decode.network import Encoded, Network
from arborvox.decode.rescoring import decoder_log_probs
from arborvox.decode.searches import SearchKind
from arborvox.decode.settings import BeamSettings
from arborvox.kernels.compiling import kernel
from arborvox.tokens.tokenizer import EOS_ID
from arborvox.tuning.grid import Weights

Tokens = tuple[int, ...]

# What CTC says of a transcript that has more labels than the speech has frames: finite, so that a
# weight of 0 makes nothing of it.
IMPOSSIBLE = -1e9
# The searches that propose are weighted unlike each other, so that the best hypothesis by any
# weights of the grid is likely to be among theirs.
PROPOSING = (
    Weights(ctc_weight=0.1, lm_weight=0.0, length_bonus=0.0),
    Weights(ctc_weight=0.6, lm_weight=0.0, length_bonus=0.5),
    Weights(ctc_weight=0.1, lm_weight=0.5, length_bonus=1.0),
    Weights(ctc_weight=0.6, lm_weight=0.5, length_bonus=0.5),
    Weights(ctc_weight=0.3, lm_weight=1.2, length_bonus=2.0),
)


@dataclass(frozen=True)
class CandidateList:
    """An utterance's hypotheses, a row each; what a search does not use is 0."""

    transcripts: tuple[Tokens, ...]
    ctc: NDArray[np.float64]  # (N,) log P over all alignments
    attention: NDArray[np.float64]  # (N,) log P by the decoder, the end included
    lm: NDArray[np.float64]  # (N,) log P, the end included
    num_tokens: NDArray[np.int64]  # (N,)


def make_settings(
    search: SearchKind, weights: Weights, lm: LanguageModel | None, beam: int, num_best: int = 1
) -> BeamSettings:
    """Return how a search is to look with some weights."""
    return BeamSettings(
        beam,
        num_best=num_best,
        ctc_weight=weights.ctc_weight if search.weighs_ctc else 0.0,
        lm=lm,
        lm_weight=weights.lm_weight if lm is not None else 0.0,
        length_bonus=weights.length_bonus,
    )


def proposing_ways(search: SearchKind, with_lm: bool) -> list[Weights]:
    """Return the weights that a search proposes with, each once.

    A decoder alone hears no last frame: with a bonus above what a language model takes off each
    token, its search would add tokens until the longest transcript that is allowed.
    """
    ways = list[Weights]()
    for way in PROPOSING:
        ctc_weight = way.ctc_weight if search.weighs_ctc else 0.0
        lm_weight = way.lm_weight if with_lm else 0.0
        bonus = way.length_bonus if search.needs_ctc else min(way.length_bonus, lm_weight)
        ways.append(Weights(ctc_weight, lm_weight, bonus))
    return list(dict.fromkeys(ways))


@torch.inference_mode()
def propose(
    network: Network, encoded: Encoded, search: SearchKind, lm: LanguageModel | None, beam: int
) -> list[CandidateList]:
    """Search in several ways, and let CTC, decoder and language model score all that is found."""
    found: list[dict[Tokens, None]] = [{} for _ in range(len(encoded))]  # in the order of finding
    for way in proposing_ways(search, lm is not None):
        settings = make_settings(search, way, lm, beam, num_best=beam)
        for b, hypotheses in enumerate(search.run(network, encoded, settings)):
            found[b].update(dict.fromkeys(hypothesis.tokens for hypothesis in hypotheses))
    lists = [list(transcripts) for transcripts in found]
    attention = [np.zeros(len(transcripts)) for transcripts in lists]
    if search.needs_decoder:
        by_token = decoder_log_probs(network, encoded, lists)
        attention = [np.array([float(v.sum()) for v in values]) for values in by_token]
    ctc = [np.zeros(len(transcripts)) for transcripts in lists]
    if search.needs_ctc:
        ctc = [ctc_log_probs(network, encoded, b, found) for b, found in enumerate(lists)]
    return [
        CandidateList(
            tuple(transcripts),
            ctc[b],
            attention[b],
            lm_log_probs(lm, transcripts),
            np.array([len(tokens) for tokens in transcripts], np.int64),
        )
        for b, transcripts in enumerate(lists)
    ]


def ctc_log_probs(
    network: Network, encoded: Encoded, b: int, transcripts: Sequence[Tokens]
) -> NDArray[np.float64]:
    """Return what CTC says of an utterance's transcripts, over all their alignments."""
    scores, num_frames = network.ctc_scores(encoded), int(encoded.lens[b])
    frames = torch.from_numpy(scores.log_probs[b, :num_frames]).double()  # (T, C)
    N, num_labels = len(transcripts), frames.shape[1]
    lens = torch.tensor([len(tokens) for tokens in transcripts])
    targets = torch.zeros(N, max(int(lens.max()), 1), dtype=torch.long)
    for row, tokens in enumerate(transcripts):
        columns = scores.columns[np.array(tokens, np.int64)]
        targets[row, : len(tokens)] = torch.from_numpy(columns)
    losses = torch.nn.functional.ctc_loss(
        frames[:, None].expand(-1, N, -1), targets, torch.full((N,), num_frames), lens,
        blank=num_labels - 1, reduction="none",
    )  # fmt: skip
    log_probs: NDArray[np.float64] = -losses.numpy()
    return np.maximum(log_probs, IMPOSSIBLE)


def lm_log_probs(lm: LanguageModel | None, transcripts: Sequence[Tokens]) -> NDArray[np.float64]:
    """Return what a language model says of transcripts, their ends included."""
    out = np.zeros(len(transcripts))
    if lm is not None:
        tokens = [token for transcript in transcripts for token in (*transcript, EOS_ID)]
        read_transcripts(lm, np.array(tokens, np.int64), out)
    return out


@kernel
def read_transcripts(lm: Any, tokens: Any, out: Any) -> None:
    """Add up log P of the tokens of each transcript; each ends with <eos>."""
    row, state = 0, lm.first_state
    for token in tokens:
        score, state = read_token(lm, state, token)
        out[row] += score
        if token == EOS_ID:
            row, state = row + 1, lm.first_state
