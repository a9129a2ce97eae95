"""Whisper's encoder on an utterance's own length, instead of 30 seconds of mostly silence."""

import torch
from torch import Tensor, nn
from torch.nn import functional

from arborvox.model.encoders.pretrained.base_model import BaseModel
from arborvox.model.encoders.pretrained.inputs import WhisperMel
from arborvox.model.encoders.pretrained.network import PretrainedNetwork, build, key_bias
from arborvox.model.encoders.stack import padded_frames


class WhisperNetwork(PretrainedNetwork):
    """Two convolutions, fixed positions, and Transformer layers.

    Longer speech than there are positions for is heard in windows, whose states are put together.
    """

    prefixes = ("model.encoder.", "encoder.")
    frames_a_state = 2

    def __init__(self, base: BaseModel) -> None:
        super().__init__()
        self.width = base.count("d_model")
        self.max_frames = self.frames_a_state * base.count("max_source_positions", 1500)
        self.model = build("whisper.modeling_whisper.WhisperEncoder", "WhisperConfig", base)

    @property
    def layers(self) -> nn.ModuleList:
        """Return the Transformer layers."""
        layers: nn.ModuleList = self.model.layers
        return layers

    @classmethod
    def make_input(cls, base: BaseModel) -> WhisperMel:
        """Return the bands that the model's own feature extractor gives."""
        rate = base.count("sampling_rate", 16_000, part="preprocessor")
        return WhisperMel(
            num_mels=base.count("num_mel_bins", 80),
            sampling_rate=rate,
            window=base.count("n_fft", 400, part="preprocessor"),
            hop=base.count("hop_length", 160, part="preprocessor"),
        )

    def embed(self, frames: Tensor, lens: Tensor) -> tuple[Tensor, Tensor]:
        """Convolve and add positions, (B, T, M), (B,) -> (B, T', D), (B,)."""
        dtype = self.model.layer_norm.weight.dtype
        frames = frames.masked_fill(padded_frames(frames, lens), 0.0).to(dtype)
        x = functional.gelu(self.model.conv1(frames.transpose(1, 2)))  # (B, D, T)
        # The edge of an utterance looks like zeros to the second convolution as well.
        x = x.masked_fill(padded_frames(frames, lens).transpose(1, 2), 0.0)
        x = functional.gelu(self.model.conv2(x)).transpose(1, 2)  # (B, T', D)
        lens = torch.div(lens + 1, 2, rounding_mode="floor")
        return x + self.model.embed_positions.weight[: x.shape[1]], lens

    def context(self, x: Tensor, lens: Tensor) -> Tensor | None:
        """Return the bias of the keys."""
        return key_bias(lens, x)

    def run_layer(self, number: int, x: Tensor, context: Tensor | None) -> Tensor:
        """Run one layer, (B, T', D) -> (B, T', D)."""
        out: Tensor = self.layers[number](x, context)
        return out

    def finish(self, x: Tensor) -> Tensor:
        """Normalize as Whisper's decoder expects it."""
        out: Tensor = self.model.layer_norm(x)
        return out
