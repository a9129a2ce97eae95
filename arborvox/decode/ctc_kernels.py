"""The compiled loops of CTC: prefix beam search, prefix scores, and alignment; one utterance each.

Log-probabilities are (T, C): a column for each label that may be written, <eos> first and the blank
last. Sums are kept in float64.
"""

import math
from typing import Any

import numpy as np

from arborvox.decode.automaton import read_token
from arborvox.kernels.compiling import kernel
from arborvox.vocabulary import EOS_ID

NEVER = -np.inf
ROOT = 0


@kernel
def log_add(a: float, b: float) -> float:
    """Return log(exp(a) + exp(b))."""
    high, low = max(a, b), min(a, b)
    # Also right for -inf, where the difference would be NaN.
    return high if low == NEVER else high + math.log1p(math.exp(low - high))


@kernel
def rank(scores: Any, places: Any, count: int, most: int, score: float, place: int) -> int:
    """Insert into a list of the `most` best, earlier ones first at ties; returns its length."""
    if count == most:
        if most == 0 or score <= scores[most - 1]:
            return count
        count -= 1
    i = count
    while i > 0 and scores[i - 1] < score:
        scores[i], places[i] = scores[i - 1], places[i - 1]
        i -= 1
    scores[i], places[i] = score, place
    return count + 1


@kernel
def find_child(first_child: Any, sibling: Any, token: Any, node: int, wanted: int) -> Any:
    """Return the child of a node by a token, or -1."""
    child = first_child[node]
    while child >= 0 and token[child] != wanted:
        child = sibling[child]
    return child


