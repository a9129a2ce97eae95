"""Training steps with products of few sizes and kept code, beside products of any size.

    python benchmarks/product_sizes.py --json results/product_sizes.json
        [--preload /usr/lib/x86_64-linux-gnu/libtcmalloc_minimal.so.4]

Each step has a batch of another size, as in training: a benchmark that takes the same batches again
and again never waits for code to be written. One thread; every version has a process of its own,
and they take turns, some steps each. Where the processor has no AMX all versions but the last are
the same. --preload adds one with another allocator.
"""

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path

import numpy as np
import torch
from publishing import tell
from training import CPU, NUM_MELS, NUM_TOKENS, Batch, make_batch, make_step, make_tree

from arborvox.config import FeaturesConfig, ModelConfig, TrainConfig
from arborvox.model.asr import ASR
from arborvox.model.kernels.dispatch import without_kernels
from arborvox.model.memory import keep_freed_memory
from arborvox.model.precision import choose_precision
from arborvox.model.products import CAPACITY, KEPT_SIZES
from arborvox.report.document import Cell, Table
from arborvox.training.optimizer import make_optimizer

ANY_SIZE, FEW_SIZES, KEPT = "any size", "few sizes", "few sizes, code kept"
BY_ITSELF = 1024  # sizes whose code oneDNN keeps
BATCH_S, SHORTEST_S, LONGEST_S = 40.0, 2.0, 15.0
ROUNDS, STEPS = 6, 15
# The networks of recipes/own.yaml, from scratch and (its layers alone) on a pretrained encoder.
NETWORKS = {
    "six layers of width 128": {"width": 128, "feed_forward": 512, "encoder_layers": 6},
    "two layers of width 256": {"width": 256, "feed_forward": 1024, "encoder_layers": 2},
}
HEADER = ("network", "products", "ms a step", "steps a second, ratio")


def draw_batches(count: int) -> list[Batch]:
    """Draw batches of utterances of about one length each, no two alike."""
    chance = np.random.default_rng(0)
    batches = []
    for _ in range(count):
        longest_s = chance.uniform(SHORTEST_S, LONGEST_S)
        shares = chance.uniform(0.93, 1.0, int(BATCH_S / longest_s))
        batches.append(make_batch(np.sort(shares) * longest_s))
    return batches


def take_steps(network: str, version: str) -> None:
    """Take some steps for each line of the input, and print how long they took."""
    torch.set_num_threads(1)
    keep_freed_memory()
    shape = {"size": "small", "heads": 4, "channels": 32, "decoder_layers": 2, "output": "softmax"}
    torch.manual_seed(0)
    config = ModelConfig.model_validate({**shape, **NETWORKS[network]})
    model = ASR(config, FeaturesConfig(num_mels=NUM_MELS), NUM_TOKENS, make_tree())
    precision = choose_precision("auto", CPU, config.width)
    step = make_step(model, make_optimizer(model, TrainConfig()), precision)
    batches = iter(draw_batches((ROUNDS + 2) * STEPS))
    with without_kernels("products") if version == ANY_SIZE else nullcontext():
        for _ in sys.stdin:
            begin = time.process_time()
            for _ in range(STEPS):
                step(next(batches))
            print((time.process_time() - begin) / STEPS, flush=True)


@contextmanager
def in_own_process(
    network: str, version: str, preload: str | None
) -> Iterator[subprocess.Popen[str]]:
    """Start a process that takes steps when it is told to."""
    environment = dict(os.environ)
    environment[CAPACITY] = str(BY_ITSELF if version in (ANY_SIZE, FEW_SIZES) else KEPT_SIZES)
    if version not in (ANY_SIZE, FEW_SIZES, KEPT) and preload:
        environment["LD_PRELOAD"] = preload
    command = [sys.executable, __file__, "--network", network, "--version", version]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, env=environment, stdin=pipe, stdout=pipe, text=True) as process:
        yield process
        assert process.stdin is not None
        process.stdin.close()


def ask(process: subprocess.Popen[str]) -> float:
    """Let a process take its steps; return the seconds of one."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("\n")
    process.stdin.flush()
    return float(process.stdout.readline())


def compare(network: str, versions: list[str], preload: str | None) -> list[tuple[Cell, ...]]:
    """Time the versions in turns; the first two turns warm them up."""
    with ExitStack() as stack:
        processes = [stack.enter_context(in_own_process(network, v, preload)) for v in versions]
        turns = [[ask(process) for process in processes] for _ in range(ROUNDS + 2)]
    times = np.median(turns[2:], axis=0)
    return [
        (Cell(network), Cell(version), Cell(f"{1000 * s:.0f}"), Cell(f"{times[0] / s:.2f}"))
        for version, s in zip(versions, times, strict=True)
    ]


def main() -> None:
    """Print the table, and write it where asked."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--preload", help="another allocator")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--network", help=argparse.SUPPRESS)
    parser.add_argument("--version", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.version:
        take_steps(arguments.network, arguments.version)
        return
    versions = [ANY_SIZE, FEW_SIZES, KEPT]
    if arguments.preload:
        name = Path(arguments.preload).name.partition(".")[0]
        versions.append(f"{KEPT}, {name}")
    rows = [row for network in NETWORKS for row in compare(network, versions, arguments.preload)]
    tell({"steps": Table(HEADER, tuple(rows), num_labels=2)}, arguments.json)


if __name__ == "__main__":
    main()
