"""bfloat16 in Numba, which has no such type: its bits in, float32 to compute with, its bits out."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from arborvox.kernels.compiling import exact_kernel


def as_bits(x: Tensor) -> NDArray[np.uint16]:
    """Return a contiguous bfloat16 tensor as the bits that NumPy can hold, in the same memory."""
    bits: NDArray[np.uint16] = x.detach().view(torch.int16).numpy().view(np.uint16)
    return bits


@exact_kernel
def widen(bits: Any) -> Any:
    """Return a bfloat16 as a float32: the same bits, and zeros below."""
    return np.uint32(np.uint32(bits) << np.uint32(16)).view(np.float32)


@exact_kernel
def narrow(value: Any) -> Any:
    """Round a float32 to the nearest bfloat16, ties to even."""
    bits = np.float32(value).view(np.uint32)
    # Numba widens sums of 32 bits to 64; they are cut back.
    odd = np.uint32(np.uint32(bits >> np.uint32(16)) & np.uint32(1))
    return np.uint16(np.uint32(bits + np.uint32(0x7FFF) + odd) >> np.uint32(16))
