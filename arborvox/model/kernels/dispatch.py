"""The one place that says where a kernel of ours computes instead of torch's own operations."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from arborvox.kernels.devices import KERNEL_ON

# What each computes in one pass over memory; without it the network computes the same by torch.
KERNELS = {
    "relative_attention": "self-attention with relative positions, and softmax of frozen encoders",
    "feed_forward": "bias, SiLU and dropout between two linear layers",
    "depthwise": "the depthwise convolution over time",
    "dropout": "the random mask of all other dropout",
    "products": "linear layers that learn, on processors with AMX",
    "ctc": "the CTC loss and its gradient",
    "mixture": "the kept states of a frozen encoder's layers as one",
}
_enabled = set(KERNELS)


def suits_kernel(
    name: str, x: Tensor, *, dtype: torch.dtype | None = torch.bfloat16, cast: bool = False
) -> bool:
    """Say whether a kernel of ours can compute with a tensor: its type, on a CPU, not traced.

    With `cast` it need not have the type yet: that autocast would give it is enough.
    """
    # Asked for first: a compiler that traces the network must not meet what follows.
    if torch.compiler.is_compiling() or name not in _enabled:
        return False
    if KERNEL_ON.get("cpu" if x.is_cpu else x.device.type) != "numba":
        return False
    if dtype is None:
        return True
    autocast = cast and torch.is_autocast_enabled("cpu")
    return (torch.get_autocast_dtype("cpu") if autocast else x.dtype) is dtype


def is_exported() -> bool:
    """Say whether the network is being written down as a graph, for any batch and length.

    Then nothing may depend on what tensors hold, nor on how long they are.
    """
    return torch.onnx.is_in_onnx_export()


@contextmanager
def without_kernels(*names: str) -> Iterator[None]:
    """Let torch compute what these kernels do: for tests, and for measuring what they bring."""
    for name in names:
        if name not in KERNELS:
            raise ValueError(f"there is no kernel {name!r}")
    switched_off = _enabled & set(names)
    _enabled.difference_update(switched_off)
    try:
        yield
    finally:
        _enabled.update(switched_off)
