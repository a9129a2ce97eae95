"""A command with all of its processes: how long it takes, and how much memory at most."""

import subprocess
import sys
import time
from dataclasses import dataclass

import psutil

LOOK_EVERY_S = 2.0  # to look takes time from what is looked at


@dataclass(frozen=True)
class Measured:
    """A whole run."""

    seconds: float
    peak_gb: float  # pages that processes share count once


def watch(command: list[str]) -> Measured:
    """Run a command; return its time, and the most memory that its processes had together."""
    began, peak = time.perf_counter(), 0
    process = subprocess.Popen(command)
    watched = psutil.Process(process.pid)
    while process.poll() is None:
        try:
            family = [watched, *watched.children(recursive=True)]
            peak = max(peak, sum(member.memory_full_info().pss for member in family))
        except psutil.Error:
            pass  # one has ended
        time.sleep(LOOK_EVERY_S)
    if process.returncode:
        sys.exit(f"{' '.join(command)} ended with {process.returncode}")
    return Measured(time.perf_counter() - began, peak / 1e9)
