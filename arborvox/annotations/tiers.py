"""The nouns that both programs have: annotations on tiers."""

from dataclasses import dataclass
from typing import Literal

# How annotations of a tier hang on those of its parent, by ELAN's names. Of these the first two
# have times of their own.
Constraint = Literal[
    "Included_In", "Time_Subdivision", "Symbolic_Association", "Symbolic_Subdivision"
]
SYMBOLIC = ("Symbolic_Association", "Symbolic_Subdivision")
# No annotation lies later, in seconds: what is computed of times stays finite.
MOST_SECONDS = 1e6


@dataclass(frozen=True, slots=True)
class Annotation:
    """What stands on a tier from one moment to another."""

    start_s: float
    end_s: float
    value: str
    parent: int | None = None  # on a symbolic tier, the place on the parent tier


@dataclass(frozen=True)
class Tier:
    """A row of annotations; those of EAF may overlap, those of a TextGrid do not."""

    name: str
    annotations: tuple[Annotation, ...] = ()
    participant: str = ""
    type_name: str = ""  # ELAN's linguistic type
    parent: str | None = None
    constraint: Constraint | None = None
    is_point: bool = False  # of a TextGrid: moments, start and end alike

    @property
    def is_symbolic(self) -> bool:
        """Whether its annotations have no times but those of their parents."""
        return self.constraint in SYMBOLIC
