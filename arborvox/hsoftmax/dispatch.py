"""The one place that chooses which implementation of H-Softmax runs."""

import importlib.util
from functools import cache
from types import ModuleType

import torch
from torch import Tensor

from arborvox.errors import ArborvoxError
from arborvox.hsoftmax import reference

KERNELS = ("auto", "reference", "numba", "triton")


def choose(kernel: str, h: Tensor) -> ModuleType:
    """Return the module whose path_nll, leaf_smoothed_nll, log_probs, topk and greedy to call.

    Under torch.compile it is always the reference, because a compiler can only see into that one.
    """
    if kernel == "reference" or torch.compiler.is_compiling():
        return reference
    if kernel == "auto":
        # h.is_cpu takes a quarter of the time of h.device.type, and searches take microseconds.
        return _best_on("cpu") if h.is_cpu else _best_on(h.device.type)
    if kernel == "numba" and not h.is_cpu:
        raise ArborvoxError(f"The Numba kernels run on a CPU, but the rows are on {h.device}.")
    return _load("cpu" if kernel == "numba" else "gpu")


def check_kernel(kernel: str) -> None:
    """Refuse a kernel that does not exist or is not installed."""
    if kernel not in KERNELS:
        raise ArborvoxError(f"Unknown kernel '{kernel}'; there are: {', '.join(KERNELS)}.")
    if kernel in ("numba", "triton") and not _installed(kernel):
        raise ArborvoxError(f"The kernel '{kernel}' needs the package {kernel}; install it first.")


@cache
def _best_on(device_type: str) -> ModuleType:
    if device_type == "cpu" and _installed("numba"):
        return _load("cpu")
    if device_type == "cuda" and _installed("triton"):
        return _load("gpu")
    return reference


@cache
def _installed(package: str) -> bool:
    return importlib.util.find_spec(package) is not None


@cache
def _load(name: str) -> ModuleType:
    return importlib.import_module(f"arborvox.hsoftmax.{name}")
