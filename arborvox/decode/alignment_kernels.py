"""The compiled loops of aligning a long text: a path through words that may be skipped.

Words stand one after the other; before each and after the last is a gap. A word has two states for
each token but the last, the token and a blank after it, and the last token alone; with its gap a
word of n tokens has 2 n states. In a gap time passes with a blank or a space, or with speech that
is not in the text, at a price; a word may be passed over, at a price for each of its tokens.

log_probs are (T, C), as in `ctc_kernels`, with the columns' blank last.
"""

from typing import Any

import numpy as np

from arborvox.kernels.compiling import kernel

NEVER = -np.inf


@kernel
def enter_words(
    scores: Any,
    firsts: Any,
    prices: Any,
    low_word: int,
    high_word: int,
    least: float,
    entries: Any,
    sources: Any,
) -> int:
    """Fill the best way to before each word from low_word on; returns past the last one reached.

    entries[w] is its score and sources[w] the state that it comes from. Up to high_word all are
    filled, and those after it as long as passing words over is not hopeless.
    """
    num_words = len(firsts) - 1
    best, source = NEVER, -1
    word = low_word
    while word <= num_words:
        if word > low_word:
            best -= prices[word - 1]
        if word <= high_word:
            gap = firsts[word]
            if scores[gap] > best:
                best, source = scores[gap], gap
            if word > low_word:
                last = gap - 1  # the last token of the word before
                if scores[last] > best:
                    best, source = scores[last], last
        if word > high_word and best < least:
            break
        entries[word], sources[word] = best, source
        word += 1
    return word


@kernel
def advance(
    log_probs: Any,
    gap_probs: Any,
    firsts: Any,
    word_of: Any,
    columns: Any,
    prices: Any,
    beam: float,
    scores: Any,
    new_scores: Any,
    entries: Any,
    sources: Any,
    span: Any,
    back: Any,
    lows: Any,
) -> None:
    """Follow the best paths through some frames.

    scores (S,) and span (2,), first and past the last state that is alive, are changed in place;
    back (T, width) is filled with the state before each one, from lows (T,) on.
    """
    T, width = back.shape
    S = len(word_of)
    blank = log_probs.shape[1] - 1
    for t in range(T):
        low, high = span[0], span[1]
        best = NEVER
        for s in range(low, high):
            best = max(best, scores[s])
        low_word, high_word = word_of[low], word_of[high - 1]
        past = enter_words(
            scores, firsts, prices, low_word, high_word, best - beam, entries, sources
        )
        reached = past - 1  # the last word (or the gap at the end) that may be entered
        new_high = firsts[reached] + 1
        if reached < len(firsts) - 1:
            new_high += 1  # its first token, too
        new_high = min(max(new_high, min(high + 2, S)), low + width)
        lows[t] = low
        best, best_state = NEVER, low
        for s in range(low, new_high):
            word = word_of[s]
            place = s - firsts[word]
            stay = scores[s] if s < high else NEVER
            came, source = stay, s
            if place <= 1:  # the gap, and the first token
                entry, origin = NEVER, s
                if word < past:
                    entry, origin = entries[word], sources[word]
                # The same token twice needs a blank between, which is the gap.
                if place == 1 and origin == s - 2 and columns[s - 2] == columns[s]:
                    entry, origin = (scores[s - 1] if s - 1 < high else NEVER), s - 1
                if entry > came:
                    came, source = entry, origin
                p = gap_probs[t] if place == 0 else log_probs[t, columns[s]]
            elif place % 2 == 0:  # the blank after a token
                before = scores[s - 1] if s - 1 < high else NEVER
                if before > came:
                    came, source = before, s - 1
                p = log_probs[t, blank]
            else:
                before = scores[s - 1] if s - 1 < high else NEVER
                if before > came:
                    came, source = before, s - 1
                token = scores[s - 2] if s - 2 < high else NEVER
                if columns[s - 2] != columns[s] and token > came:
                    came, source = token, s - 2
                p = log_probs[t, columns[s]]
            new_scores[s] = came + p
            back[t, s - low] = source
            if new_scores[s] > best:
                best, best_state = new_scores[s], s
        for s in range(low, max(high, new_high)):
            scores[s] = new_scores[s] if s < new_high else NEVER
        reach = width if width == S else width // 2  # on either side of the best state
        low = max(low, best_state - reach)
        while low < best_state and scores[low] < best - beam:
            low += 1
        # A word is alive as a whole: its gap is where it may be entered.
        low = firsts[word_of[low]]
        high = min(new_high, best_state + reach)
        while high > best_state + 1 and scores[high - 1] < best - beam:
            high -= 1
        span[0], span[1] = low, high


@kernel
def trace(back: Any, lows: Any, state: int, path: Any) -> Any:
    """Fill path (T,) with the state of each frame, from the last one's; returns what was before."""
    for t in range(len(path) - 1, -1, -1):
        path[t] = state
        state = back[t, state - lows[t]]
    return state
