"""How far and by what every search looks."""

import math
from dataclasses import dataclass

from arborvox.decode.automaton import LanguageModel


@dataclass(frozen=True)
class BeamSettings:
    """How far and by what a beam search looks."""

    beam: int
    num_best: int = 1
    ctc_weight: float = 0.0  # the decoder's part is 1 - ctc_weight
    lm: LanguageModel | None = None
    lm_weight: float = 0.0
    length_bonus: float = 0.0
    min_tokens: int = 0
    # <eos> needs a log P of no less than this times the best one's; infinite: any will do.
    end_ratio: float = math.inf
    max_tokens: int | None = None  # never more than there are frames

    @property
    def scores_only_fall(self) -> bool:
        """Whether a longer hypothesis is never better than a shorter one that it begins with."""
        return self.length_bonus <= 0.0
