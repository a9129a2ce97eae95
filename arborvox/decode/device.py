"""Which processor the network computes on."""

import os

import torch

from arborvox.errors import ArborvoxError


def choose_device(wanted: str) -> torch.device:
    """Turn "auto" into a GPU where there is one; refuse one that is not there."""
    num_gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
    has_mps = torch.backends.mps.is_available()
    if wanted == "auto" and num_gpus:  # each of several processes takes its own
        return torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")) % num_gpus)
    if wanted == "auto":
        return torch.device("mps" if has_mps else "cpu")
    device = torch.device(wanted)
    if device.type == "cuda" and (device.index or 0) >= num_gpus:
        there = f"there are {num_gpus}, counted from 0" if num_gpus else "torch finds no CUDA GPU"
        raise ArborvoxError(f"Device {wanted} cannot be used: {there}; choose another, or auto.")
    if device.type == "mps" and not has_mps:
        raise ArborvoxError("Device mps cannot be used: this is no Mac with a GPU; choose auto.")
    return device
