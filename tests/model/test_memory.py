"""Freed memory: it comes back without page faults, where the C library can be told so."""

import subprocess
import sys

import pytest

CODE = """
import resource, sys, torch
from arborvox.model.memory import keep_freed_memory
if not keep_freed_memory():
    sys.exit(3)
def work():
    tensors = [torch.ones(8_000_000) for _ in range(8)]
for _ in range(4):  # until the heap has found its shape
    work()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
work()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def test_memory_used_before_costs_no_page_faults() -> None:
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=False)
    if done.returncode == 3:
        pytest.skip("the C library is not glibc")
    # 256 MB are 62,500 pages; a handful belongs to the interpreter itself.
    assert int(done.stdout) < 1000
