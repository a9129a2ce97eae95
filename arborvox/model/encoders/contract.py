"""What every encoder promises; nobody else in the code knows which one is there."""

from abc import ABC, abstractmethod

from torch import Tensor, nn

from arborvox.config import FeaturesConfig, ModelConfig
from arborvox.features import CMVN, SpeechInput

EncoderStates = tuple[Tensor, Tensor, Tensor | None]


class SpeechEncoder(nn.Module, ABC):
    """Frames of its own input in, states of width `model.width` out.

    An utterance's states are the same alone and in a batch, whatever stands in the padding.
    """

    layers: nn.ModuleList  # what is repeated, lowest first
    state_s: float  # seconds that a state stands for
    input: SpeechInput
    description: str  # what it is in a few words, for the model card

    @classmethod
    @abstractmethod
    def make_input(cls, config: ModelConfig, features: FeaturesConfig) -> SpeechInput:
        """Return what turns samples into the encoder's frames, without building the encoder."""

    @abstractmethod
    def forward(self, frames: Tensor, lens: Tensor) -> EncoderStates:
        """Encode, (B, T, M), (B,) -> (B, T', D), (B,), at least one state an utterance.

        The third are the states in the middle, where CTC looks at them as well, or None.
        """

    def set_statistics(self, statistics: CMVN) -> None:
        """Take the frames' mean and deviation over the training data, if the input wants them."""
        raise NotImplementedError(f"{type(self).__name__} normalizes without statistics")
