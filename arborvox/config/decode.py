"""The decode section: how hypotheses are searched for."""

from pydantic import Field

from arborvox.config.choices import InventoryUse, SearchMode
from arborvox.config.section import Section


class DecodeConfig(Section):
    """How `arborvox run` lets the test set be recognised."""

    # auto: CTC and attention together where the model has both.
    mode: SearchMode = "auto"
    beam: int = Field(10, gt=0, le=1000)
    ctc_weight: float = Field(0.3, ge=0, le=1)
    lm: str | None = None
    lm_weight: float = Field(0.3, ge=0, le=1000)
    length_bonus: float = Field(0.0, ge=-1000, le=1000)
    # corpus: each language's own inventory of units, where the corpus has them; both: two tables.
    inventory: InventoryUse = "none"
