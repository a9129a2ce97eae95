"""Every search by its name, and what it needs of a model and of the user's wishes."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from arborvox.config.choices import Search, SearchMode
from arborvox.decode.attention import attention_alone, attention_beam
from arborvox.decode.ctc import ctc_beam, ctc_greedy
from arborvox.decode.encoded import Encoded, SearchNetwork
from arborvox.decode.hypothesis import Hypothesis
from arborvox.decode.minimum_risk import minimum_risk
from arborvox.decode.rescoring import attention_rescoring
from arborvox.decode.settings import BeamSettings
from arborvox.errors import ArborvoxError

Found = list[list[Hypothesis]]  # of each utterance, best first


class SearchWishes(Protocol):
    """What of a DecodeConfig, or of an export's options, chooses a search."""

    @property
    def mode(self) -> SearchMode:
        """The search, or auto."""

    @property
    def lm(self) -> Path | None:
        """The language model's file."""

    @property
    def length_bonus(self) -> float:
        """What is added for each token."""


@dataclass(frozen=True)
class SearchKind:
    """A search: (network, encoded, settings) to hypotheses, and what it needs and heeds."""

    run: Callable[[SearchNetwork, Encoded, BeamSettings], Found]
    needs_ctc: bool = False
    needs_decoder: bool = False
    wide: bool = True  # keeps a beam, which a language model and a length bonus can reorder
    weighs_ctc: bool = False  # shares the score between CTC and decoder
    version: int = 1  # raised where it finds other hypotheses than before: experiments decode again

    def can_use(self, *, has_ctc: bool, has_decoder: bool) -> bool:
        """Whether a model with these branches has what the search needs."""
        return (has_ctc or not self.needs_ctc) and (has_decoder or not self.needs_decoder)


SEARCHES: dict[Search, SearchKind] = {
    "ctc-greedy": SearchKind(ctc_greedy, needs_ctc=True, wide=False),
    "ctc-beam": SearchKind(ctc_beam, needs_ctc=True),
    "attention-greedy": SearchKind(attention_beam, needs_decoder=True, wide=False),
    "attention-beam": SearchKind(attention_alone, needs_decoder=True, version=2),
    "joint": SearchKind(attention_beam, needs_ctc=True, needs_decoder=True, weighs_ctc=True),
    "rescoring": SearchKind(
        attention_rescoring, needs_ctc=True, needs_decoder=True, weighs_ctc=True
    ),
    "mbr": SearchKind(minimum_risk, needs_ctc=True, needs_decoder=True, weighs_ctc=True),
}
# What `auto` stands for: the first that the model can do.
AUTO: tuple[Search, ...] = ("joint", "ctc-beam", "attention-beam")


def choose_search(config: SearchWishes, *, has_ctc: bool, has_decoder: bool) -> Search:
    """Return the search for a model with these branches, or refuse what it cannot do."""

    def possible(name: Search) -> bool:
        return SEARCHES[name].can_use(has_ctc=has_ctc, has_decoder=has_decoder)

    if config.mode == "auto":
        return next(name for name in AUTO if possible(name))
    kind = SEARCHES[config.mode]
    if not possible(config.mode):
        missing = "attention decoder" if has_ctc else "CTC branch"
        raise ArborvoxError(
            f"There is no {missing}, so mode {config.mode} cannot be used; "
            f"choose {' or '.join(name for name in SEARCHES if possible(name))}."
        )
    if not kind.wide and (config.lm is not None or config.length_bonus):
        wide = (name for name in SEARCHES if SEARCHES[name].wide and possible(name))
        raise ArborvoxError(
            f"{config.mode} cannot use a language model or a length bonus; "
            f"choose {' or '.join(wide)}."
        )
    return config.mode
