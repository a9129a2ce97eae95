"""How long trees take: build, save, load and tables at 100,000 units, and a 5,000-deep chain.

Run: python benchmarks/tree.py
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import numpy as np

from arborvox.tree import (
    CodeTree,
    HuffmanTree,
    balanced_tree,
    embedding_tree,
    load_tree,
    random_tree,
    save_tree,
)
from arborvox.tree.measures import entropy_bits, expected_code_length

Result = TypeVar("Result")

LIMIT_S = 2.0  # for building, and for saving and loading together
CHAIN_DEPTH = 5_000


def median_s(work: Callable[[], Result], repeats: int) -> tuple[float, Result]:
    """Run some work several times; return the median of its seconds, and its last result."""
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        result = work()
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds), result


def zipf_counts(size: int) -> list[int]:
    """Return counts as texts have them, with ties and zeros."""
    ranks = np.random.default_rng(0).permutation(size) + 1
    return [int(count) for count in 500_000 / ranks**1.2]


def chain(depth: int) -> CodeTree:
    """Return the deepest tree over depth + 1 tokens: one leaf at each level."""
    left = np.array([~token for token in range(depth)])
    right = np.append(np.arange(1, depth), ~depth)
    return CodeTree(left, right, np.full(depth + 1, 1 / (depth + 1)))


def fresh_paths(tree: CodeTree) -> CodeTree:
    """Compute the paths of a copy, since a tree keeps its own once they are made."""
    copy = CodeTree(tree.left, tree.right, tree.probabilities)
    copy.paths()
    return copy


def store(tree: CodeTree, path: Path) -> CodeTree:
    """Save and load a tree."""
    save_tree(tree, path)
    return load_tree(path)


def main() -> None:
    """Time everything and print a line for each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--units", type=int, default=100_000)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    size, repeats = options.units, options.repeats
    counts = zipf_counts(size)
    units = [f"unit{token}" for token in range(size)]

    built_s, tree = median_s(lambda: HuffmanTree.from_counts(counts, units), repeats)
    entropy, length = entropy_bits(tree.probabilities), expected_code_length(tree)
    print(f"{size:,} units, depth {tree.depth}, {length:.4f} bits a unit (entropy {entropy:.4f})")
    with tempfile.TemporaryDirectory() as folder:
        stored_s, loaded = median_s(lambda: store(tree, Path(folder) / "tree.json"), repeats)
        deep_s, deep = median_s(lambda: store(chain(CHAIN_DEPTH), Path(folder) / "deep.json"), 1)
    if loaded != tree or deep.depth != CHAIN_DEPTH:
        raise SystemExit("a tree came back changed")
    vectors = np.random.default_rng(0).normal(size=(size // 10, 64))
    few = counts[: size // 10]
    embedded_s, _ = median_s(lambda: embedding_tree(few, vectors), 1)
    rows = [
        ("build (huffman)", built_s, LIMIT_S),
        ("save and load", stored_s, LIMIT_S),
        ("paths", median_s(lambda: fresh_paths(tree), repeats)[0], None),
        ("codes", median_s(tree.codes, repeats)[0], None),
        ("path tables", median_s(tree.path_tables, repeats)[0], None),
        ("leaves below", median_s(tree.leaves_below, repeats)[0], None),
        ("build (balanced)", median_s(lambda: balanced_tree(counts), repeats)[0], None),
        ("build (random)", median_s(lambda: random_tree(counts), repeats)[0], None),
        (f"build (embedding, {len(few):,} x 64)", embedded_s, None),
        (f"chain of {CHAIN_DEPTH:,}: save and load", deep_s, None),
        (f"chain of {CHAIN_DEPTH:,}: paths", median_s(lambda: fresh_paths(deep), 1)[0], None),
    ]
    for name, seconds, limit in rows:
        verdict = "" if limit is None else f"  {seconds / limit:.2f} of the {limit:g} s allowed"
        print(f"{name:40} {seconds:8.3f} s{verdict}")


if __name__ == "__main__":
    main()
