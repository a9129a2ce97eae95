"""Encoders of our own: normalized log-mel frames, a front end, layers with relative positions."""

from pathlib import Path
from typing import ClassVar, Self

import torch
from torch import Tensor, nn

from arborvox.config import FeaturesConfig, ModelConfig
from arborvox.features import CMVN, LogMel
from arborvox.model.encoders.contract import EncoderStates
from arborvox.model.encoders.stack import StackedEncoder, padded_frames
from arborvox.model.encoders.subsampling import FRAMES_A_STATE, MIN_FRAMES, Subsampling


class LogMelEncoder(StackedEncoder):
    """Log-mel frames in, one vector for every four of them out; the layers are a subclass's."""

    make_layer: ClassVar[type[nn.Module]]  # of one ModelConfig
    cmvn_mean: Tensor
    cmvn_istd: Tensor

    def __init__(
        self, config: ModelConfig, features: FeaturesConfig, home: Path | None = None
    ) -> None:
        super().__init__(config, features, home)
        self.state_s = FRAMES_A_STATE * self.input.frame_s
        self.description = f"{config.encoder}, {config.encoder_layers} layers, width {config.width}"
        self.register_buffer("cmvn_mean", torch.zeros(self.input.width))
        self.register_buffer("cmvn_istd", torch.ones(self.input.width))
        self.subsampling = Subsampling(self.input.width, config.channels, config.width)
        self._build_stack(config, self.make_layer)

    @classmethod
    def make_input(
        cls, config: ModelConfig, features: FeaturesConfig, home: Path | None = None
    ) -> LogMel:
        """Return Kaldi's filter banks as the features section describes them."""
        return LogMel(features, min_frames=MIN_FRAMES)

    def set_statistics(self, statistics: CMVN) -> None:
        """Set the mean and inverse standard deviation of the training frames, (M,) each."""
        self.cmvn_mean.copy_(statistics.mean)
        self.cmvn_istd.copy_(statistics.istd)

    def forward(self, frames: Tensor, lens: Tensor) -> EncoderStates:
        """Normalize and encode, (B, T, M), (B,) -> (B, T', D), (B,)."""
        return self._run_stack(*self.subsampling(self._normalize(frames, lens), lens))

    def bfloat16(self) -> Self:
        """Convert the weights; frames are normalized as exactly as they were measured."""
        mean, istd = self.cmvn_mean, self.cmvn_istd
        super().bfloat16()
        self.cmvn_mean, self.cmvn_istd = mean, istd
        return self

    def _normalize(self, frames: Tensor, lens: Tensor) -> Tensor:
        padding = padded_frames(frames, lens)
        frames = (frames - self.cmvn_mean) * self.cmvn_istd
        # Filled, not multiplied by 0: what stands in the padding may be anything, NaN too.
        return frames.masked_fill(padding, 0.0).to(self.final_norm.weight.dtype)
