"""Whisper's encoder on an utterance's own length, instead of 30 seconds of mostly silence.

It was taught with that silence, though, and its states are others without it: the shorter an
utterance, the more. So it can be given the silence in summary: some states of it right behind the
utterance, and a few that stand for all the rest, each heard as if it were as many as it stands for.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from arborvox.model.encoders.pretrained.base_model import BaseModel
from arborvox.model.encoders.pretrained.inputs import WhisperMel
from arborvox.model.encoders.pretrained.network import PretrainedNetwork, build, key_bias
from arborvox.model.encoders.pretrained.whisper_joined import (
    JoinedLayer,
    JoinedRows,
    RowConvolution,
)
from arborvox.model.encoders.stack import padded_frames
from arborvox.model.kernels.dispatch import is_exported
from arborvox.model.kernels.int8 import is_fast_here

NEAR_SILENCE = 16  # states right behind an utterance
FAR_SILENCE = 8  # and those that stand for all that follow
SILENCE_BELOW = 2.0  # the loudest band: 80 dB in the unit of Whisper's bands
FRAMES_STEP = 16  # what convolutions are given is filled up to a multiple: a new size costs time


class _Places(NamedTuple):
    """Where the states of an utterance and its silence stand in Whisper's 30 seconds."""

    position: Tensor  # (B, T')
    stands_for: Tensor  # (B, T'), 0 where there is nothing


