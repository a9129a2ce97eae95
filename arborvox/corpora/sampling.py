"""Who goes where: test, development and training sets, and the paper's down-sampling."""

import zlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]

# Split codes, places in SPLIT_NAMES; what is negative is left out, and says why.
TRAIN, DEV, TEST = 0, 1, 2
SENTENCE_ELSEWHERE, SPEAKER_ELSEWHERE, NOT_IN_KEPT_SPLIT = -1, -5, -6
RECORDING_ELSEWHERE = -7
NOT_DRAWN = -8

# The paper: test is the lesser of 10 % and 10,000 utterances. It has no development set; ours is
# half of that share, and at most 2,000 utterances.
TEST_SHARE, TEST_MOST = 0.10, 10_000
DEV_SHARE, DEV_MOST = 0.05, 2_000


@dataclass(frozen=True)
class Quota:
    """How many utterances a held-out set is to have."""

    share: float
    most: int

    def count(self, num_utterances: int) -> int:
        """Return the quota for a language of that many utterances."""
        return min(int(num_utterances * self.share), self.most)


TEST_QUOTA = Quota(TEST_SHARE, TEST_MOST)
DEV_QUOTA = Quota(DEV_SHARE, DEV_MOST)


def language_rng(seed: int, language: str) -> np.random.Generator:
    """Return a generator that depends on the seed and the language, not on other languages."""
    return np.random.default_rng([seed, zlib.crc32(language.encode())])


def split_randomly(
    num: int, rng: np.random.Generator, test: Quota = TEST_QUOTA, dev: Quota = DEV_QUOTA
) -> IntArray:
    """Split utterances at random, as the paper did; return a split code for each."""
    codes = np.full(num, TRAIN, dtype=np.int64)
    order = rng.permutation(num)
    num_test, num_dev = test.count(num), dev.count(num)
    codes[order[:num_test]] = TEST
    codes[order[num_test : num_test + num_dev]] = DEV
    return codes


def split_by_speaker(
    speakers: IntArray,
    sentences: IntArray,
    rng: np.random.Generator,
    test: Quota = TEST_QUOTA,
    dev: Quota = DEV_QUOTA,
) -> IntArray:
    """Split so that no speaker and no sentence stands on two sides.

    Speakers and sentences are dense ids from 0. Whole speakers are drawn for test, then for
    development; a sentence that test (or development) holds is taken out of the sides after it.
    """
    num = len(speakers)
    sizes = np.bincount(speakers) if num else np.zeros(0, dtype=np.int64)
    order = rng.permutation(len(sizes))
    side_of_speaker = np.full(len(sizes), TRAIN, dtype=np.int64)
    for side, quota in ((TEST, test.count(num)), (DEV, dev.count(num))):
        free = order[side_of_speaker[order] == TRAIN]
        # At least one speaker stays for training.
        for speaker in _draw_speakers(free, sizes, quota)[: max(len(free) - 1, 0)]:
            side_of_speaker[speaker] = side
    codes = side_of_speaker[speakers] if num else np.zeros(0, dtype=np.int64)
    for side in (TEST, DEV):
        held = np.unique(sentences[codes == side])
        after = (codes < side) & (codes >= TRAIN)
        codes[after & np.isin(sentences, held)] = SENTENCE_ELSEWHERE
    return codes


def cut_from_training(
    groups: IntArray, sentences: IntArray, rng: np.random.Generator, quota: Quota, side: int
) -> IntArray:
    """Cut a held-out set of whole groups (speakers, or sentences) from what is for training.

    All are dense ids from 0. A sentence of the held-out set is taken out of training.
    """
    codes = np.full(len(groups), TRAIN, dtype=np.int64)
    if len(groups):
        sizes = np.bincount(groups)
        drawn = _draw_speakers(rng.permutation(len(sizes)), sizes, quota.count(len(groups)))
        # At least one group stays for training.
        codes[np.isin(groups, drawn[: len(sizes) - 1])] = side
        codes[(codes == TRAIN) & np.isin(sentences, sentences[codes == side])] = SENTENCE_ELSEWHERE
    return codes


def _draw_speakers(order: IntArray, sizes: IntArray, quota: int) -> list[int]:
    """Fill a quota with whole speakers; talkative ones only where the others do not fill it."""
    modest = sizes[order] <= max(quota // 5, 1)
    drawn: list[int] = []
    room = quota
    for speaker in np.concatenate([order[modest], order[~modest]]):
        if sizes[speaker] <= room:
            drawn.append(int(speaker))
            room -= int(sizes[speaker])
    if not drawn and quota > 0 and len(order):
        drawn = [int(order[np.argmin(sizes[order])])]
    return drawn


def downsampling_ratios(hours: Sequence[float], ratio: float, alpha: float = 0.5) -> FloatArray:
    """Return each language's share to keep: λ_i = p_i^(α−1) / Σ_j p_j^α · λ, none above 1.

    A language that the rule would give more than it has is kept whole, and what it cannot take
    is shared out among the others by the same rule, so that the total stays λ.
    """
    sizes = np.asarray(hours, dtype=np.float64)
    total = sizes.sum()
    ratios = np.zeros_like(sizes)
    open_ones = sizes > 0
    budget = total * min(ratio, 1.0)
    while open_ones.any():
        rest = sizes[open_ones]
        proportions = rest / rest.sum()
        share = max(budget, 0.0) / rest.sum()
        proposed = proportions ** (alpha - 1) / np.sum(proportions**alpha) * share
        if (proposed <= 1.0).all():
            ratios[open_ones] = proposed
            break
        capped = np.flatnonzero(open_ones)[proposed > 1.0]
        ratios[capped] = 1.0
        budget -= sizes[capped].sum()
        open_ones[capped] = False
    return ratios


def sample_hours(
    durations_s: FloatArray, target_s: float, rng: np.random.Generator
) -> npt.NDArray[np.bool_]:
    """Choose utterances at random whose durations add up as near to the target as can be."""
    chosen = np.zeros(len(durations_s), dtype=np.bool_)
    order = rng.permutation(len(durations_s))
    reached = np.cumsum(durations_s[order])
    count = int(np.searchsorted(reached, target_s))
    if count < len(order):
        before = reached[count - 1] if count else 0.0
        if reached[count] - target_s < target_s - before:
            count += 1
    chosen[order[:count]] = True
    return chosen


def dense_ids(keys: npt.NDArray[np.int64]) -> IntArray:
    """Number equal keys alike, in the order of their first appearance (not of their value)."""
    if not len(keys):
        return np.zeros(0, dtype=np.int64)
    _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
    rank = np.empty(len(first), dtype=np.int64)
    rank[np.argsort(first, kind="stable")] = np.arange(len(first))
    return rank[inverse]
