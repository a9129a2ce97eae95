"""What an inventory does to the search of an output layer alone: the 10 best for 10 rows.

    python benchmarks/inventories.py [--threads 1] [--budget 2]

Inventories are drawn at random, which leaves many gates alive, or hold the most frequent tokens.
Whole decodings with and without an inventory are in benchmarks/decoding.py.
"""

import argparse
import time
from functools import partial

import numpy as np
import torch
from timing import Case, interleave

from arborvox.hsoftmax import HierarchicalSoftmax, OutputLayer, Softmax
from arborvox.hsoftmax.restricted import restrict
from arborvox.tree import HuffmanTree

WIDTH, ROWS, RESULTS = 256, 10, 10
SIZES = ((340, 40), (5000, 100), (5000, 1000))  # tokens, and tokens in the inventory
DEVIATION = 0.3  # of the weights, as in benchmarks/decoding.py


def draw_inventory(kind: str, num_tokens: int, size: int) -> list[int]:
    """Return tokens; lower ones are more frequent, by Zipf's law."""
    if kind == "frequent":
        return list(range(size))
    return sorted(np.random.default_rng(0).choice(num_tokens, size, replace=False).tolist())


def make_layers(num_tokens: int) -> dict[str, OutputLayer]:
    """Return a layer of each kind with random weights."""
    torch.manual_seed(0)
    counts = (1e9 / np.arange(1, num_tokens + 1)).astype(np.int64).tolist()
    layers: dict[str, OutputLayer] = {
        "softmax": Softmax(WIDTH, num_tokens),
        "hierarchical": HierarchicalSoftmax(WIDTH, HuffmanTree.from_counts(counts)),
    }
    for layer in layers.values():
        torch.nn.init.normal_(layer.weight, std=DEVIATION)
    return layers


@torch.inference_mode()
def compare(num_tokens: int, size: int, kind: str, budget_s: float) -> list[str]:
    """Return rows of a table in Markdown."""
    h = torch.randn(ROWS, WIDTH, generator=torch.Generator().manual_seed(1))
    ids = draw_inventory(kind, num_tokens, size)
    rows = []
    for name, layer in make_layers(num_tokens).items():
        restricted = restrict(layer, ids)
        cases: dict[str, Case] = {
            "free": partial(layer.topk, h, RESULTS),
            "restricted": partial(restricted.topk, h, RESULTS),
        }
        clock = time.process_time if torch.get_num_threads() == 1 else time.perf_counter
        times = interleave(cases, budget_s=budget_s, clock=clock)
        free, narrow = times["free"], times["restricted"]
        ratio = np.median(np.divide(narrow.samples_s, free.samples_s))
        rows.append(
            f"| {size} of {num_tokens} | {kind} | {name} | {len(restricted.weight)} "
            f"| {free.median_s * 1e6:.1f} | {narrow.median_s * 1e6:.1f} | {ratio:.2f} |"
        )
    return rows


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="Output layers with and without an inventory.")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--budget", type=float, default=2.0, help="seconds for each comparison")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    print("| units | drawn | output | rows of the weight | free, µs | restricted, µs | ratio |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for num_tokens, size in SIZES:
        for kind in ("random", "frequent"):
            print("\n".join(compare(num_tokens, size, kind, options.budget)), flush=True)


if __name__ == "__main__":
    main()
