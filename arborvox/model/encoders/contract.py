"""What every encoder promises; nobody else in the code knows which one is there."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor, nn

from arborvox.config import FeaturesConfig, ModelConfig
from arborvox.features import CMVN, SpeechInput

EncoderStates = tuple[Tensor, Tensor, Tensor | None]


class SpeechEncoder(nn.Module, ABC):
    """Frames of its own input in, states of width `model.width` out.

    An utterance's states are the same alone and in a batch, whatever stands in the padding.
    `home` is where a checkpoint keeps the encoder's `files`, once there is one.
    """

    layers: nn.ModuleList  # what is repeated, lowest first
    state_s: float  # seconds that a state stands for
    input: SpeechInput
    description: str  # what it is in a few words, for the model card

    def __init__(
        self, config: ModelConfig, features: FeaturesConfig, home: Path | None = None
    ) -> None:
        super().__init__()
        self.input = self.make_input(config, features, home)

    @classmethod
    @abstractmethod
    def make_input(
        cls, config: ModelConfig, features: FeaturesConfig, home: Path | None = None
    ) -> SpeechInput:
        """Return what turns samples into the encoder's frames, without building the encoder."""

    @abstractmethod
    def forward(self, frames: Tensor, lens: Tensor) -> EncoderStates:
        """Encode, (B, T, M), (B,) -> (B, T', D), (B,), at least one state an utterance.

        The third are the states in the middle, where CTC looks at them as well, or None.
        """

    def set_statistics(self, statistics: CMVN) -> None:
        """Take the frames' mean and deviation over the training data, if the input wants them."""
        raise NotImplementedError(f"{type(self).__name__} normalizes without statistics")

    def load_start(self) -> None:
        """Take the weights that it starts from, where it does not start from chance."""

    def files(self) -> dict[str, str]:
        """Return what a checkpoint must keep for the encoder beside its weights, by file name."""
        return {}

    def card_rows(self) -> list[tuple[str, str]]:
        """Return what the model card must tell of where the encoder comes from."""
        return []

    def pack(self) -> None:
        """Lay out the network for the processor where that is faster; no more training then."""

    @property
    def packed_key(self) -> str:
        """Name what `pack` changes beyond a product's rounding on this processor, for caches."""
        return ""

    def gains_by_packing(self, precision: str) -> bool:
        """Whether `pack` is worth it on a CPU: in fp32 nothing but 8-bit products is."""
        return precision == "bf16" or bool(self.packed_key)

    def given_parameters(self) -> list[nn.Parameter]:
        """List the parameters that do not start from chance: they may learn at another rate."""
        return []

    def frozen_names(self) -> set[str]:
        """Name the tensors of `state_dict` that training never changes."""
        return set()

    @property
    def states_input(self) -> SpeechInput | None:
        """Describe states that training never changes, as an input to cache; None if all learns."""
        return None

    def frozen_states(self, frames: Tensor, lens: Tensor) -> tuple[Tensor, Tensor]:
        """Return what `states_input` describes, (B, T, M), (B,) -> (B, T', M'), (B,)."""
        raise NotImplementedError(f"{type(self).__name__} has no frozen part")

    def frozen_states_of_each(self, utterances: Sequence[Tensor]) -> list[Tensor]:
        """Return the same of some utterances, (T, M) each -> (T', M') each.

        Whichever others are given, an utterance's states are the same to the last bit.
        """
        states = []
        for frames in utterances:
            lens = torch.tensor([len(frames)], device=frames.device)
            states.append(self.frozen_states(frames[None], lens)[0][0])
        return states

    def take_states(self) -> None:
        """Expect cached states instead of the input's frames from now on."""
        raise NotImplementedError(f"{type(self).__name__} has no frozen part")