class WhisperNetwork(PretrainedNetwork):
    """Two convolutions, fixed positions, and Transformer layers.

    Longer speech than there are positions for is heard in windows, whose states are put together.
    """

    prefixes = ("model.encoder.", "encoder.")
    frames_a_state = 2
    max_frames: int
    _num_int8 = 0

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

    def hear_silence(self) -> None:
        """Hear what is left of 30 seconds behind each utterance, in summary."""
        self.num_silent = NEAR_SILENCE + FAR_SILENCE

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
        """Convolve and add positions, (B, T, M), (B,) -> (B, T', D), (B,), silence included."""
        if self.num_silent:
            return self._embed_with_silence(frames, lens)
        x = self._convolve(frames, lens)
        lens = torch.div(lens + 1, 2, rounding_mode="floor")
        return x + self.model.embed_positions.weight[: x.shape[1]], lens

    def _embed_with_silence(self, frames: Tensor, lens: Tensor) -> tuple[Tensor, Tensor]:
        padded = padded_frames(frames, lens)
        silence = frames.masked_fill(padded, -torch.inf).amax((1, 2), keepdim=True) - SILENCE_BELOW
        # So many that one more state than is near hears nothing but silence.
        more = self.frames_a_state * (NEAR_SILENCE + 2)
        frames = functional.pad(frames, (0, 0, 0, more))
        frames = torch.where(padded_frames(frames, lens), silence, frames)
        x = self._convolve(frames, lens + more)
        x = functional.pad(x, (0, 0, 0, FAR_SILENCE - 2))
        lens = torch.div(lens + 1, 2, rounding_mode="floor") + self.num_silent
        # All silence that is not near sounds like the first of it.
        index = torch.arange(x.shape[1], device=x.device).minimum((lens - FAR_SILENCE)[:, None])
        rows = torch.arange(x.shape[0], device=x.device)  # by len(x) a graph would count but one
        x = x[rows[:, None], index]
        return x + self.model.embed_positions.weight[self._places(x, lens).position], lens

    def _convolve(self, frames: Tensor, lens: Tensor) -> Tensor:
        """Run both convolutions, (B, T, M), (B,) -> (B, T', D)."""
        x = frames.to(self.model.layer_norm.weight.dtype)
        for convolution in (self.model.conv1, self.model.conv2):
            # The edge of an utterance looks like zeros to both.
            x = _clear_padding(x, lens)
            if isinstance(convolution, RowConvolution):
                x = convolution(x)
            else:
                x = convolution(x.transpose(1, 2)).transpose(1, 2)
            x = functional.gelu(x)
        return x

    def _places(self, x: Tensor, lens: Tensor) -> _Places:
        """Place states of (B, T', D), of which each utterance's last ones are its silence."""
        most = self.max_frames // self.frames_a_state
        index = torch.arange(x.shape[1], device=x.device)
        first_far = (lens - FAR_SILENCE)[:, None]
        each = (most - first_far).clamp(min=0) / FAR_SILENCE  # positions a far state stands for
        far = index - first_far
        position = torch.where(far < 0, index, first_far + ((far + 0.5) * each).long())
        stands_for = torch.where(far < 0, torch.ones_like(each), each)
        is_there = (index < lens[:, None]) & (position < most)
        return _Places(position.clamp(max=most - 1), stands_for * is_there)

    def context(self, x: Tensor, lens: Tensor) -> Tensor | None:
        """Return the bias of the keys."""
        if not self.num_silent:
            return key_bias(lens, x)
        return self._places(x, lens).stands_for.log().to(x.dtype)[:, None, None, :]

    def run_layer(self, number: int, x: Tensor, context: Tensor | None) -> Tensor:
        """Run one layer, (B, T', D) -> (B, T', D)."""
        out: Tensor = self.layers[number](x, context)
        return out

    def run_last_layer(self, number: int, x: Tensor, context: Tensor | None) -> Tensor:
        """Run one layer for states that are not silence."""
        layer = self.layers[number]
        if not isinstance(layer, JoinedLayer):
            return self.run_layer(number, x, context)
        out: Tensor = layer(x, context, x.shape[1] - self.num_silent)
        return out

    @property
    def can_join(self) -> bool:
        """Whether the layers take joined utterances, and give each what it would have alone.

        Products in fp32 are rounded otherwise where there are more rows.
        """
        is_rounded = self.model.layer_norm.weight.dtype is torch.bfloat16
        return is_rounded and isinstance(self.layers[0], JoinedLayer)

    def join(self, utterances: Sequence[Tensor]) -> tuple[Tensor, JoinedRows]:
        """Convolve each by itself and join them, (T, M) each -> (R, D)."""
        parts, biases = [], []
        for frames in utterances:
            lens = torch.tensor([len(frames)], device=frames.device)
            filled = functional.pad(frames, (0, 0, 0, -len(frames) % FRAMES_STEP))
            x, lens = self.embed(filled[None], lens)
            x = x[:, : int(lens)]
            parts.append(x[0])
            biases.append(self.context(x, lens))
        return JoinedRows.of(parts, biases)

    def run_rows(self, number: int, x: Tensor, rows: JoinedRows, left_out: int) -> Tensor:
        """Run one layer on joined utterances, or without the last rows of each."""
        layer = self.layers[number]
        assert isinstance(layer, JoinedLayer)
        return layer.run_rows(x, rows, left_out)

    def quantize(self, num_layers: int) -> None:
        """Let the lowest layers multiply 8-bit numbers once they are packed."""
        if self.model.config.activation_function == "gelu":  # what the kernel computes
            self._num_int8 = num_layers

    @property
    def packed_key(self) -> str:
        """Say how many layers multiply 8-bit numbers here."""
        return f"|int8 {self._num_int8}" if self._num_int8 and is_fast_here() else ""

    def pack(self) -> None:
        """Lay out the weights for the processor, and compute by fewer products."""
        layers = list(map(JoinedLayer, self.layers))
        if self.packed_key:
            for layer in layers[: self._num_int8]:
                layer.quantize()
        self.model.layers = nn.ModuleList(layers)
        self.model.conv1 = RowConvolution(self.model.conv1)
        self.model.conv2 = RowConvolution(self.model.conv2)
        super().pack()

    def finish(self, x: Tensor) -> Tensor:
        """Normalize as Whisper's decoder expects it."""
        out: Tensor = self.model.layer_norm(x)
        return out


def _clear_padding(x: Tensor, lens: Tensor) -> Tensor:
    """Return (B, T, D) with zeros behind each utterance."""
    padded = padded_frames(x, lens)
    if x.device.type == "cpu" and not is_exported() and not padded.any():
        return x
    return x.masked_fill(padded, 0.0)
