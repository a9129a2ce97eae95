"""Minimum Bayes risk: of an n-best list not the likeliest, but the one with the fewest errors.

The error rate counts units, the score whole transcripts. A transcript that many likely others
resemble is expected to have fewer wrong units than one that is likelier and stands alone.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from rapidfuzz.distance import Levenshtein

from arborvox.decode.attention import attention_beam
from arborvox.decode.hypothesis import Hypothesis
from arborvox.decode.network import Encoded, Network
from arborvox.decode.settings import BeamSettings


def minimum_risk(
    network: Network, encoded: Encoded, settings: BeamSettings
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
    distances = np.array(
        [[Levenshtein.distance(a.tokens, b.tokens) for b in hypotheses] for a in hypotheses]
    )
    risks = distances @ weights
    order = np.lexsort((-scores, risks))  # of equal risks the likelier first
    return [replace(hypotheses[n], score=-float(risks[n])) for n in order.tolist()]
