"""The one place that chooses how H-Softmax is computed: by device, and by size."""

import importlib.util
from functools import cache
from types import ModuleType

import torch
from torch import Tensor

from arborvox.errors import ArborvoxError
from arborvox.hsoftmax import reference
from arborvox.kernels.devices import KERNEL_ON

MODULES = {"numba": "cpu", "triton": "gpu"}
KERNELS = ("auto", "reference", "numba", "triton")

# The search opens about 6 gates for each of the k best at V = 340 and 12 at V = 50,000. Past a
# quarter of all gates one matrix product for all of them is the cheaper way.
GATES_PER_RESULT = 8
SMALLEST_SEARCH_LIMIT = 128
# Beyond this, keeping the k best in order by insertion costs more than sorting all.
LARGEST_INSERTED_K = 64
# The search by a queue is the faster one up to this many results.
LARGEST_QUEUED_K = 2


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
    return _load(MODULES[kernel])


def most_opened_gates(num_gates: int) -> int:
    """Return how many gates a search on a CPU may open before it scores every leaf instead."""
    return max(SMALLEST_SEARCH_LIMIT, num_gates // 4)


def reads_every_gate(k: int, limit: int) -> bool:
    """Say whether so many results are found faster by scoring every leaf at once."""
    return k > LARGEST_INSERTED_K or k * GATES_PER_RESULT > limit


def check_kernel(kernel: str) -> None:
    """Refuse a kernel that does not exist or is not installed."""
    if kernel not in KERNELS:
        raise ArborvoxError(f"Unknown kernel '{kernel}'; there are: {', '.join(KERNELS)}.")
    if kernel in ("numba", "triton") and not _installed(kernel):
        raise ArborvoxError(f"The kernel '{kernel}' needs the package {kernel}; install it first.")


@cache
def _best_on(device_type: str) -> ModuleType:
    kernel = KERNEL_ON.get(device_type)
    return _load(MODULES[kernel]) if kernel and _installed(kernel) else reference


@cache
def _installed(package: str) -> bool:
    return importlib.util.find_spec(package) is not None


@cache
def _load(name: str) -> ModuleType:
    return importlib.import_module(f"arborvox.hsoftmax.{name}")
