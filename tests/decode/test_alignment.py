"""Aligning a known text: where it was said, also where text and speech are not the same."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from arborvox.decode import alignment, ctc_kernels
from arborvox.decode.alignment import Aligner, TokenSpan
from arborvox.decode.network import CtcScores

NUM_TOKENS = 12
SPACE = 1
LETTERS = range(2, NUM_TOKENS)
FRAME_S = 0.04


def scores_of(log_probs: NDArray[np.float32]) -> CtcScores:
    labels = np.arange(NUM_TOKENS + 1)
    return CtcScores(log_probs[None].astype(np.float32), labels, labels)


def speak(words: list[list[int]], chance: np.random.Generator, noise: float) -> tuple:
    """Return frames in which words are said, and the first frame of each."""
    path: list[int] = []
    starts = []
    for word in words:
        path += [NUM_TOKENS] * int(chance.integers(0, 4)) + [SPACE]
        starts.append(len(path))
        for place, token in enumerate(word):
            if place and word[place - 1] == token:
                path.append(NUM_TOKENS)
            path += [token] * int(chance.integers(1, 3)) + [NUM_TOKENS] * int(chance.integers(0, 4))
    path += [NUM_TOKENS] * 3
    logits = noise * chance.normal(size=(len(path), NUM_TOKENS + 1))
    logits[np.arange(len(path)), path] += 8.0
    return logits - np.logaddexp.reduce(logits, axis=1, keepdims=True), starts


def align(
    words: list[list[int]], log_probs: NDArray[np.float32], size: int = 10**9, exact: bool = False
) -> list:
    aligner = Aligner(words, [SPACE], FRAME_S, exact=exact)
    scores = scores_of(log_probs)
    for begin in range(0, len(log_probs), size):
        part = scores_of(log_probs[begin : begin + size])
        aligner.add(part, 0, part.log_probs.shape[1], begin * FRAME_S)
    return aligner.finish(scores)


def make_words(num: int, chance: np.random.Generator) -> list[list[int]]:
    return [chance.choice(LETTERS, size=chance.integers(1, 7)).tolist() for _ in range(num)]


def test_a_text_that_fits_is_found_where_it_was_said() -> None:
    chance = np.random.default_rng(0)
    words = make_words(60, chance)
    log_probs, starts = speak(words, chance, 1.0)
    found = align(words, log_probs)
    assert [round(tokens[0].start_s / FRAME_S) for tokens in found] == starts
    for word, tokens in zip(words, found, strict=True):
        assert len(tokens) == len(word)
        assert all(a.end_s <= b.start_s + 1e-9 for a, b in itertools.pairwise(tokens))
        assert all(-1.0 < token.log_prob <= 0 for token in tokens)


def test_the_path_is_that_of_the_exact_alignment() -> None:
    """Without spaces, skips and stars it is what the kernel for a single utterance finds."""
    chance = np.random.default_rng(1)
    words = make_words(20, chance)
    log_probs, _ = speak(words, chance, 1.0)
    log_probs[:, SPACE] = -30.0
    log_probs = log_probs - np.logaddexp.reduce(log_probs, axis=1, keepdims=True)
    tokens = np.array([token for word in words for token in word])
    frames, means = np.empty((len(tokens), 2), np.int64), np.empty(len(tokens))
    assert ctc_kernels.align(log_probs.astype(np.float32), tokens, frames, means)
    flat = [span for word in align(words, log_probs) for span in word]
    assert [(round(s.start_s / FRAME_S), round(s.end_s / FRAME_S)) for s in flat] == [
        tuple(pair) for pair in frames.tolist()
    ]
    assert [s.log_prob for s in flat] == pytest.approx(means.tolist(), abs=1e-4)


def test_an_exact_text_is_found_in_whatever_was_said_if_there_is_time_for_it() -> None:
    chance = np.random.default_rng(5)
    logits = 3 * chance.normal(size=(60, NUM_TOKENS + 1))
    log_probs = logits - np.logaddexp.reduce(logits, axis=1, keepdims=True)
    log_probs[:, SPACE] = -30.0
    words = make_words(6, chance)
    tokens = np.array([token for word in words for token in word])
    frames, means = np.empty((len(tokens), 2), np.int64), np.empty(len(tokens))
    assert ctc_kernels.align(log_probs.astype(np.float32), tokens, frames, means)
    flat = [span for word in align(words, log_probs, exact=True) for span in word]
    assert [(round(s.start_s / FRAME_S), round(s.end_s / FRAME_S)) for s in flat] == [
        tuple(pair) for pair in frames.tolist()
    ]
    # However short a text is, all of it is looked at until the end.
    short = [[2], [3], [4]]
    assert all(align(short, log_probs, exact=True))
    assert align(make_words(100, chance), log_probs, exact=True) == [()] * 100


@pytest.mark.parametrize("lag", [200, 3000])
def test_words_that_are_missing_or_doubled_do_not_move_the_others(
    lag: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """10 % of the words removed from the text or doubled: of the others 95 % keep their place."""
    monkeypatch.setattr(alignment, "LAG_FRAMES", lag)
    chance = np.random.default_rng(2)
    words = make_words(1500, chance)
    log_probs, starts = speak(words, chance, 1.5)
    text, said_at = [], []
    for word, start in zip(words, starts, strict=True):
        drawn = chance.random()
        if drawn < 0.05:
            continue
        text.append(word)
        said_at.append(start if drawn >= 0.1 else None)
        if drawn < 0.1:
            text.append(word)
            said_at.append(None)
    found = align(text, log_probs, size=700)
    kept = [
        bool(tokens) and abs(tokens[0].start_s - at * FRAME_S) <= 0.2
        for tokens, at in zip(found, said_at, strict=True)
        if at is not None
    ]
    assert np.mean(kept) >= 0.95


def test_pieces_and_lag_change_nothing() -> None:
    chance = np.random.default_rng(3)
    words = make_words(900, chance)
    log_probs, _ = speak(words, chance, 1.0)
    assert len(log_probs) > 2 * alignment.LAG_FRAMES
    flat: list[list[TokenSpan]] = [
        [span for word in align(words, log_probs, size) for span in word] for size in (501, 10**9)
    ]
    starts = [np.array([span.start_s for span in spans]) for spans in flat]
    assert np.abs(starts[0] - starts[1]).max() < 2 * FRAME_S


def test_frames_that_are_held_do_not_grow_with_the_recording() -> None:
    chance = np.random.default_rng(4)
    words = make_words(1200, chance)
    log_probs, _ = speak(words, chance, 1.0)
    aligner = Aligner(words, [SPACE], FRAME_S)
    for begin in range(0, len(log_probs), 600):
        part = scores_of(log_probs[begin : begin + 600])
        aligner.add(part, 0, part.log_probs.shape[1], begin * FRAME_S)
        held = sum(len(block.frames) for block in aligner._blocks)
        assert held <= alignment.LAG_FRAMES + 600


@given(
    words=st.lists(st.lists(st.integers(2, 5), min_size=1, max_size=4), max_size=8),
    num_frames=st.integers(0, 30),
    seed=st.integers(0, 99),
)
def test_any_text_and_any_frames_are_aligned_in_order(
    words: list[list[int]], num_frames: int, seed: int
) -> None:
    logits = 3 * np.random.default_rng(seed).normal(size=(num_frames, NUM_TOKENS + 1))
    log_probs = logits - np.logaddexp.reduce(logits, axis=1, keepdims=True)
    found = align(words, log_probs)
    assert len(found) == len(words)
    flat = [span for tokens in found for span in tokens]
    assert all(a.end_s <= b.start_s + 1e-9 for a, b in itertools.pairwise(flat))
    assert all(0 <= s.start_s < s.end_s <= num_frames * FRAME_S + 1e-9 for s in flat)
