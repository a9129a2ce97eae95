"""bfloat16 in Numba, which has no such type: its bits in, float32 to compute with, its bits out.

Kernels that take float32 as well use `as_numbers`, `read` and `write`, which are compiled for
either.
"""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from arborvox.kernels.compiling import EXACT_ORDER, exact_kernel

try:
    from numba import types
    from numba.extending import overload
except ModuleNotFoundError:  # then nothing is compiled, and kernels of either type are not asked
    overload = None

# For the compiler's choice between the two types, as `exact_kernel` has it.
_EXACT = {"fastmath": set(EXACT_ORDER), "error_model": "numpy"}


def as_bits(x: Tensor) -> NDArray[np.uint16]:
    """Return a contiguous bfloat16 tensor as the bits that NumPy can hold, in the same memory."""
    bits: NDArray[np.uint16] = x.detach().view(torch.int16).numpy().view(np.uint16)
    return bits


def as_numbers(x: Tensor) -> NDArray[Any]:
    """Return a contiguous tensor for `read` and `write`: bfloat16 as its bits, or float32."""
    return as_bits(x) if x.dtype is torch.bfloat16 else x.detach().numpy()


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


def read(number: Any) -> Any:
    """Return what stands in an array of `as_numbers`, as a float32."""
    return widen(number) if isinstance(number, np.uint16) else number


def write(value: Any, numbers: Any) -> Any:
    """Return a float32 as the type of an array of `as_numbers` has it."""
    return narrow(value) if numbers.dtype == np.uint16 else value


if overload is not None:

    @overload(read, jit_options=_EXACT)  # type: ignore[untyped-decorator, unused-ignore]
    def _read(number: Any) -> Any:
        def widened(number: Any) -> Any:
            return widen(number)

        def as_it_is(number: Any) -> Any:
            return number

        return widened if number == types.uint16 else as_it_is

    @overload(write, jit_options=_EXACT)  # type: ignore[untyped-decorator, unused-ignore]
    def _write(value: Any, numbers: Any) -> Any:
        def narrowed(value: Any, numbers: Any) -> Any:
            return narrow(value)

        def as_it_is(value: Any, numbers: Any) -> Any:
            return np.float32(value)

        return narrowed if numbers.dtype == types.uint16 else as_it_is
