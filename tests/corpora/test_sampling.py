"""Laws of splitting and down-sampling."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arborvox.corpora.sampling import (
    DEV,
    TEST,
    TEST_QUOTA,
    TRAIN,
    dense_ids,
    downsampling_ratios,
    language_rng,
    sample_hours,
    split_by_speaker,
    split_randomly,
)

law = settings(deadline=None, derandomize=True, max_examples=150)
hours = st.lists(st.floats(0.01, 5000), min_size=1, max_size=15)


@law
@given(hours, st.floats(0.001, 1.0), st.floats(0.0, 1.0))
def test_ratios_add_up_to_the_whole_ratio(sizes: list[float], ratio: float, alpha: float) -> None:
    ratios = downsampling_ratios(sizes, ratio, alpha)
    proportions = np.array(sizes) / sum(sizes)
    assert np.all(ratios <= 1.0)
    assert float(np.sum(proportions * ratios)) == pytest.approx(ratio, rel=1e-9)


@law
@given(hours, st.floats(0.001, 1.0), st.floats(0.0, 1.0))
def test_uncapped_ratios_are_the_papers_formula(
    sizes: list[float], ratio: float, alpha: float
) -> None:
    p = np.array(sizes) / sum(sizes)
    formula = p ** (alpha - 1) / np.sum(p**alpha) * ratio
    ratios = downsampling_ratios(sizes, ratio, alpha)
    if np.all(formula <= 1.0):
        np.testing.assert_allclose(ratios, formula, rtol=1e-12)
    else:
        assert ratios[np.argmax(formula)] == 1.0


def test_capped_remainder_is_shared_by_the_same_rule() -> None:
    ratios = downsampling_ratios([1.0, 100.0, 400.0], ratio=0.5, alpha=0.5)
    assert ratios[0] == 1.0
    rest = downsampling_ratios([100.0, 400.0], ratio=(0.5 * 501 - 1) / 500, alpha=0.5)
    np.testing.assert_allclose(ratios[1:], rest)


def test_a_language_without_hours_gets_none() -> None:
    assert downsampling_ratios([0.0, 10.0], 0.5).tolist() == [0.0, 0.5]


@law
@given(st.lists(st.floats(0.5, 20), min_size=300, max_size=600), st.floats(0.05, 1.0))
def test_sampled_hours_come_within_one_percent_or_one_clip(
    durations: list[float], share: float
) -> None:
    lengths = np.array(durations)
    target = lengths.sum() * share
    chosen = sample_hours(lengths, target, np.random.default_rng(0))
    assert abs(lengths[chosen].sum() - target) <= max(0.01 * target, lengths.max() / 2)


ids = st.integers(0, 40)


@law
@given(st.lists(st.tuples(ids, ids), min_size=1, max_size=400), st.integers(0, 5))
def test_no_speaker_and_no_sentence_on_two_sides(rows: list[tuple[int, int]], seed: int) -> None:
    speakers = dense_ids(np.array([row[0] for row in rows]))
    sentences = dense_ids(np.array([row[1] for row in rows]))
    codes = split_by_speaker(speakers, sentences, np.random.default_rng(seed))
    for keys in (speakers, sentences):
        sides = [set(keys[codes == side].tolist()) for side in (TRAIN, DEV, TEST)]
        assert not sides[0] & sides[1] and not sides[0] & sides[2] and not sides[1] & sides[2]


@law
@given(st.integers(0, 3000))
def test_random_split_holds_the_papers_quota(num: int) -> None:
    codes = split_randomly(num, np.random.default_rng(1))
    assert int(np.sum(codes == TEST)) == min(int(num * 0.1), 10_000)


def test_the_quota_is_the_lesser_of_a_tenth_and_ten_thousand() -> None:
    assert TEST_QUOTA.count(99_999) == 9_999
    assert TEST_QUOTA.count(5_000_000) == 10_000


def test_one_speaker_stays_for_training() -> None:
    codes = split_by_speaker(np.zeros(50, int), np.arange(50), np.random.default_rng(0))
    assert set(codes.tolist()) == {TRAIN}


def test_many_small_speakers_fill_the_quota_exactly() -> None:
    speakers = np.repeat(np.arange(500), 2)
    codes = split_by_speaker(speakers, np.arange(1000), np.random.default_rng(0))
    assert (int(np.sum(codes == TEST)), int(np.sum(codes == DEV))) == (100, 50)


def test_languages_draw_from_streams_of_their_own() -> None:
    one, same, other = (language_rng(0, name).random() for name in ("ca", "ca", "es"))
    assert one == same != other


def test_dense_ids_go_by_first_appearance() -> None:
    assert dense_ids(np.array([9, 4, 9, -7])).tolist() == [0, 1, 0, 2]
