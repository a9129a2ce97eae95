"""Random zeros inside Numba loops: a hash of the place decides, so nothing is kept or drawn."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from arborvox.kernels.compiling import exact_kernel

# 32 random bits decide about one element.
LEVELS = 1 << 32


@dataclass(frozen=True)
class Chance:
    """What a kernel needs to drop elements, and to drop the same ones again in the gradient."""

    seed: np.uint32
    dropped: np.uint32  # of 2^32
    scale: np.float32  # of the elements that are kept

    @classmethod
    def draw(cls, rate: float, scale: float = 1.0) -> "Chance":
        """Draw a seed from torch's generator; a share of `rate` is dropped, the mean is `scale`."""
        seed = np.uint32(torch.randint(0, LEVELS, ()).item())
        return cls(seed, np.uint32(round(rate * LEVELS)), np.float32(scale / (1.0 - rate)))

    @property
    def numbers(self) -> tuple[np.uint32, np.uint32, np.float32]:
        """Return the fields as arguments of a kernel."""
        return self.seed, self.dropped, self.scale


@exact_kernel
def row_bits(row: int, seed: Any) -> Any:
    """Return random bits for a row of elements (murmur3's mix of its place)."""
    # Numba widens sums and products of 32 bits to 64; each is cut back, as the mix wants it.
    bits = np.uint32(np.uint32(np.uint32(row) * np.uint32(0x9E3779B1)) + seed)
    bits = np.uint32((bits ^ np.uint32(bits >> np.uint32(16))) * np.uint32(0x85EBCA6B))
    bits = np.uint32((bits ^ np.uint32(bits >> np.uint32(13))) * np.uint32(0xC2B2AE35))
    return np.uint32(bits ^ np.uint32(bits >> np.uint32(16)))


@exact_kernel
def keep_factor(column: int, of_row: Any, dropped: Any, scale: Any) -> Any:
    """Return the scale, or 0 for an element that is dropped; `of_row` are its row's bits."""
    bits = np.uint32(np.uint32(np.uint32(column) * np.uint32(0x9E3779B1)) ^ of_row)
    bits = np.uint32(np.uint32(bits ^ np.uint32(bits >> np.uint32(15))) * np.uint32(0x85EBCA6B))
    bits = np.uint32(np.uint32(bits ^ np.uint32(bits >> np.uint32(13))) * np.uint32(0xC2B2AE35))
    return np.float32(0.0) if bits < dropped else scale
