"""A command with all of its processes: how long it takes, and how much memory at most."""

import os
import subprocess
import sys
import time
from dataclasses import dataclass

import psutil

LOOK_EVERY_S = 0.2


@dataclass(frozen=True)
class Measured:
    """A whole run."""

    seconds: float
    peak_gb: float  # the first process's peak and the most that the others had together


def watch(command: list[str]) -> Measured:
    """Run a command; return its time and its memory.

    The first process's peak is the system's own count; those that it starts are looked at. Pages
    that they share count for each, so less is true.
    """
    began, others = time.perf_counter(), 0
    process = subprocess.Popen(command)
    watched = psutil.Process(process.pid)
    while True:
        ended, status, usage = os.wait4(process.pid, os.WNOHANG)
        if ended:
            break
        try:
            family = watched.children(recursive=True)
            others = max(others, sum(member.memory_info().rss for member in family))
        except psutil.Error:
            pass  # one has ended
        time.sleep(LOOK_EVERY_S)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"{' '.join(command)} ended with {process.returncode}")
    own = usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    return Measured(time.perf_counter() - began, (own + others) / 1e9)
