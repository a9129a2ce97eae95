"""Interleaved timing: every case once a round, so that what disturbs one disturbs all."""

import ctypes
import gc
import os
import platform
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import numpy as np
import torch

Case = Callable[[], object]


@dataclass(frozen=True)
class Timing:
    """The times of one case, a sample a round."""

    samples_s: tuple[float, ...]

    @property
    def median_s(self) -> float:
        """The middle sample."""
        return float(np.median(self.samples_s))

    @property
    def quartiles_s(self) -> tuple[float, float]:
        """A quarter of the samples lies below the first, a quarter above the second."""
        low, high = np.percentile(self.samples_s, (25, 75))
        return float(low), float(high)

    @property
    def spread(self) -> float:
        """Distance of the quartiles as a share of the median."""
        low, high = self.quartiles_s
        return (high - low) / self.median_s

    def as_json(self) -> dict[str, object]:
        """Return the raw figures, in microseconds."""
        return {
            "median_us": round(self.median_s * 1e6, 2),
            "spread": round(self.spread, 3),
            "samples_us": [round(sample * 1e6, 1) for sample in self.samples_s],
        }


def interleave(
    cases: Mapping[str, Case],
    *,
    budget_s: float,
    sample_s: float = 1e-3,
    rounds: tuple[int, int] = (3, 100),
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, Timing]:
    """Time the cases in turn, as many rounds (within the bounds) as the budget allows.

    A sample is the mean of as many calls in a row as fill `sample_s`; with 0 it is a single call,
    which finds the caches as the case before left them. The order changes from round to round.
    With `time.process_time` as the clock other processes disturb single-threaded cases less: on a
    busy machine long calls are interrupted more often than short ones, which would bias ratios.
    """
    repeats = {}
    round_s = 0.0
    for name, case in cases.items():
        case()  # compiles, and fills caches
        once_s = _duration_s(case, 1, clock)
        if once_s < sample_s:
            once_s = min(once_s, *(_duration_s(case, 1, clock) for _ in range(5)))
        repeats[name] = max(1, round(sample_s / once_s))
        round_s += once_s * repeats[name]
    num_rounds = int(min(max(budget_s / round_s, rounds[0]), rounds[1]))
    samples: dict[str, list[float]] = {name: [] for name in cases}
    names, order = list(cases), np.random.default_rng(0)
    gc.collect()
    gc.disable()
    try:
        for _ in range(num_rounds):
            for name in order.permutation(names):
                samples[name].append(_duration_s(cases[name], repeats[name], clock) / repeats[name])
    finally:
        gc.enable()
    return {name: Timing(tuple(times)) for name, times in samples.items()}


def _duration_s(case: Case, repeats: int, clock: Callable[[], float]) -> float:
    start_s = clock()
    for _ in range(repeats):
        case()
    return clock() - start_s


def peak_memory_mb(case: Case) -> float | None:
    """Return how far one call raises the process's resident memory; None where not measurable.

    The kernel's high-water mark is set back before the call, and freed memory given back, so that
    what an earlier call left behind does not hide what this one needs.
    """
    clear, status = Path("/proc/self/clear_refs"), Path("/proc/self/status")
    if not clear.exists():
        return None
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    clear.write_text("5")
    before_kb = _status_kb(status, "VmRSS")
    case()
    return (_status_kb(status, "VmHWM") - before_kb) / 1024


def _status_kb(status: Path, key: str) -> int:
    # VmHWM:    123456 kB
    for line in status.read_text().splitlines():
        if line.startswith(f"{key}:"):
            return int(line.split()[1])
    raise RuntimeError(f"{status} has no line {key}.")


def describe_machine() -> dict[str, str]:
    """Return what the figures depend on: processor and versions, and nothing that names a host."""
    return {
        "processor": _processor(),
        "cores": str(os.cpu_count()),
        "capability": torch.backends.cpu.get_cpu_capability(),
        "system": platform.system(),
        "python": platform.python_version(),
        **{name: version(name) for name in ("torch", "numba", "numpy")},
    }


def _processor() -> str:
    information = Path("/proc/cpuinfo")
    if information.exists():
        # model name      : AMD EPYC
        for line in information.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor()
