"""Interpolated modified Kneser–Ney as its definition reads, with dicts, for small texts."""

from collections import Counter, defaultdict
from collections.abc import Sequence

Ngram = tuple[str, ...]
Weights = dict[Ngram, tuple[float, float]]  # probability, back-off

BEGIN, END, UNKNOWN = "<s>", "</s>", "<unk>"


def reference_model(
    sentences: Sequence[Sequence[str]], order: int, cut_offs: Sequence[int]
) -> Weights:
    """Return probability and back-off weight of each n-gram that is listed."""
    seen: Counter[Ngram] = Counter()
    for sentence in sentences:
        words = [BEGIN, *sentence, END]
        for end in range(1, len(words)):
            for start in range(max(0, end - order + 1), end + 1):
                seen[tuple(words[start : end + 1])] += 1
    before: dict[Ngram, set[str]] = defaultdict(set)
    for ngram in seen:
        before[ngram[1:]].add(ngram[0])
    counts = {
        ngram: number if len(ngram) == order or ngram[0] == BEGIN else len(before[ngram])
        for ngram, number in seen.items()
    }
    discounts = [
        _discounts([c for g, c in counts.items() if len(g) == n]) for n in range(1, order + 1)
    ]
    listed = {
        ngram for ngram in counts
        if UNKNOWN not in ngram and (len(ngram) == 1 or seen[ngram] > cut_offs[len(ngram) - 1])
    }  # fmt: skip
    totals: dict[Ngram, float] = defaultdict(float)
    left_over: dict[Ngram, float] = defaultdict(float)
    for ngram, count in counts.items():
        context = ngram[:-1]
        totals[context] += count
        left_over[context] += discounts[len(context)][min(count, 3)] if ngram in listed else count
    weights = {context: left_over[context] / totals[context] for context in totals}
    num_words = len({ngram for ngram in listed if len(ngram) == 1} | {(UNKNOWN,)})
    probabilities: dict[Ngram, float] = {(UNKNOWN,): weights[()] / num_words}
    for ngram in sorted(listed, key=len):
        context, count = ngram[:-1], counts[ngram]
        own = (count - discounts[len(context)][min(count, 3)]) / totals[context]
        shorter = probabilities[ngram[1:]] if len(ngram) > 1 else 1 / num_words
        probabilities[ngram] = own + weights[context] * shorter
    probabilities[BEGIN,] = 1.0
    return {
        ngram: (probability, weights.get(ngram, 1.0) if len(ngram) < order else 1.0)
        for ngram, probability in probabilities.items()
    }


def _discounts(counts: Sequence[int]) -> tuple[float, float, float, float]:
    n1, n2, n3, n4 = (counts.count(number) for number in (1, 2, 3, 4))
    if n1 and n2 and n3:
        y = n1 / (n1 + 2 * n2)
        found = (0.0, 1 - 2 * y * n2 / n1, 2 - 3 * y * n3 / n2, 3 - 4 * y * n4 / n3)
        if all(0 <= amount <= number for number, amount in enumerate(found)):
            return found
    return 0.0, 0.5, 1.0, 1.5
