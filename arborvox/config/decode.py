"""The decode section: how hypotheses are searched for."""

from typing import Literal

from pydantic import Field

from arborvox.config.section import Section


class DecodeConfig(Section):
    """How `arborvox run` lets the test set be recognised."""

    # auto: CTC and attention together where the model has both.
    mode: Literal[
        "auto", "ctc-greedy", "ctc-beam", "attention-greedy", "attention-beam", "joint", "rescoring"
    ] = "auto"
    beam: int = Field(10, gt=0)
    ctc_weight: float = Field(0.3, ge=0, le=1)
    lm: str | None = None
    lm_weight: float = Field(0.3, ge=0)
    length_bonus: float = 0.0
    # corpus: each language's own inventory of units, where the corpus has them; both: two tables.
    inventory: Literal["none", "corpus", "both"] = "none"
