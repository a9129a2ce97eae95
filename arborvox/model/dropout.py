"""Dropout whose random bits cost next to nothing on a CPU, repeatable from torch's generator."""

import math
from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from arborvox.kernels.compiling import exact_kernel
from arborvox.model.kernels.dispatch import suits_kernel

# 16 random bits decide about one element, so a rate is kept to 1 / 65536.
LEVELS = 1 << 16

# Neither numpy nor Numba has bfloat16: elements are written as the bits of whole numbers.
WHOLE_NUMBERS = {
    torch.bfloat16: torch.int16,
    torch.float16: torch.int16,
    torch.float32: torch.int32,
    torch.float64: torch.int64,
}

Filler = Callable[[NDArray[np.uint64], np.uint64, np.uint64, np.uint64], None]


def _make_filler(lanes: int) -> Filler:
    """Compile the loop for so many elements in a word of 64 bits; a constant, so it unrolls."""
    lane_bits = 64 // lanes

    @exact_kernel
    def fill(
        words: NDArray[np.uint64], seed: np.uint64, dropped: np.uint64, pattern: np.uint64
    ) -> None:
        for place in range(words.size):
            # splitmix64 of a counter: no state between words, so LLVM can take eight at once.
            bits = seed + np.uint64(place) * np.uint64(0x9E3779B97F4A7C15)
            bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
            bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
            bits ^= bits >> np.uint64(31)
            word = np.uint64(0)
            for lane in range(lanes):
                shift = np.uint64(lane * lane_bits)
                if (bits >> shift) & np.uint64(0xFFFF) >= dropped:
                    word |= pattern << shift
            words[place] = word

    return fill


FILLERS = {lanes: _make_filler(lanes) for lanes in (1, 2, 4)}


def dropout_mask(like: Tensor, rate: float, scale: float = 1.0) -> Tensor:
    """Return a mask of the shape of `like`: 0 at a share of `rate`, of mean `scale` elsewhere."""
    if not suits_kernel("dropout", like, dtype=None):
        return functional.dropout(torch.full_like(like, scale), rate)
    kept = torch.tensor(scale / (1.0 - rate), dtype=like.dtype)
    # bfloat16 rounds 1 / (1 - rate); the rate follows it, so that the mean stays exact.
    dropped = LEVELS - round(LEVELS * scale / float(kept))
    pattern = int(kept.view(WHOLE_NUMBERS[like.dtype]).item()) % (1 << (8 * kept.itemsize))
    lanes = 8 // kept.itemsize
    words = torch.empty(math.ceil(like.numel() / lanes), dtype=torch.int64)
    seed = int(torch.randint(0, 2**63 - 1, ()).item())
    FILLERS[lanes](
        words.numpy().view(np.uint64), np.uint64(seed), np.uint64(dropped), np.uint64(pattern)
    )
    return words.view(like.dtype)[: like.numel()].view(like.shape)


class Dropout(nn.Module):
    """Zero a share of the elements in training; the rest is scaled up to keep the mean."""

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.rate = rate
        self.resting = False

    def forward(self, x: Tensor) -> Tensor:
        """Drop from a tensor of any shape."""
        return x * dropout_mask(x, self.rate) if self.active else x

    def add_to(self, residual: Tensor, x: Tensor, scale: float = 1.0) -> Tensor:
        """Return residual + scale * dropout(x) in one pass over memory."""
        if self.active:
            return torch.addcmul(residual, x, dropout_mask(x, self.rate, scale))
        return torch.add(residual, x, alpha=scale)

    def add_and_normalize(
        self, residual: Tensor, x: Tensor, norm: nn.LayerNorm, scale: float = 1.0
    ) -> tuple[Tensor, Tensor]:
        """Return residual + scale * dropout(x), and its norm."""
        total = self.add_to(residual, x, scale)
        return total, norm(total)

    @property
    def active(self) -> bool:
        """Say whether anything is dropped now."""
        return self.training and self.rate > 0 and not self.resting

    def extra_repr(self) -> str:
        """Name the rate."""
        return f"rate={self.rate}"


def rest_dropout(model: nn.Module, *, resting: bool) -> None:
    """Let all dropout of a network rest, or wake it up."""
    for module in model.modules():
        if isinstance(module, Dropout):
            module.resting = resting
