"""Encoders that end in layers of our own: Conformer or Transformer, with relative positions."""

import torch
from torch import Tensor, nn

from arborvox.config import ModelConfig
from arborvox.model.attention import sinusoids
from arborvox.model.dropout import Dropout
from arborvox.model.encoders.contract import EncoderStates, SpeechEncoder
from arborvox.model.layers import Padding

Waves = tuple[Tensor, Tensor]


class StackedEncoder(SpeechEncoder):
    """Vectors of width D from a subclass's front end, through layers and a last norm."""

    def _build_stack(self, config: ModelConfig, make_layer: type[nn.Module]) -> None:
        """Make the layers; called when the front end is there, so that weights keep their draws."""
        self.head_size = config.width // config.heads
        self.dropout = Dropout(config.dropout)
        self.layers = nn.ModuleList(make_layer(config) for _ in range(config.encoder_layers))
        self.final_norm = nn.LayerNorm(config.width)
        self.middle = len(self.layers) // 2 if config.middle_ctc > 0 else None

    def _run_stack(self, x: Tensor, lens: Tensor) -> EncoderStates:
        """Transform the front end's vectors, (B, T', D), (B,)."""
        x = self.dropout(x)
        waves = sinusoids(x.shape[1], self.head_size, like=x)
        padding = Padding.of(lens, x.shape[1], x.dtype)
        middle = None
        for number, layer in enumerate(self.layers, start=1):
            x = layer(x, waves, padding)
            if number == self.middle:
                middle = self.final_norm(x)
        return self.final_norm(x), lens, middle


def padded_frames(frames: Tensor, lens: Tensor) -> Tensor:
    """Say which frames of (B, T, …) are beyond their utterance, (B, T, 1)."""
    places = torch.arange(frames.shape[1], device=frames.device)
    return (places >= lens[:, None])[:, :, None]
