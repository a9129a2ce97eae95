"""n-gram language models over a model's units: counted, smoothed, measured, written as ARPA."""

from arborvox.config.choices import HIGHEST_ORDER
from arborvox.lm.arpa import write_arpa
from arborvox.lm.estimation import EstimationConfig, estimate_ngrams
from arborvox.lm.kneser_ney import Discounts, NgramModel
from arborvox.lm.scoring import Perplexity, measure_perplexity

__all__ = [
    "HIGHEST_ORDER",
    "Discounts",
    "EstimationConfig",
    "NgramModel",
    "Perplexity",
    "estimate_ngrams",
    "measure_perplexity",
    "write_arpa",
]
