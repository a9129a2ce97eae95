"""Boundaries: edges at pauses are heard; phones part where one gives way to the other."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from arborvox.decode.alignment import Aligner
from arborvox.decode.boundaries import BoundaryPlacer, Loudness, Peak
from arborvox.decode.kinship import kin_of, nearest_phones
from arborvox.decode.network import CtcScores
from arborvox.tokens.tokenizer import Tokenizer

RATE = 16_000
FRAME_S = 0.02
UNITS = ("<eos>", "<unk>", "p", "b", "a", "ɑ", "s")
BLANK = len(UNITS)
LABELS = np.arange(BLANK + 1)
P, B, A, BACK_A, S = range(2, 7)


def phone_tokenizer() -> Tokenizer:
    return Tokenizer("phone", UNITS, {"x-x": (1,) * len(UNITS)})


def sound(*parts: tuple[float, float]) -> NDArray[np.float32]:
    """Return noise of levels for seconds."""
    chance = np.random.default_rng(0)
    return np.concatenate(
        [level * chance.normal(size=round(seconds * RATE)) for seconds, level in parts]
    ).astype(np.float32)


def frames_of(*runs: tuple[int, dict[int, float]]) -> NDArray[np.float32]:
    """Return log-probabilities of frames; what is left goes to the blank."""
    rows = []
    for count, probs in runs:
        row = np.full(BLANK + 1, 1e-9)
        for token, prob in probs.items():
            row[token] = prob
        row[BLANK] = max(1 - sum(probs.values()), 1e-9)
        rows += [row] * count
    return np.log(np.array(rows)).astype(np.float32)


def kin() -> NDArray[np.float64]:
    found = kin_of(phone_tokenizer())
    assert found is not None
    return found


def test_phones_that_are_made_alike_are_kin() -> None:
    found = kin()
    assert np.array_equal(found, found.T)
    assert np.all(np.diag(found) == 1)
    assert found[P, B] > found[P, S] > 0
    assert found[A, BACK_A] > found[A, P]
    assert found[0, P] == found[1, A] == 0


def test_a_strange_phone_is_sought_as_the_nearest_one() -> None:
    near = nearest_phones(["pʰ", "æ", "z", "☃"], phone_tokenizer())
    assert near == {"pʰ": "p", "æ": "a", "z": "s"}
    letters = Tokenizer("char", ("<eos>", "<unk>", "a"), {"x-x": (1, 1, 1)})
    assert kin_of(letters) is None and nearest_phones(["ʒ"], letters) == {}


def test_edges_at_pauses_are_heard() -> None:
    quiet = Loudness(sound((0.5, 0.001), (0.6, 0.2), (0.4, 0.001)), RATE, 10.0)
    assert quiet.onset_s(10.7, 10.3) == pytest.approx(10.5, abs=0.015)
    assert quiet.offset_s(10.9, 11.4) == pytest.approx(11.1, abs=0.015)
    gap = Loudness(sound((0.5, 0.2), (0.3, 0.001), (0.5, 0.2)), RATE, 0.0)
    assert gap.pause_s(0.3, 1.0) == pytest.approx((0.5, 0.8), abs=0.015)
    closure = Loudness(sound((0.5, 0.2), (0.15, 0.001), (0.5, 0.2)), RATE, 0.0)
    assert closure.pause_s(0.3, 1.0) is None
    even = Loudness(sound((2.0, 0.2)), RATE, 0.0)
    assert even.onset_s(1.0, 0.6) is even.offset_s(1.0, 1.5) is even.pause_s(0.5, 1.5) is None


@pytest.mark.parametrize("num_samples", [0, 1, 79, 81])
def test_next_to_nothing_has_no_edges(num_samples: int) -> None:
    loudness = Loudness(np.zeros(num_samples, np.float32), RATE, 0.0)
    assert loudness.onset_s(0.0, 0.0) is None and loudness.offset_s(0.0, 1.0) is None


def test_phones_part_where_the_likelier_one_changes() -> None:
    """CTC is sure of `p` at frame 5 and of `a` at frame 20; at 12 their kin change places."""
    log_probs = frames_of(
        (5, {}), (1, {P: 0.9}), (6, {B: 0.05}), (8, {BACK_A: 0.05}), (1, {A: 0.9}), (5, {})
    )
    peaks = [Peak(5, 6, P, 0), Peak(20, 21, A, 1)]
    even = Loudness(sound((0.52, 0.2)), RATE, 0.0)
    (first, second) = BoundaryPlacer(FRAME_S, 0.0, kin()).place(peaks, log_probs, LABELS, 0.0, even)
    assert first[1] == second[0] == pytest.approx(12 * FRAME_S, abs=FRAME_S / 2)
    moved = BoundaryPlacer(FRAME_S, -0.02, kin()).place(peaks, log_probs, LABELS, 0.0, even)
    assert moved[1][0] == pytest.approx(second[0] - 0.02)
    plain = BoundaryPlacer(FRAME_S, 0.0).place(peaks, log_probs, LABELS, 0.0, even)
    assert plain[1][0] == pytest.approx(20 * FRAME_S)
    assert plain[0][1] == pytest.approx(6 * FRAME_S + 0.08)  # another word, and no pause


def test_a_pause_parts_phones_and_a_shift_does_not_move_it() -> None:
    log_probs = frames_of((20, {}), (1, {P: 0.9}), (29, {}), (1, {A: 0.9}), (24, {}))
    peaks = [Peak(20, 21, P, 0), Peak(50, 51, A, 1)]
    loudness = Loudness(
        sound((0.3, 0.001), (0.2, 0.2), (0.4, 0.001), (0.3, 0.2), (0.3, 0.001)), RATE, 0.0
    )
    for shift_s in (0.0, -0.05):
        placer = BoundaryPlacer(FRAME_S, shift_s, kin())
        found = placer.place(peaks, log_probs, LABELS, 0.0, loudness)
        edges = [edge for span in found for edge in span]
        assert edges == pytest.approx([0.3, 0.5, 0.9, 1.2], abs=0.02)


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10_000), shift_s=st.floats(-0.3, 0.3), is_phone=st.booleans())
def test_any_frames_and_sound_give_spans_in_order(
    seed: int, shift_s: float, is_phone: bool
) -> None:
    chance = np.random.default_rng(seed)
    T = int(chance.integers(8, 60))
    logits = 4 * chance.normal(size=(T, BLANK + 1))
    log_probs = (logits - np.logaddexp.reduce(logits, axis=1, keepdims=True)).astype(np.float32)
    words = [[int(t)] for t in chance.integers(2, BLANK, size=int(chance.integers(1, 6)))]
    lengths, exponents = chance.uniform(0.05, 0.5, 4), -3 * chance.random(4)
    parts = [(float(s), float(10**e)) for s, e in zip(lengths, exponents, strict=True)]
    placer = BoundaryPlacer(FRAME_S, shift_s, kin() if is_phone else None)
    aligner = Aligner(words, [], FRAME_S, placer=placer)
    scores = CtcScores(log_probs[None], LABELS, LABELS)
    aligner.add(scores, 0, T, 1.0, Loudness(sound(*parts), RATE, 1.0))
    spans = [span for word in aligner.finish(scores) for span in word]
    assert all(span.start_s <= span.end_s for span in spans)
    assert all(a.end_s <= b.start_s + 1e-9 for a, b in itertools.pairwise(spans))
