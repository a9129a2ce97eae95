"""CTC over a tree without tensors as wide as the vocabulary: a batch's own tokens alone.

    python benchmarks/ctc_labels.py [--json results/ctc_labels.json]

CTC's loss asks for the tokens of its own utterances and the blank. A tree gives their probabilities
through the gates on their paths; over all tokens, as a softmax must, is what it is compared with.
A step is scores, loss and backward of ten utterances of 100 frames and 25 tokens, D = 256, float32,
one thread; tokens by Zipf's law, Huffman's tree of the same. Medians of CPU time, interleaved.
"""

import argparse
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median

import numpy as np
import torch
from publishing import tell
from torch import Tensor

from arborvox.config import ModelConfig
from arborvox.model import ctc as ctc_module
from arborvox.model.ctc import CTC
from arborvox.model.memory import keep_freed_memory
from arborvox.report.document import Cell, Table
from arborvox.tree import HuffmanTree

UTTERANCES, FRAMES, TOKENS, WIDTH = 10, 100, 25, 256
SIZES = (60, 340, 1000, 5000, 20000)
ROUNDS = 15
HEADER = ("V", "tokens of the batch", "tree, all tokens, ms", "tree, its own", "softmax")


def run_step(branch: CTC, encoded: Tensor, tokens: Tensor, most_of_all: float) -> float:
    """Take a step; return its CPU time in seconds."""
    ctc_module.MOST_OF_ALL = most_of_all
    lens = torch.full((UTTERANCES,), FRAMES), torch.full((UTTERANCES,), TOKENS)
    branch.zero_grad(set_to_none=True)
    rows = encoded.clone().requires_grad_()
    began = time.process_time()
    branch(rows, lens[0], tokens, lens[1]).sum().backward()
    return time.process_time() - began


def measure(size: int) -> tuple[Cell, ...]:
    """Return a row for one vocabulary: times relative to the tree over all tokens."""
    shares = 1 / np.arange(1, size + 1)
    shares /= shares.sum()
    chance = np.random.default_rng(0)
    tokens = torch.from_numpy(chance.choice(size, (UTTERANCES, TOKENS), p=shares))
    encoded = torch.randn(UTTERANCES, FRAMES, WIDTH)
    tree = HuffmanTree.from_counts(shares.tolist())
    over_tree = CTC(ModelConfig(width=WIDTH, ctc="hierarchical"), size, tree)
    softmax = CTC(ModelConfig(width=WIDTH, ctc="softmax"), size, None)
    kept = ctc_module.MOST_OF_ALL
    steps: list[Callable[[], float]] = [
        partial(run_step, over_tree, encoded, tokens, 0.0),
        partial(run_step, over_tree, encoded, tokens, kept),
        partial(run_step, softmax, encoded, tokens, kept),
    ]
    for step in steps:
        step()
    rounds = [[step() for step in steps] for _ in range(ROUNDS)]
    ctc_module.MOST_OF_ALL = kept
    over_all, own, plain = (median(times) for times in zip(*rounds, strict=True))
    words = (f"{size:,}", str(len(np.unique(tokens.numpy()))), f"{1000 * over_all:.1f}")
    return tuple(map(Cell, (*words, f"{own / over_all:.2f}", f"{plain / over_all:.2f}")))


def main() -> None:
    """Print the table, and write it where asked."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    keep_freed_memory()
    tell({"steps": Table(HEADER, tuple(measure(size) for size in SIZES))}, arguments.json)


if __name__ == "__main__":
    main()
