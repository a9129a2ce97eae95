"""Laws of counting errors and of the intervals around error rates."""

import json
from pathlib import Path

import jiwer
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arborvox.errors import ArborvoxError
from arborvox.score import (
    Edit,
    ErrorCounts,
    HypothesisFile,
    Metric,
    Transcription,
    align,
    count_table,
    error_counts,
    metrics_of,
    paired_bootstrap,
    read_scores,
    score_hypotheses,
    scores_as_json,
    split_units,
)
from arborvox.score.bootstrap import correct_p_values

law = settings(deadline=None, derandomize=True, max_examples=300)
texts = st.text(alphabet="abcé ʃ語", max_size=25)
units = st.lists(st.sampled_from(["t͡ʃ", "a", "aː", "n", "ŋ"]), max_size=12)


def noisy_set(seed: int, error_share: float, num: int = 60) -> list[Transcription]:
    """Two languages; the references do not depend on the seed, the errors do."""
    texts, errors = np.random.default_rng(0), np.random.default_rng(seed)
    made = []
    for language in ("ca", "es"):
        for number in range(num):
            letters = texts.choice(list("abcdefgh"), size=int(texts.integers(5, 40)))
            heard = [x if errors.random() > error_share else "x" for x in letters]
            said = "".join(letters)
            made.append(Transcription(f"{language}-{number:03}", language, said, "".join(heard)))
    return made


def tables(transcriptions: list[Transcription]) -> dict[str, np.ndarray]:
    """Character edits by language."""
    return {
        language: count_table(
            (entry.reference, entry.text) for entry in transcriptions if entry.language == language
        )
        for language in ("ca", "es")
    }


@law
@given(texts, texts)
def test_character_errors_agree_with_jiwer(reference: str, hypothesis: str) -> None:
    counts = error_counts(split_units(reference, Metric.cer), split_units(hypothesis, Metric.cer))
    theirs = jiwer.process_characters(reference, hypothesis)
    assert counts == ErrorCounts(
        theirs.hits, theirs.substitutions, theirs.deletions, theirs.insertions
    )
    assert counts.rate == pytest.approx(theirs.cer)


@law
@given(texts, texts)
def test_word_errors_agree_with_jiwer(reference: str, hypothesis: str) -> None:
    counts = error_counts(split_units(reference, Metric.wer), split_units(hypothesis, Metric.wer))
    theirs = jiwer.process_words(reference, hypothesis)
    assert counts == ErrorCounts(
        theirs.hits, theirs.substitutions, theirs.deletions, theirs.insertions
    )
    assert counts.rate == pytest.approx(theirs.wer)


@law
@given(st.lists(st.tuples(texts, texts), min_size=1, max_size=6))
def test_rates_of_a_set_agree_with_jiwer(pairs: list[tuple[str, str]]) -> None:
    made = [Transcription(str(i), "ca", said, heard) for i, (said, heard) in enumerate(pairs)]
    scores = score_hypotheses(made, "char", num_samples=5)
    references, hypotheses = map(list, zip(*pairs, strict=True))
    pooled = {metric: found.pooled.rate.value for metric, found in scores.metrics.items()}
    assert pooled[Metric.cer] == pytest.approx(jiwer.cer(references, hypotheses))
    assert pooled[Metric.wer] == pytest.approx(jiwer.wer(references, hypotheses))


@law
@given(units, units)
def test_counts_add_up_to_both_lengths(reference: list[str], hypothesis: list[str]) -> None:
    counts = error_counts(reference, hypothesis)
    assert counts.hits + counts.substitutions + counts.deletions == len(reference)
    assert counts.hits + counts.substitutions + counts.insertions == len(hypothesis)
    assert counts.num_reference == len(reference)


