"""Whether a difference is real, in a sentence that does not promise more than the numbers."""

from collections.abc import Sequence

from arborvox.report.wording import describe_difference, describe_interval, p_text, points
from arborvox.score.analysis import Pairing
from arborvox.score.bootstrap import SIGNIFICANCE_LEVEL

# With more comparisons than this, those without a finding share a paragraph.
MOST_TOLD_ONE_BY_ONE = 2


def verdicts(pairings: Sequence[Pairing], metric: str) -> list[str]:
    """Judge each model against its opponent, findings first where there are many."""
    if len(pairings) <= MOST_TOLD_ONE_BY_ONE:
        return [_verdict(pairing, metric) for pairing in pairings]
    found = [pairing for pairing in pairings if _is_found(pairing)]
    rest = [pairing for pairing in pairings if not _is_found(pairing)]
    told = [_verdict(pairing, metric) for pairing in found]
    for first in dict.fromkeys(pairing.first.label for pairing in rest):
        told.append(_no_verdict([p for p in rest if p.first.label == first], metric))
    return told


def _is_found(pairing: Pairing) -> bool:
    return pairing.p_corrected < SIGNIFICANCE_LEVEL


def _no_verdict(pairings: Sequence[Pairing], metric: str) -> str:
    """Tell of several models that none can be told apart from the same opponent."""
    first = pairings[0].first.label
    rate = points(pairings[0].differences.pooled.first)
    changes = [
        f"{pairing.second.label} {describe_interval(pairing.differences.pooled.estimate)}"
        for pairing in pairings
    ]
    names = [pairing.second.label for pairing in pairings]
    return (
        f"**No difference from {first} can be shown for {_listed(names)}.** {metric} {rate} for "
        f"{first}, all utterances pooled; against it, in points, with 95 % intervals: "
        f"{'; '.join(changes)}. The least p is "
        f"{p_text(min(p.p_corrected for p in pairings)).removeprefix('= ')} after Holm's "
        f"correction for {pairings[0].num_pairings} comparisons."
    )


def _listed(names: Sequence[str]) -> str:
    return " or ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def _verdict(pairing: Pairing, metric: str) -> str:
    """Judge a model against its opponent by the pooled rate of a metric."""
    first, second = pairing.first, pairing.second
    difference = pairing.differences.pooled
    per_seed = [
        after - before
        for before, after in zip(first.pooled_of_seeds, second.pooled_of_seeds, strict=True)
    ]
    told = (
        f"{metric} {points(difference.second)} for {second.label} against "
        f"{points(difference.first)} for {first.label}, all utterances pooled: "
        f"{describe_difference(difference)}"
    )
    if pairing.num_pairings > 1:
        told += (
            f" (p {p_text(pairing.p_corrected)} as one of {pairing.num_pairings} comparisons, "
            "by Holm's correction)"
        )
    told += "."
    agreeing = sum((change < 0) == (difference.estimate.value < 0) for change in per_seed)
    if not _is_found(pairing):
        return f"**No difference between {first.label} and {second.label} can be shown.** {told}"
    side = "better" if difference.estimate.value < 0 else "worse"
    if len(per_seed) == 1:
        caution = (
            "It rests on one training of each: it holds for other utterances of this kind, but "
            "another seed may come out otherwise."
        )
        return f"**{second.label} is {side} than {first.label} here.** {told} {caution}"
    if agreeing < len(per_seed):
        caution = (
            f"But {len(per_seed) - agreeing} of {len(per_seed)} seeds point the other way, so the "
            "luck of training is as large as the difference."
        )
        return f"**{second.label} against {first.label}: not settled.** {told} {caution}"
    return (
        f"**{second.label} is {side} than {first.label}.** {told} All {len(per_seed)} seeds agree."
    )
