"""Parts that encoder and decoder layers share: padding masks, feed-forward, convolution module."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from arborvox.model.dropout import Dropout
from arborvox.model.kernels.activation import silu_dropout
from arborvox.model.kernels.depthwise import DepthwiseConvolution
from arborvox.model.kernels.dispatch import is_exported, suits_kernel
from arborvox.model.products import Linear, linear


@dataclass(frozen=True)
class Padding:
    """Which frames of a padded batch are not real, in the two forms that layers need."""

    frames: Tensor  # (B, T, 1) bool, true at padding
    key_bias: Tensor  # (B, 1, 1, T) 0 at real frames, -inf at padding

    @classmethod
    def of(cls, lens: Tensor, num_frames: int, dtype: torch.dtype) -> "Padding | None":
        """Return the masks for lengths (B,), or nothing where no frame is padding."""
        frames = torch.arange(num_frames, device=lens.device) >= lens[:, None]  # (B, T)
        # Asking a GPU would make it wait; there the masks are always made, and in a graph.
        if frames.device.type == "cpu" and not is_exported() and not frames.any():
            return None
        zeros = torch.zeros(frames.shape, dtype=dtype, device=lens.device)
        key_bias = zeros.masked_fill(frames, float("-inf"))
        return cls(frames[:, :, None], key_bias[:, None, None, :])


class FeedForward(nn.Module):
    """Two linear layers with an activation between them."""

    def __init__(self, width: int, hidden: int, dropout: float) -> None:
        super().__init__()
        self.expand = Linear(width, hidden)
        self.dropout = Dropout(dropout)
        self.contract = Linear(hidden, width)

    def forward(self, x: Tensor) -> Tensor:
        """Transform each frame on its own, (..., D) -> (..., D)."""
        if self.dropout.active and suits_kernel("feed_forward", x, cast=True):
            wide = linear(x, self.expand.weight)
            activated = silu_dropout(wide, self.expand.bias, self.dropout.rate)
        else:
            activated = self.dropout(functional.silu(self.expand(x)))
        out: Tensor = self.contract(activated)
        return out


class ConvolutionModule(nn.Module):
    """Conformer's convolution: gate, depthwise convolution over time, norm, activation.

    The norm is a LayerNorm where the Conformer paper has a BatchNorm: statistics over a batch
    would let padding and batch mates into a result, and would differ between one process and many.
    """

    def __init__(self, width: int, kernel: int) -> None:
        super().__init__()
        self.expand = Linear(width, 2 * width)
        self.depthwise = nn.Conv2d(
            width, width, kernel_size=(1, kernel), padding=(0, kernel // 2), groups=width
        )
        self.norm = nn.LayerNorm(width)
        self.contract = Linear(width, width)

    def forward(self, x: Tensor, padding: Padding | None) -> Tensor:
        """Mix neighboring frames, (B, T, D) -> (B, T, D)."""
        mixed = self._convolve(self._gate(x, padding))
        out: Tensor = self.contract(functional.silu(self.norm(mixed)))
        return out

    def _gate(self, x: Tensor, padding: Padding | None) -> Tensor:
        """Let each frame choose what it passes on; padding passes on zeros."""
        passed = functional.glu(self.expand(x), dim=-1)
        # The edge of an utterance looks like zeros.
        return passed if padding is None else passed.masked_fill(padding.frames, 0)

    def _convolve(self, x: Tensor) -> Tensor:
        """Convolve each channel over time, (B, T, D) -> (B, T, D)."""
        if suits_kernel("depthwise", x):
            kernels = self.depthwise.weight.flatten(1)  # (D, K)
            mixed: Tensor = DepthwiseConvolution.apply(x, kernels, self.depthwise.bias)  # type: ignore[no-untyped-call]
            return mixed
        # (B, T, D) seen as a channels-last picture of height 1: no copy, and the fast kernel.
        picture = x.unsqueeze(1).permute(0, 3, 1, 2)  # (B, D, 1, T)
        convolved: Tensor = self.depthwise(picture)
        return convolved.permute(0, 2, 3, 1).squeeze(1)
