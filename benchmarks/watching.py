"""A command with all of its processes: how long it takes, and how much memory at most."""

import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import psutil

LOOK_EVERY_S = 0.2
# Counting the pages of gigabytes takes tens of milliseconds: a count rests this many times as long.
REST_AFTER_COUNT = 20
HELD_PAGES = ("Pss_Anon:", "Pss_Shmem:")


@dataclass(frozen=True)
class Measured:
    """A whole run."""

    seconds: float
    peak_gb: float  # the first process's peak and the most that the others had together
    held_gb: float  # the most that was seen of all, shared pages once, mapped files left out


def watch(command: list[str]) -> Measured:
    """Run a command; return its time and its memory.

    The first process's peak is the system's own count; those that it starts are looked at. Pages
    that they share count for each, so less is true. What all hold together, each shared page once
    and no pages of mapped files (the system takes those back when it needs memory), is counted now
    and then, so a peak between two counts is missed; 0 where the system does not tell (Linux does).
    """
    began, others, held, count_at = time.perf_counter(), 0, 0, 0.0
    process = subprocess.Popen(command)
    watched = psutil.Process(process.pid)
    while True:
        ended, status, usage = os.wait4(process.pid, os.WNOHANG)
        if ended:
            break
        try:
            family = watched.children(recursive=True)
            others = max(others, sum(member.memory_info().rss for member in family))
            counting = time.perf_counter()
            if counting >= count_at:
                held = max(held, sum(map(count_held, [watched.pid, *(m.pid for m in family)])))
                counted = time.perf_counter()
                count_at = counted + REST_AFTER_COUNT * (counted - counting)
        except psutil.Error:
            pass  # one has ended
        time.sleep(LOOK_EVERY_S)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"{' '.join(command)} ended with {process.returncode}")
    own = usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    return Measured(time.perf_counter() - began, (own + others) / 1e9, held / 1e9)


def count_held(pid: int) -> int:
    """Return the bytes of a process that are in no file, what it shares by its part of it."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:  # it has ended, or this is another system
        return 0
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith(HELD_PAGES))
