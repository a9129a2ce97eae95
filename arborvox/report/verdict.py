"""Whether a difference is real, in a sentence that does not promise more than the numbers."""

from arborvox.report.analysis import MetricAnalysis
from arborvox.score import Difference


def verdict(analysis: MetricAnalysis, place: int) -> str:
    """Judge the model at `place` (1 or more) against the first, by the pooled rate."""
    first, second = analysis.models[0], analysis.models[place]
    difference = analysis.differences[place - 1].pooled
    per_seed = [
        after - before
        for before, after in zip(first.pooled_of_seeds, second.pooled_of_seeds, strict=True)
    ]
    name = analysis.metric.label
    told = (
        f"{name} {points(difference.second)} for {second.label} against "
        f"{points(difference.first)} for {first.label}, all utterances pooled: "
        f"{describe_difference(difference)}."
    )
    agreeing = sum((change < 0) == (difference.estimate.value < 0) for change in per_seed)
    if not difference.is_significant:
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


def describe_difference(difference: Difference) -> str:
    """Write a difference with its interval and p-value."""
    estimate = difference.estimate
    return (
        f"{points(estimate.value, signed=True)} points, 95 % interval "
        f"{points(estimate.low, signed=True)} to {points(estimate.high, signed=True)}, "
        f"p {p_text(difference.p_value)}"
    )


def points(rate: float, *, signed: bool = False) -> str:
    """Write a rate in per cent with one decimal."""
    return f"{100 * rate:{'+' if signed else ''}.1f}".replace("-", "−")


def p_text(p_value: float) -> str:
    """Write a p-value as papers do."""
    return "< 0.001" if p_value < 0.001 else f"= {p_value:.3f}"