@law
@given(units, units)
def test_alignment_reproduces_both_sides_and_the_counts(
    reference: list[str], hypothesis: list[str]
) -> None:
    aligned = align(reference, hypothesis)
    assert [said for _, said, _ in aligned if said is not None] == reference
    assert [heard for _, _, heard in aligned if heard is not None] == hypothesis
    assert all((said == heard) == (edit is Edit.hit) for edit, said, heard in aligned)
    found = [sum(entry.edit is edit for entry in aligned) for edit in Edit]
    assert ErrorCounts(*found) == error_counts(reference, hypothesis)


@law
@given(units, units, units, units)
def test_counts_of_texts_can_be_added(
    a: list[str], b: list[str], c: list[str], d: list[str]
) -> None:
    table = count_table([(a, b), (c, d)])
    assert ErrorCounts.total(table) == error_counts(a, b) + error_counts(c, d)


def test_phones_are_whole_units() -> None:
    said, heard = (split_units(text, Metric.per) for text in ("t͡ʃ a n", "ʃ a n"))
    assert error_counts(said, heard) == ErrorCounts(hits=2, substitutions=1)
    assert metrics_of("phone") == (Metric.per,)


def test_units_may_be_token_ids() -> None:
    assert error_counts([3, 500, 7], [3, 7]) == ErrorCounts(hits=2, deletions=1)


def test_an_accent_written_apart_is_no_error() -> None:
    said, heard = (split_units(text, Metric.cer) for text in ("é", "e\u0301"))
    assert error_counts(said, heard).num_errors == 0


def test_what_is_heard_in_an_empty_reference_is_inserted() -> None:
    counts = error_counts("", "abc")
    assert counts == ErrorCounts(insertions=3)
    assert counts.rate == 3
    assert error_counts("", "").rate == 0


def test_macro_is_the_mean_and_pooled_the_weighted_mean() -> None:
    made = [
        Transcription("1", "ca", "abcd", "abcx"),
        Transcription("2", "es", "abcdabcd", "abcdabcd"),
        Transcription("3", "es", "ab", ""),
    ]
    found = score_hypotheses(made, "char", num_samples=10).metrics[Metric.cer]
    rates = {name: score.rate.value for name, score in found.languages.items()}
    assert rates == {"ca": 1 / 4, "es": 2 / 10}
    assert found.macro.value == pytest.approx((1 / 4 + 2 / 10) / 2)
    assert found.pooled.rate.value == pytest.approx(3 / 14)
    assert found.pooled.counts == ErrorCounts(hits=11, substitutions=1, deletions=2)


def test_intervals_hold_the_estimate_and_narrow_with_more_utterances() -> None:
    widths = []
    for num in (40, 640):
        found = score_hypotheses(noisy_set(1, 0.2, num), "char").metrics[Metric.cer]
        estimates = [score.rate for score in found.languages.values()]
        for estimate in [*estimates, found.macro, found.pooled.rate]:
            assert estimate.low < estimate.value < estimate.high
        widths.append(found.pooled.rate.high - found.pooled.rate.low)
    assert widths[1] == pytest.approx(widths[0] / 4, rel=0.35)


def test_scores_depend_on_the_seed_alone() -> None:
    made = noisy_set(1, 0.2)
    once = score_hypotheses(made, "char", seed=3)
    assert score_hypotheses(made[::-1], "char", seed=3) == once
    other = score_hypotheses(made, "char", seed=4)
    assert other.metrics[Metric.cer].macro.value == once.metrics[Metric.cer].macro.value
    assert other.metrics[Metric.cer].macro.low != once.metrics[Metric.cer].macro.low


def test_an_interval_does_not_depend_on_other_languages() -> None:
    made = noisy_set(1, 0.2)
    alone = score_hypotheses([entry for entry in made if entry.language == "es"], "char")
    together = score_hypotheses(made, "char")
    ours = [scores.metrics[Metric.cer].languages["es"] for scores in (alone, together)]
    assert ours[0] == ours[1]