@kernel
def prefix_beam(
    log_probs: Any,
    candidates: Any,
    labels: Any,
    num_beams: int,
    lm: Any,
    lm_weight: float,
    length_bonus: float,
    out_tokens: Any,
    out_lens: Any,
    out_scores: Any,
    out_ctc: Any,
) -> int:
    """Find the best prefixes, summed over all their alignments; returns how many there are.

    candidates (T, C) are the columns that may begin a new prefix in each frame, labels their
    tokens. Prefixes are nodes of a trie that outlives the beam, so that one that comes back is the
    same one.
    """
    T, blank = log_probs.shape[0], log_probs.shape[1] - 1
    C, K = candidates.shape[1], num_beams
    room = T * K + 1
    parent, token = np.full(room, -1, np.int32), np.full(room, -1, np.int32)
    first_child, sibling = np.full(room, -1, np.int32), np.full(room, -1, np.int32)
    depth, lm_state = np.zeros(room, np.int32), np.zeros(room, np.int32)
    extra = np.zeros(room)  # language model and length bonus
    place_in_beam = np.full(room, -1, np.int32)
    lm_state[ROOT], num_nodes = lm.first_state, 1

    nodes, new_nodes = np.zeros(K, np.int32), np.zeros(K, np.int32)
    after_blank, after_label = np.full(K, NEVER), np.full(K, NEVER)
    total = np.full(K, NEVER)
    new_blank, new_label = np.empty(K), np.empty(K)
    best, places = np.empty(K), np.empty(K, np.int64)
    stay_blank, stay_label = np.empty(K), np.empty(K)
    grown, grown_extra, grown_state = np.empty(K * C), np.empty(K * C), np.empty(K * C, np.int32)
    width = 1
    after_blank[0] = total[0] = 0.0

    for t in range(T):
        for k in range(width):
            place_in_beam[nodes[k]] = k
        count = 0
        for k in range(width):
            node = nodes[k]
            stay_blank[k] = total[k] + log_probs[t, blank]
            stay_label[k] = NEVER
            if node != ROOT:
                p = log_probs[t, token[node]]
                stay_label[k] = after_label[k] + p
                before = place_in_beam[parent[node]]
                if before >= 0:  # the prefix without its last label is in the beam too
                    repeats = token[parent[node]] == token[node]
                    reached = (after_blank[before] if repeats else total[before]) + p
                    stay_label[k] = log_add(stay_label[k], reached)
            score = log_add(stay_blank[k], stay_label[k]) + extra[node]
            count = rank(best, places, count, K, score, k)
        for k in range(width):
            node = nodes[k]
            for c in range(C):
                label = candidates[t, c]
                p = log_probs[t, label]
                if label in (blank, EOS_ID) or p == NEVER:
                    continue
                i = k * C + c
                grown[i] = (after_blank[k] if label == token[node] else total[k]) + p
                # The language model only lowers a score, unless a bonus goes with it.
                hopeless = count == K and grown[i] + extra[node] + length_bonus <= best[K - 1]
                if hopeless or grown[i] == NEVER:
                    continue
                child = find_child(first_child, sibling, token, node, label)
                if child >= 0 and place_in_beam[child] >= 0:
                    continue
                lm_score, grown_state[i] = read_token(lm, lm_state[node], labels[label])
                grown_extra[i] = extra[node] + lm_weight * lm_score + length_bonus
                count = rank(best, places, count, K, grown[i] + grown_extra[i], K + i)
        for k in range(width):
            place_in_beam[nodes[k]] = -1
        for slot in range(count):
            place = places[slot]
            if place < K:
                new_nodes[slot] = nodes[place]
                new_blank[slot], new_label[slot] = stay_blank[place], stay_label[place]
                continue
            i = place - K
            above, label = nodes[i // C], candidates[t, i % C]
            child = find_child(first_child, sibling, token, above, label)
            if child < 0:
                child = num_nodes
                num_nodes += 1
                parent[child], token[child], depth[child] = above, label, depth[above] + 1
                sibling[child], first_child[above] = first_child[above], child
                extra[child], lm_state[child] = grown_extra[i], grown_state[i]
            new_nodes[slot], new_blank[slot], new_label[slot] = child, NEVER, grown[i]
        width = count
        for slot in range(width):
            nodes[slot] = new_nodes[slot]
            after_blank[slot], after_label[slot] = new_blank[slot], new_label[slot]
            total[slot] = log_add(new_blank[slot], new_label[slot])

    count = 0
    for k in range(width):
        lm_score, _ = read_token(lm, lm_state[nodes[k]], EOS_ID)
        score = total[k] + extra[nodes[k]] + lm_weight * lm_score
        count = rank(best, places, count, K, score, k)
    for slot in range(count):
        node = nodes[places[slot]]
        out_scores[slot], out_ctc[slot] = best[slot], total[places[slot]]
        out_lens[slot] = depth[node]
        while node != ROOT:
            out_tokens[slot, depth[node] - 1] = labels[token[node]]
            node = parent[node]
    return count


@kernel
def start_prefixes(blank_probs: Any, T: int, ends: Any) -> None:
    """Fill ends (2, T) of the empty prefix: log P of frames 0..t, a label last or a blank."""
    total = 0.0
    for t in range(T):
        total += math.log(blank_probs[t])
        ends[0, t], ends[1, t] = NEVER, total


@kernel
def score_extensions(
    probs: Any,
    T: int,
    ends: Any,
    last: int,
    is_empty: bool,
    ids: Any,
    into_all: Any,
    into_blank: Any,
    out: Any,
) -> None:
    """Fill out (C,) with log P of all transcripts that begin with the prefix and then ids[c].

    For <eos> it is log P of the prefix itself as a whole transcript. probs (columns, T) are
    probabilities, so that each score is one inner product with the ways into frame t.
    """
    highest = 0.0 if is_empty else NEVER
    for t in range(T - 1):
        into_all[t + 1] = log_add(ends[0, t], ends[1, t])
        into_blank[t + 1] = ends[1, t]
        highest = max(highest, into_all[t + 1])
    into_all[0] = into_blank[0] = 0.0 if is_empty else NEVER
    whole = log_add(ends[0, T - 1], ends[1, T - 1])
    if highest > NEVER:
        for t in range(T):
            into_all[t] = math.exp(into_all[t] - highest)
            into_blank[t] = math.exp(into_blank[t] - highest)
    for c in range(len(ids)):
        label = ids[c]
        if label == EOS_ID:
            out[c] = whole
            continue
        total = 0.0
        if highest > NEVER:
            ways = into_blank if label == last else into_all
            for t in range(T):
                total += ways[t] * probs[label, t]
        out[c] = math.log(total) + highest if total > 0.0 else NEVER


@kernel
def extend_prefix(
    probs: Any, T: int, ends: Any, last: int, is_empty: bool, label: int, out: Any
) -> None:
    """Fill out (2, T) with the ends of the prefix extended by a label."""
    blank = probs.shape[0] - 1
    out[0, 0] = math.log(probs[label, 0]) if is_empty else NEVER
    out[1, 0] = NEVER
    for t in range(1, T):
        into = ends[1, t - 1] if label == last else log_add(ends[0, t - 1], ends[1, t - 1])
        out[0, t] = log_add(out[0, t - 1], into) + math.log(probs[label, t])
        out[1, t] = log_add(out[1, t - 1], out[0, t - 1]) + math.log(probs[blank, t])


@kernel
def align(log_probs: Any, tokens: Any, frames: Any, means: Any) -> bool:
    """Find the best alignment: frames (U, 2) first and past the last, and mean log P (U,) there.

    Returns whether there is any.
    """
    T, blank, U = log_probs.shape[0], log_probs.shape[1] - 1, len(tokens)
    S = 2 * U + 1  # blank, token, blank, token, ..., blank
    score, new_score = np.full(S, NEVER), np.full(S, NEVER)
    came_from = np.zeros((T, S), np.int8)  # how many states back
    score[0] = log_probs[0, blank]
    if S > 1:
        score[1] = log_probs[0, tokens[0]]
    for t in range(1, T):
        for s in range(S):
            label = tokens[s // 2] if s % 2 else blank
            best, steps = score[s], 0
            if s > 0 and score[s - 1] > best:
                best, steps = score[s - 1], 1
            if s % 2 and s > 2 and tokens[s // 2 - 1] != label and score[s - 2] > best:
                best, steps = score[s - 2], 2
            new_score[s] = best + log_probs[t, label]
            came_from[t, s] = steps
        score, new_score = new_score, score
    state = S - 1
    if S > 1 and score[S - 2] > score[S - 1]:
        state = S - 2
    if score[state] == NEVER:
        return False
    means[:] = 0.0
    frames[:, 1] = 0
    for t in range(T - 1, -1, -1):
        if state % 2:
            u = state // 2
            if frames[u, 1] == 0:
                frames[u, 1] = t + 1
            frames[u, 0] = t
            means[u] += log_probs[t, tokens[u]]
        state -= came_from[t, state]
    for u in range(U):
        means[u] /= frames[u, 1] - frames[u, 0]
    return True
