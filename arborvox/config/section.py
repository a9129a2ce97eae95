"""What all sections of a recipe share."""

from pydantic import BaseModel, ConfigDict


class Section(BaseModel):
    """What all sections share: no unknown key, no silent conversion, no change after loading."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)