def test_languages_are_drawn_independently() -> None:
    catalan = [entry for entry in noisy_set(1, 0.2) if entry.language == "ca"]
    twins = [Transcription(entry.id, "es", entry.reference, entry.text) for entry in catalan]
    found = score_hypotheses(catalan + twins, "char").metrics[Metric.cer]
    alone, mean = found.languages["ca"].rate, found.macro
    # Chance in two independent languages partly cancels: the mean is surer by the root of two.
    assert mean.high - mean.low == pytest.approx((alone.high - alone.low) / 2**0.5, rel=0.1)


def test_batches_of_draws_do_not_change_the_intervals(monkeypatch: pytest.MonkeyPatch) -> None:
    made = noisy_set(1, 0.2)
    once = score_hypotheses(made, "char", num_samples=100)
    monkeypatch.setattr("arborvox.score.bootstrap.DRAWS_AT_ONCE", 700)
    again = score_hypotheses(made, "char", num_samples=100)
    assert again == once


def test_a_model_does_not_differ_from_itself() -> None:
    same = tables(noisy_set(1, 0.2))
    differences = paired_bootstrap(same, same)
    for found in [*differences.languages.values(), differences.macro, differences.pooled]:
        assert (found.estimate.value, found.estimate.low, found.estimate.high) == (0, 0, 0)
        assert found.p_value == 1
        assert not found.is_significant


def test_p_values_are_corrected_as_holm_does() -> None:
    assert correct_p_values([]) == []
    assert correct_p_values([0.03]) == [0.03]
    # The least times 4, the next times 3, …; none may fall below one before it, none exceeds 1.
    assert correct_p_values([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert correct_p_values([0.9, 0.6]) == [1.0, 1.0]


def test_a_clearly_better_model_is_better_significantly_and_swapping_mirrors() -> None:
    worse, better = tables(noisy_set(1, 0.3)), tables(noisy_set(2, 0.1))
    there, back = paired_bootstrap(worse, better), paired_bootstrap(better, worse)
    assert there.macro.estimate.high < 0
    assert there.macro.is_significant
    assert there.macro.share_better == 1
    assert back.macro.estimate.value == -there.macro.estimate.value
    assert back.macro.p_value == there.macro.p_value
    assert back.macro.share_better == 0


def test_equally_good_models_rarely_differ() -> None:
    found = [
        paired_bootstrap(tables(noisy_set(2 * i, 0.2)), tables(noisy_set(2 * i + 1, 0.2)), seed=i)
        for i in range(30)
    ]
    assert sum(differences.macro.is_significant for differences in found) <= 4


def test_a_few_utterances_prove_nothing() -> None:
    worse = {"ca": count_table([("abcdefgh", "xxxxxxxx")] * 3)}
    better = {"ca": count_table([("abcdefgh", "abcdefgh")] * 3)}
    found = paired_bootstrap(worse, better).languages["ca"]
    assert found.estimate.value == -1
    assert found.p_value == 0.25
    assert not found.is_significant


def test_unpaired_sets_are_refused() -> None:
    made = tables(noisy_set(1, 0.2))
    with pytest.raises(ArborvoxError, match="same utterances"):
        paired_bootstrap(made, {"ca": made["ca"]})
    with pytest.raises(ArborvoxError, match="char, bpe, phone"):
        metrics_of("syllable")
    with pytest.raises(ArborvoxError, match="no utterances"):
        score_hypotheses([], "char")


def test_scores_survive_their_file(tmp_path: Path) -> None:
    entries = tuple(noisy_set(1, 0.3))
    scores = score_hypotheses(entries, "char", num_samples=50)
    file = HypothesisFile(tmp_path / "h.jsonl", "char", "runs/a", "joint", "", entries, {})
    path = tmp_path / "scores.json"
    path.write_text(json.dumps(scores_as_json(scores, file)))
    read = read_scores(path)
    assert read == scores
    for metric, by_language in scores.edits.tables.items():
        for language, table in by_language.items():
            assert (read.edits.tables[metric][language] == table).all()
