"""What all sections of a recipe share."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field


class Section(BaseModel):
    """What all sections share: no unknown key, no silent conversion, no change after loading.

    Every number has a lower and an upper bound, every text and list a greatest length: a recipe
    may come from a stranger.
    """

    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, allow_inf_nan=False, str_max_length=4096
    )


# A name of a language, a column and the like.
Name = Annotated[str, Field(min_length=1, max_length=200)]
Seed = Annotated[int, Field(ge=0, lt=2**32)]
