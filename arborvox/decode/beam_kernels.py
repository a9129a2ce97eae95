"""One step of a beam search over tokens, compiled: which continuations live, which are finished."""

from typing import Any

import numpy as np

from arborvox.decode.automaton import read_token
from arborvox.decode.ctc_kernels import (
    NEVER,
    extend_prefix,
    rank,
    score_extensions,
)
from arborvox.kernels.compiling import kernel
from arborvox.vocabulary import EOS_ID


@kernel
def score_by_ctc(
    probs: Any, lens: Any, ends: Any, tokens: Any, step: int, live: Any, active: Any, ids: Any,
    first: int, last: int, out: Any,
) -> None:  # fmt: skip
    """Fill out (A, K, C) with the CTC prefix scores of candidates ids (A, K, C), named by column.

    probs (B, columns, T), ends (B, K, 2, T) and the newest tokens (B, K) are of all utterances,
    rows first..last of `active` say which are meant.
    """
    into_all, into_blank = np.empty(probs.shape[2]), np.empty(probs.shape[2])
    for row in range(first, last):
        b = active[row]
        for k in range(live[b]):
            score_extensions(
                probs[b], lens[b], ends[b, k], tokens[b, k], step == 0, ids[row, k],
                into_all, into_blank, out[row, k],
            )  # fmt: skip


@kernel
def extend_ends(
    probs: Any, lens: Any, ends: Any, old_tokens: Any, step: int, live: Any, active: Any,
    parents: Any, tokens: Any, first: int, last: int, out: Any,
) -> None:  # fmt: skip
    """Fill out (B, K, 2, T) with the CTC ends of the beams that were chosen."""
    for row in range(first, last):
        b = active[row]
        for k in range(live[b]):
            parent = parents[row, k]
            extend_prefix(
                probs[b], lens[b], ends[b, parent], old_tokens[b, parent], step == 0,
                tokens[row, k], out[b, k],
            )  # fmt: skip


@kernel
def choose_continuations(
    step: int,
    min_tokens: int,
    end_ratio: float,
    attention_weight: float,
    ctc_weight: float,
    lm_weight: float,
    length_bonus: float,
    lm: Any,
    active: Any,
    values: Any,
    ids: Any,
    ctc_scores: Any,
    limits: Any,
    live: Any,
    totals: Any,
    lm_states: Any,
    num_finished: Any,
    finished_scores: Any,
    finished_nodes: Any,
    history: Any,
    history_values: Any,
    out_tokens: Any,
    out_parents: Any,
    best_live: Any,
) -> None:
    """Keep the K best of finished hypotheses and continuations, for each active utterance.

    totals (B, K) are weighted scores without CTC, whose part is not a sum over tokens. A node
    (step, place) names a token in history (steps, 2, B, K), which holds tokens and parents.
    """
    K = totals.shape[1]
    C = ids.shape[2]
    scores, places = np.empty(K), np.empty(K, np.int64)
    old_totals, old_states = np.empty(K), np.empty(K, np.int32)
    old_finished, old_nodes = np.empty(K), np.empty((K, 2), np.int64)
    added, states = np.empty(K * C), np.empty(K * C, np.int32)
    for row in range(len(active)):
        b = active[row]
        count = 0
        for n in range(num_finished[b]):
            old_finished[n], old_nodes[n] = finished_scores[b, n], finished_nodes[b, n]
            count = rank(scores, places, count, K, old_finished[n], n - K)
        for k in range(live[b]):
            old_totals[k], old_states[k] = totals[b, k], lm_states[b, k]
            for c in range(C):
                token = ids[row, k, c]
                if values[row, k, c] == NEVER:
                    continue
                # Values fall, so the first one is the best.
                too_soon = step < min_tokens or values[row, k, c] < end_ratio * values[row, k, 0]
                if token == EOS_ID and too_soon:
                    continue
                i = k * C + c
                lm_score, states[i] = read_token(lm, old_states[k], token)
                added[i] = attention_weight * values[row, k, c] + lm_weight * lm_score
                if token != EOS_ID:
                    added[i] += length_bonus
                score = old_totals[k] + added[i]
                if ctc_weight > 0.0:
                    score += ctc_weight * ctc_scores[row, k, c]
                if score > NEVER:
                    count = rank(scores, places, count, K, score, i)
        num_live, num_ended = 0, 0
        best_live[b] = NEVER
        for slot in range(count):
            place = places[slot]
            if place < 0:
                finished_scores[b, num_ended] = scores[slot]
                finished_nodes[b, num_ended] = old_nodes[place + K]
                num_ended += 1
                continue
            parent, c = place // C, place % C
            token = ids[row, parent, c]
            if token == EOS_ID:
                finished_scores[b, num_ended] = scores[slot]
                finished_nodes[b, num_ended, 0] = step - 1
                finished_nodes[b, num_ended, 1] = parent
                num_ended += 1
                continue
            if num_live == 0:
                best_live[b] = scores[slot]
            history[step, 0, b, num_live], history[step, 1, b, num_live] = token, parent
            history_values[step, b, num_live] = values[row, parent, c]
            totals[b, num_live] = old_totals[parent] + added[place]
            lm_states[b, num_live] = states[place]
            out_tokens[row, num_live], out_parents[row, num_live] = token, parent
            if step + 1 == limits[b]:  # cut off: finished as it is
                finished_scores[b, K - 1 - num_live] = scores[slot]
                finished_nodes[b, K - 1 - num_live, 0] = step
                finished_nodes[b, K - 1 - num_live, 1] = num_live
            num_live += 1
        if step + 1 == limits[b]:
            for n in range(num_live):
                finished_scores[b, num_ended + n] = finished_scores[b, K - num_live + n]
                finished_nodes[b, num_ended + n] = finished_nodes[b, K - num_live + n]
            num_ended, num_live = num_ended + num_live, 0
        num_finished[b], live[b] = num_ended, num_live
