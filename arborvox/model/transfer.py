"""The one way of a batch from the memory of the machine to the device that computes."""

from collections.abc import Sequence

import torch
from torch import Tensor


def to_device(tensors: Sequence[Tensor], device: torch.device) -> tuple[Tensor, ...]:
    """Move tensors; to a GPU from pinned memory, so that it may go on computing meanwhile."""
    if device.type != "cuda":
        return tuple(tensor.to(device) for tensor in tensors)
    return tuple(
        (tensor if tensor.is_cuda else tensor.pin_memory()).to(device, non_blocking=True)
        for tensor in tensors
    )
