"""One weight for each unit out of the counts of many languages, exactly."""

import math
from collections.abc import Mapping, Sequence

from arborvox.config.choices import Weighting, values_of
from arborvox.errors import ArborvoxError

WEIGHTINGS = values_of(Weighting)


def joint_counts(counts: Mapping[str, Sequence[int]], weighting: str) -> list[int]:
    """Join counts by language into one list of whole numbers in proportion to the frequencies.

    `pooled` adds raw counts. `language` adds each language's count / total, so that every language
    weighs the same; the quotients are brought to one denominator, so nothing is rounded and the
    order of the languages cannot matter.
    """
    if weighting not in WEIGHTINGS:
        raise ArborvoxError(f"Unknown weighting '{weighting}'; there are: {', '.join(WEIGHTINGS)}.")
    totals = {language: sum(row) for language, row in counts.items()}
    heard = [language for language, total in totals.items() if total]
    if not heard:
        raise ArborvoxError("The corpus is empty: no unit was counted in any language.")
    scale = math.lcm(*(totals[language] for language in heard))
    factors = {
        language: scale // totals[language] if weighting == "language" else 1 for language in heard
    }
    rows = [[count * factors[language] for count in counts[language]] for language in heard]
    return [sum(column) for column in zip(*rows, strict=True)]
