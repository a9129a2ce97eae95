"""Models are what the definition says, whatever the vocabulary, the memory and the blocks are."""

import errno
import random
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import BEGIN, END, UNKNOWN, Weights, reference_model

from arborvox.errors import ArborvoxError
from arborvox.lm import EstimationConfig, NgramModel, counting, estimate_ngrams, measure_perplexity
from arborvox.lm.counting import FIRST_WORD, UNKNOWN_WORD, Workspace
from arborvox.lm.kneser_ney import FALLBACK_DISCOUNTS, estimate_discounts

LAWS = settings(deadline=None, derandomize=True, max_examples=60)
LETTERS = "abcd"
NAMES = ["", UNKNOWN, BEGIN, END, *LETTERS]
SENTENCES = st.lists(
    st.lists(st.sampled_from([*LETTERS, UNKNOWN]), max_size=8), min_size=1, max_size=12
)


def numbered(sentences: Sequence[Sequence[str]], step: int = 1) -> list[list[int]]:
    """Number the letters; a step leaves numbers out."""
    numbers = {letter: FIRST_WORD + step * place for place, letter in enumerate(LETTERS)}
    return [[numbers.get(word, UNKNOWN_WORD) for word in sentence] for sentence in sentences]


def weights_of(model: NgramModel, step: int = 1) -> Weights:
    """Return what a model lists, by words."""
    table, weights = model.table, {}
    for n in range(1, table.order + 1):
        span = table.rows(n)
        rows = span.start + np.flatnonzero(table.kept[span])
        for row, words in zip(rows, table.words_of(rows, n), strict=True):
            places = [w if w < FIRST_WORD else FIRST_WORD + (w - FIRST_WORD) // step for w in words]
            backoff = float(model.backoffs[row]) if n < table.order else 1.0
            weights[tuple(NAMES[place] for place in places)] = (
                float(model.probabilities[row]),
                backoff,
            )
    return weights


def sample_text(num_sentences: int = 200, seed: int = 0) -> list[list[str]]:
    rng = random.Random(seed)
    return [
        rng.choices([*LETTERS, UNKNOWN], [8, 4, 2, 1, 0.5], k=rng.randint(0, 12))
        for _ in range(num_sentences)
    ]


@LAWS
@given(SENTENCES, st.integers(1, 5), st.lists(st.integers(0, 2), min_size=4, max_size=4))
def test_a_model_is_what_its_definition_says(
    sentences: list[list[str]], order: int, cut_offs: list[int]
) -> None:
    rising = (0, *sorted(cut_offs))[:order]
    config = EstimationConfig(order, rising)
    expected = reference_model(sentences, order, rising)
    with estimate_ngrams(numbered(sentences), len(NAMES), config) as model:
        found = weights_of(model)
    assert found.keys() == expected.keys()
    for ngram, numbers in expected.items():
        assert found[ngram] == pytest.approx(numbers, rel=1e-5, abs=1e-9), ngram


@pytest.mark.parametrize("cut_offs", [(0,), (0, 0, 1, 2)])
def test_probabilities_after_any_context_sum_to_one(cut_offs: tuple[int, ...]) -> None:
    text = sample_text()
    with estimate_ngrams(numbered(text), len(NAMES), EstimationConfig(4, cut_offs)) as model:
        weights = weights_of(model)
    words = [UNKNOWN, END, *LETTERS]
    for context in [(), *(ngram for ngram in weights if len(ngram) < 4)]:
        if END in context or UNKNOWN in context:
            continue
        total = sum(probability_after(weights, context, word) for word in words)
        assert total == pytest.approx(1, abs=1e-5), context


def probability_after(weights: Weights, context: tuple[str, ...], word: str) -> float:
    """Return P(word | context) as an ARPA file is read."""
    if (*context, word) in weights:
        return weights[*context, word][0]
    return weights.get(context, (0, 1.0))[1] * probability_after(weights, context[1:], word)


def test_a_wide_vocabulary_and_little_memory_change_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    text, config = sample_text(), EstimationConfig(6, (0, 0, 1))
    with estimate_ngrams(numbered(text), len(NAMES), config) as model:
        expected = weights_of(model)
    monkeypatch.setattr(counting, "BLOCK_WINDOWS", 100)
    monkeypatch.setattr(counting, "LARGEST_PART", 1 << 40)  # everything is a file
    step = 1 << 16  # 19 bits a word: two columns
    with estimate_ngrams(numbered(text, step), FIRST_WORD + 4 * step, config) as model:
        assert weights_of(model, step) == expected


def test_large_arrays_become_files_that_vanish(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with Workspace(8000) as workspace:
        assert workspace.empty(100, np.uint32).base is None
        mapped = workspace.zeros((100, 5), np.uint64)
        assert isinstance(mapped.base, np.memmap)
        assert not mapped.any()
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_told_before_anything_is_written_to_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(file: int, size: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(counting, "reserve_space", refuse)
    with Workspace(8000) as workspace, pytest.raises(OSError, match=r"No space .*\.bin"):
        workspace.zeros(2000, np.uint64)


def test_perplexity_is_that_of_the_listed_probabilities() -> None:
    text, test = sample_text(), sample_text(20, seed=1)
    with estimate_ngrams(numbered(text), len(NAMES), EstimationConfig(4, (0, 0, 1))) as model:
        weights = weights_of(model)
        perplexity = measure_perplexity(model, numbered(test))
    total = 0.0
    for sentence in test:
        words = [BEGIN, *sentence, END]
        for end in range(1, len(words)):
            context = tuple(words[max(0, end - 3) : end])
            while UNKNOWN in context:  # nothing is listed after it
                context = context[1:]
            total += float(np.log10(probability_after(weights, context, words[end])))
    assert perplexity.log10_prob == pytest.approx(total, rel=1e-5)
    assert perplexity.num_predicted == sum(len(sentence) + 1 for sentence in test)
    assert perplexity.num_unknown == sum(sentence.count(UNKNOWN) for sentence in test) > 0
    assert perplexity.value > perplexity.without_unknown > 1


def test_text_like_the_counted_one_is_predicted_better_than_noise() -> None:
    text = [list("abcabcabc"), list("abcabc")] * 20
    with estimate_ngrams(numbered(text), len(NAMES), EstimationConfig(3)) as model:
        alike = measure_perplexity(model, numbered([list("abcabcabcabc")]))
        noise = measure_perplexity(model, numbered([list("cbacbacba")]))
    assert alike.value < 2 < noise.value


def test_discounts_are_those_of_chen_and_goodman() -> None:
    # y = 100 / (100 + 2 * 40) = 0.5556; D1 = 1 - 2 y 40/100, D2 = 2 - 3 y 20/40, …
    found = estimate_discounts([7, 100, 40, 20, 10])
    assert found.amounts == pytest.approx((0.555556, 1.166667, 1.888889), abs=1e-6)
    assert not found.is_fallback


@pytest.mark.parametrize("num_with", [[0, 0, 5, 5, 5], [0, 9, 9, 0, 1], [0, 99, 9, 50, 5]])
def test_too_few_counts_fall_back_to_the_usual_discounts(num_with: list[int]) -> None:
    found = estimate_discounts(num_with)
    assert found.is_fallback
    assert found.amounts == FALLBACK_DISCOUNTS


@pytest.mark.parametrize(
    ("order", "cut_offs", "told"),
    [
        (0, (0,), "1 to 8"),
        (9, (0,), "1 to 8"),
        (3, (1,), "must be 0"),
        (3, (), "must be 0"),
        (2, (0, 0, 0), "3 cut-offs"),
        (3, (0, 2, 1), "must not fall"),
    ],
)
def test_what_no_model_can_be_made_by_is_refused(
    order: int, cut_offs: tuple[int, ...], told: str
) -> None:
    with pytest.raises(ArborvoxError, match=told):
        EstimationConfig(order, cut_offs)


def test_a_weight_of_nothing_still_has_a_logarithm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("arborvox.lm.kneser_ney.FALLBACK_DISCOUNTS", (0.0, 0.0, 0.0))
    with estimate_ngrams(numbered([["a", "b"]]), len(NAMES), EstimationConfig(2)) as model:
        assert (model.probabilities > 0).all()
        assert (model.backoffs > 0).all()
        assert np.isfinite(measure_perplexity(model, numbered([["b", "c"]])).value)


def test_no_text_is_refused() -> None:
    with (
        pytest.raises(ArborvoxError, match="no text"),
        estimate_ngrams([], len(NAMES), EstimationConfig(3)),
    ):
        pass
