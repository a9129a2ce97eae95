"""Triton programs against the reference, in Triton's interpreter, which needs no GPU."""

import os
import subprocess
import sys

import pytest

pytest.importorskip("triton", reason="triton is not installed")

# The interpreter must be chosen before triton is imported, so the check has its own process.
CHECK = """
import numpy as np
import torch
from arborvox.hsoftmax import gpu, reference
from arborvox.hsoftmax.tables import TreeTables
from arborvox.tree import HuffmanTree

def results(kernels, tables, h, weight, targets, smoothing):
    h, weight = h.clone().requires_grad_(), weight.clone().requires_grad_()
    losses = kernels.path_nll(h, weight, targets, tables, smoothing, False)
    scores = kernels.log_probs(h, weight, tables)
    rows = torch.linspace(-1, 1, len(h), dtype=h.dtype)
    mix = (scores * torch.linspace(0, 1, scores.shape[1], dtype=h.dtype)).sum()
    (losses @ rows + mix).backward()
    best = kernels.topk(h, weight, tables, 2)
    return losses, scores, h.grad, weight.grad, *best

for V, D, N in ((2, 3, 4), (9, 16, 3), (140, 20, 1), (5, 4, 0)):
    tables = TreeTables.of_tree(HuffmanTree.from_counts(np.arange(1, V + 1) ** 3))
    for dtype, scale in ((torch.float32, 1.0), (torch.float64, 1.0), (torch.float32, 1e4)):
        torch.manual_seed(V)
        h, weight = torch.randn(N, D, dtype=dtype), scale * torch.randn(V - 1, D, dtype=dtype)
        targets = torch.randint(0, V, (N,))
        for smoothing in (0.0, 0.1):
            made = results(gpu, tables, h, weight, targets, smoothing)
            wanted = results(reference, tables, h, weight, targets, smoothing)
            for a, b in zip(made, wanted, strict=True):
                torch.testing.assert_close(a, b, rtol=2e-5, atol=2e-5)
print("equal")
"""


def test_programs_equal_the_reference_in_values_and_gradients() -> None:
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    done = subprocess.run(
        [sys.executable, "-c", CHECK], env=environment, capture_output=True, text=True, check=False
    )
    if "equal" not in done.stdout and "interpreter" in done.stderr.lower():
        pytest.skip(f"Triton's interpreter does not run here: {done.stderr.splitlines()[-1]}")
    assert done.returncode == 0, done.stderr
