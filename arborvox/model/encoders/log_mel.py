"""Encoders of our own: normalized log-mel frames, a front end, layers with relative positions."""

from typing import ClassVar, Self

import torch
from torch import Tensor, nn

from arborvox.config import FeaturesConfig, ModelConfig
from arborvox.features import CMVN, LogMel
from arborvox.model.attention import sinusoids
from arborvox.model.dropout import Dropout
from arborvox.model.encoders.contract import EncoderStates, SpeechEncoder
from arborvox.model.encoders.subsampling import FRAMES_A_STATE, MIN_FRAMES, Subsampling
from arborvox.model.layers import Padding

Waves = tuple[Tensor, Tensor]


class LogMelEncoder(SpeechEncoder):
    """Log-mel frames in, one vector for every four of them out; the layers are a subclass's."""

    make_layer: ClassVar[type[nn.Module]]  # of one ModelConfig
    cmvn_mean: Tensor
    cmvn_istd: Tensor

    def __init__(self, config: ModelConfig, features: FeaturesConfig) -> None:
        super().__init__()
        self.input = self.make_input(config, features)
        self.state_s = FRAMES_A_STATE * self.input.frame_s
        self.description = f"{config.encoder}, {config.encoder_layers} layers, width {config.width}"
        self.register_buffer("cmvn_mean", torch.zeros(self.input.width))
        self.register_buffer("cmvn_istd", torch.ones(self.input.width))
        self.head_size = config.width // config.heads
        self.subsampling = Subsampling(self.input.width, config.channels, config.width)
        self.dropout = Dropout(config.dropout)
        self.layers = nn.ModuleList(self.make_layer(config) for _ in range(config.encoder_layers))
        self.final_norm = nn.LayerNorm(config.width)
        self.middle = len(self.layers) // 2 if config.middle_ctc > 0 else None

    @classmethod
    def make_input(cls, config: ModelConfig, features: FeaturesConfig) -> LogMel:
        """Return Kaldi's filter banks as the features section describes them."""
        return LogMel(features, min_frames=MIN_FRAMES)

    def set_statistics(self, statistics: CMVN) -> None:
        """Set the mean and inverse standard deviation of the training frames, (M,) each."""
        self.cmvn_mean.copy_(statistics.mean)
        self.cmvn_istd.copy_(statistics.istd)

    def forward(self, frames: Tensor, lens: Tensor) -> EncoderStates:
        """Normalize and encode, (B, T, M), (B,) -> (B, T', D), (B,)."""
        x, out_lens = self.subsampling(self._normalize(frames, lens), lens)
        x = self.dropout(x)
        waves = sinusoids(x.shape[1], self.head_size, like=x)
        padding = Padding.of(out_lens, x.shape[1], x.dtype)
        middle = None
        for number, layer in enumerate(self.layers, start=1):
            x = layer(x, waves, padding)
            if number == self.middle:
                middle = self.final_norm(x)
        return self.final_norm(x), out_lens, middle

    def bfloat16(self) -> Self:
        """Convert the weights; frames are normalized as exactly as they were measured."""
        mean, istd = self.cmvn_mean, self.cmvn_istd
        super().bfloat16()
        self.cmvn_mean, self.cmvn_istd = mean, istd
        return self

    def _normalize(self, frames: Tensor, lens: Tensor) -> Tensor:
        padded = torch.arange(frames.shape[1], device=frames.device) >= lens[:, None]
        frames = (frames - self.cmvn_mean) * self.cmvn_istd
        # Filled, not multiplied by 0: what stands in the padding may be anything, NaN too.
        frames = frames.masked_fill(padded[:, :, None], 0.0)
        return frames.to(self.final_norm.weight.dtype)
