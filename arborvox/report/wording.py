"""How numbers are written in tables and sentences."""

from collections.abc import Sequence

from arborvox.score import Difference, Estimate


def points(rate: float, *, signed: bool = False) -> str:
    """Write a rate in per cent with one decimal."""
    return f"{100 * rate:{'+' if signed else ''}.1f}".replace("-", "−")


def percent(rate: float) -> str:
    """Write a rate in per cent with two decimals: 0.053 is 5.30."""
    return f"{100 * rate:.2f}"


def percent_interval(estimate: Estimate, *, signed: bool = False) -> str:
    """Write an interval in per cent with two decimals: 4.90 … 5.71."""
    sign = "+" if signed else ""
    return f"{100 * estimate.low:{sign}.2f} … {100 * estimate.high:{sign}.2f}"


def p_text(p_value: float) -> str:
    """Write a p-value as papers do."""
    return "< 0.001" if p_value < 0.001 else f"= {p_value:.3f}"


def describe_difference(difference: Difference) -> str:
    """Write a difference with its interval and p-value."""
    estimate = difference.estimate
    return (
        f"{points(estimate.value, signed=True)} points, 95 % interval "
        f"{points(estimate.low, signed=True)} to {points(estimate.high, signed=True)}, "
        f"p {p_text(difference.p_value)}"
    )


def describe_interval(estimate: Estimate) -> str:
    """Write a difference with its interval, in points."""
    low, high = points(estimate.low, signed=True), points(estimate.high, signed=True)
    return f"{points(estimate.value, signed=True)} ({low} to {high})"


def best_places(rates: Sequence[float]) -> set[int]:
    """Find the lowest as written; where all are equal, none is better."""
    written = [points(rate) for rate in rates]
    if len(set(written)) == 1:
        return set()
    lowest = points(min(rates))
    return {place for place, text in enumerate(written) if text == lowest}
