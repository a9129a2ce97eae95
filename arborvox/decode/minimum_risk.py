"""Minimum Bayes risk: of an n-best list not the likeliest, but the one with the fewest errors.

The error rate counts units, the score whole transcripts. A transcript that many likely others
resemble is expected to have fewer wrong units than one that is likelier and stands alone.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from arborvox.decode.attention import attention_beam
from arborvox.decode.encoded import Encoded, SearchNetwork
from arborvox.decode.hypothesis import Hypothesis
from arborvox.decode.settings import BeamSettings
from arborvox.kernels.compiling import kernel


def minimum_risk(
    network: SearchNetwork, encoded: Encoded, settings: BeamSettings
) -> list[list[Hypothesis]]:
    """Rank the whole beam of a joint search by the number of errors to be expected, least first."""
    found = attention_beam(network, encoded, replace(settings, num_best=settings.beam))
    return [rank_by_risk(hypotheses)[: settings.num_best] for hypotheses in found]


def rank_by_risk(hypotheses: Sequence[Hypothesis]) -> list[Hypothesis]:
    """Sort by the expected edit distance to what was said; the new score is minus that distance.

    What was said is taken to be one of them, each as probable as its score says.
    """
    scores = np.array([hypothesis.score for hypothesis in hypotheses])
    weights = np.exp(scores - scores.max())
    weights /= weights.sum()
    tokens = [np.array(hypothesis.tokens, np.int64) for hypothesis in hypotheses]
    distances = np.array([[edit_distance(a, b) for b in tokens] for a in tokens])
    risks = distances @ weights
    order = np.lexsort((-scores, risks))  # of equal risks the likelier first
    return [replace(hypotheses[n], score=-float(risks[n])) for n in order.tolist()]


@kernel
def edit_distance(a: Any, b: Any) -> int:
    """Return how many tokens must be changed, added or left out to make one of the other."""
    row = np.arange(len(b) + 1)
    for i in range(len(a)):
        diagonal, row[0] = row[0], i + 1
        for j in range(len(b)):
            changed = diagonal + (a[i] != b[j])
            diagonal = row[j + 1]
            row[j + 1] = min(changed, diagonal + 1, row[j] + 1)
    return int(row[-1])
