"""Seconds of audio trained per second of time: our default against the plain way, at two sizes.

    python benchmarks/training.py [--size small] [--threads 1] [--budget-s 60] [--json out.json]

The plain version is the same network (benchmarks/plain_network.py; equality is checked first) in
fp32, with torch's dropout, naive attention, unfused Adam and batches in random order. Both fill
batches up to 100 s, padding included; audio is what is left without the padding of the whole
corpus. Steps of all versions alternate and medians are compared, so that a busy neighbor disturbs
all alike. Each has a process of its own; the default keeps the memory that a step has freed, as
`arborvox train` does.
"""

import argparse
import copy
import itertools
import multiprocessing
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from plain_network import make_plain
from publishing import print_table, publish
from timing import describe_machine, interleave, peak_memory_mb
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from arborvox.batching import cut_batches
from arborvox.config import FeaturesConfig, ModelConfig, TrainConfig
from arborvox.model.asr import ASR
from arborvox.model.memory import keep_freed_memory
from arborvox.model.precision import autocast, choose_precision
from arborvox.report.document import Cell, Table
from arborvox.training.optimizer import make_optimizer
from arborvox.tree import HuffmanTree

BATCH_S = 100.0
FRAMES_PER_S = 100
TOKENS_PER_S = 12
NUM_MELS = 80
NUM_TOKENS = 340
CPU = torch.device("cpu")

PLAIN = "plain fp32"
VERSIONS = ("hierarchical", "softmax", PLAIN)

Row = tuple[Cell, ...]
SPEED_HEADER = (
    *("size", "utterances", "version", "audio s/s", "spread", "vs plain", "padding", "of peak"),
)
PEAK_HEADER = (
    *("size", "utterances", "hierarchical / softmax, audio per second", "bf16 peak, GFLOP/s"),
    *("fp32 peak, GFLOP/s", "peak memory"),
)

# Utterances of single words, and of sentences.
DURATIONS_S = {"1-2 s": (1.0, 2.0), "10 s": (8.0, 12.0)}


@dataclass(frozen=True)
class Batch:
    """Random features and tokens, and how much of them is real."""

    features: Tensor  # (B, T, M)
    feature_lens: Tensor  # (B,)
    tokens: Tensor  # (B, U)
    token_lens: Tensor  # (B,)

    @property
    def audio_s(self) -> float:
        """Seconds of real audio."""
        return float(self.feature_lens.sum()) / FRAMES_PER_S

    @property
    def padded_s(self) -> float:
        """Seconds that are computed, padding included."""
        return self.features[..., 0].numel() / FRAMES_PER_S


@dataclass(frozen=True)
class Version:
    """A way to take training steps, and the batches it takes them on, in turn."""

    name: str
    step: Callable[[Batch], None]
    batches: Sequence[Batch]

    def steps(self) -> Callable[[], None]:
        """Return a function that takes the next step whenever it is called."""
        batches = itertools.cycle(self.batches)
        return lambda: self.step(next(batches))


def make_batches(
    durations_s: NDArray[np.float64], count: int, batch_s: float = BATCH_S
) -> list[Batch]:
    """Cut durations into batches in the order given; return some from all over the corpus."""
    cuts = cut_batches(np.maximum.accumulate(durations_s), batch_s)[:-1]  # the last one is not full
    chosen = cuts[np.linspace(0, len(cuts) - 1, count).round().astype(int)]
    return [make_batch(durations_s[begin:end]) for begin, end in chosen]


def make_batch(durations_s: NDArray[np.float64]) -> Batch:
    """Return utterances of these durations as a batch."""
    generator = torch.Generator().manual_seed(len(durations_s))
    feature_lens = torch.from_numpy((durations_s * FRAMES_PER_S).astype(np.int64))
    token_lens = torch.from_numpy((durations_s * TOKENS_PER_S).astype(np.int64))
    shape = (len(durations_s), int(token_lens.max()))
    tokens = torch.randint(1, NUM_TOKENS, shape, generator=generator)
    tokens[torch.arange(shape[1]) >= token_lens[:, None]] = -1
    features = torch.randn(shape[0], int(feature_lens.max()), NUM_MELS, generator=generator)
    return Batch(features, feature_lens, tokens, token_lens)


def make_model(size: str, output: str) -> ASR:
    """Build a network with the same weights every time."""
    torch.manual_seed(0)
    config = ModelConfig.model_validate({"size": size, "output": output})
    return ASR(config, FeaturesConfig(num_mels=NUM_MELS), NUM_TOKENS, make_tree())


def make_tree() -> HuffmanTree:
    """Build a tree over counts that fall as those of units do (Zipf)."""
    return HuffmanTree.from_counts([1 + 100_000 // (rank + 1) for rank in range(NUM_TOKENS)])


def make_step(
    model: ASR, optimizer: torch.optim.Optimizer, precision: str
) -> Callable[[Batch], None]:
    """Return a whole training step as a function of a batch."""

    def step(batch: Batch) -> None:
        with autocast(CPU, precision):
            losses = model(batch.features, batch.feature_lens, batch.tokens, batch.token_lens)
        (losses.total / losses.num_tokens).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()
        optimizer.zero_grad()

    return step


def default_version(size: str, output: str, batches: Sequence[Batch]) -> Version:
    """Return the way `arborvox train` does it."""
    model = make_model(size, output)
    precision = choose_precision("auto", CPU, model.config.width)
    step = make_step(model, make_optimizer(model, TrainConfig()), precision)
    return Version(f"default, {output}", step, batches)


def plain_version(size: str, batches: Sequence[Batch]) -> Version:
    """Return the way one would first write it, with a softmax."""
    model = make_plain(make_model(size, "softmax"))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, foreach=False, fused=False)
    return Version(PLAIN, make_step(model, optimizer, "fp32"), batches)


@contextmanager
def in_own_process(name: str, size: str, kind: str) -> Iterator[Callable[[], None]]:
    """Yield a function that has another process take a step of a version, and waits for it.

    Versions that share a process share its heap, and one would find it as another has left it.
    """
    context = multiprocessing.get_context("spawn")
    near, far = context.Pipe()
    arguments = (name, size, kind, torch.get_num_threads(), far)
    process = context.Process(target=_take_steps, args=arguments, daemon=True)
    process.start()
    near.recv()  # it is ready

    def step() -> None:
        near.send(True)
        near.recv()

    yield step
    near.send(False)
    process.join()


def _take_steps(name: str, size: str, kind: str, threads: int, connection: "Connection") -> None:
    """Take a step whenever it is asked for."""
    torch.set_num_threads(threads)
    if name == PLAIN:
        version = plain_version(size, batches_of(kind, PLAIN))
    else:
        keep_freed_memory()
        version = default_version(size, name, batches_of(kind, name))
    take_step = version.steps()
    if name != PLAIN:
        for _ in version.batches:  # until the memory that it keeps is as large as it will be
            take_step()
    connection.send(True)
    while connection.recv():
        take_step()
        connection.send(True)


def batches_of(kind: str, name: str) -> list[Batch]:
    """Return the batches that a version sees: sorted by length, or in random order."""
    durations_s = random_durations_s(kind)
    return make_batches(durations_s if name == PLAIN else np.sort(durations_s), count=5)


def padding_share(kind: str, name: str) -> float:
    """Return the share of padding in all of a version's batches, not only in those it is timed on.

    Five batches in random order may hold a fifth more of it than the corpus, or less.
    """
    durations_s = random_durations_s(kind)
    durations_s = durations_s if name == PLAIN else np.sort(durations_s)
    cuts = cut_batches(np.maximum.accumulate(durations_s), BATCH_S)[:-1]
    padded_s = sum(durations_s[begin:end].max() * (end - begin) for begin, end in cuts)
    return 1.0 - float(durations_s[: cuts[-1, 1]].sum() / padded_s)


def check_same_network(size: str, batch: Batch) -> None:
    """Stop if the plain network computes anything else than ours."""
    model = make_model(size, "softmax").eval()
    plain = make_plain(copy.deepcopy(model))
    small = Batch(
        batch.features[:2], batch.feature_lens[:2], batch.tokens[:2], batch.token_lens[:2]
    )
    inputs = (small.features, small.feature_lens, small.tokens, small.token_lens)
    with torch.no_grad():
        torch.testing.assert_close(model(*inputs).total, plain(*inputs).total, rtol=1e-4, atol=0)


def count_flops(size: str, batch: Batch) -> int:
    """Count the operations of the matrix products and convolutions in one training step."""
    model = make_model(size, "softmax")
    with FlopCounterMode(display=False) as counter:
        losses = model(batch.features, batch.feature_lens, batch.tokens, batch.token_lens)
        losses.total.backward()
    return int(counter.get_total_flops())


def gemm_peak(dtype: torch.dtype, size: int = 2048, rounds: int = 7) -> float:
    """Measure the best rate of a large matrix product, in operations per second."""
    a, b = torch.randn(2, size, size).to(dtype)
    times = interleave({"product": lambda: a @ b}, budget_s=0.5, sample_s=0, rounds=(rounds, 50))
    return 2.0 * size**3 / min(times["product"].samples_s)


def compare(size: str, kind: str, budget_s: float) -> tuple[list[Row], Row]:
    """Time all versions at one size and kind of utterance; return their rows, and the peaks."""
    batches = {name: batches_of(kind, name) for name in VERSIONS}
    check_same_network(size, batches[PLAIN][0])
    middle = batches[VERSIONS[0]][2]
    flops_per_s = count_flops(size, middle) / middle.audio_s
    with ExitStack() as stack:
        cases = {name: stack.enter_context(in_own_process(name, size, kind)) for name in VERSIONS}
        times = interleave(cases, budget_s=budget_s, sample_s=0)
    padding = {name: padding_share(kind, name) for name in VERSIONS}
    speeds = {
        name: statistics.mean(batch.padded_s for batch in batches[name])
        * (1.0 - padding[name])
        / times[name].median_s
        for name in VERSIONS
    }
    hierarchical, softmax, plain = speeds.values()
    bf16, fp32 = gemm_peak(torch.bfloat16), gemm_peak(torch.float32)
    rows = []
    for name in VERSIONS:
        used = speeds[name] * flops_per_s / (fp32 if name == PLAIN else bf16)
        figures = (
            f"{speeds[name]:.1f}",
            f"{100 * times[name].spread:.0f} %",
            f"{speeds[name] / plain:.2f}",
            f"{100 * padding[name]:.1f} %",
            f"{100 * used:.1f} %",
        )
        told = name if name == PLAIN else f"default, {name}"
        rows.append(tuple(map(Cell, (size, kind, told, *figures))))
    peaks = (f"{hierarchical / softmax:.2f}", f"{bf16 / 1e9:.0f}", f"{fp32 / 1e9:.0f}")
    return rows, tuple(map(Cell, (size, kind, *peaks)))


def random_durations_s(kind: str) -> NDArray[np.float64]:
    """Draw a corpus of utterances of one kind."""
    return np.random.default_rng(0).uniform(*DURATIONS_S[kind], 4000)


def print_peak_memory(size: str, kind: str) -> None:
    """Print how much memory building the default network and three steps with it take at most."""

    def build_and_step() -> None:
        batches = make_batches(np.sort(random_durations_s(kind)), count=3)
        take_step = default_version(size, "hierarchical", batches).steps()
        for _ in batches:
            take_step()

    peak_mb = peak_memory_mb(build_and_step)
    print("not measurable here" if peak_mb is None else f"{peak_mb / 1024:.2f} GB")


def main() -> None:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--size", choices=["small", "paper"], action="append")
    parser.add_argument("--utterances", choices=list(DURATIONS_S), action="append")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--budget-s", type=float, default=60.0, help="time for each table")
    parser.add_argument("--json", type=Path, help="write the figures here")
    parser.add_argument("--memory-only", action="store_true", help="only print the peak memory")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    keep_freed_memory()
    kinds = options.utterances or list(DURATIONS_S)
    if options.memory_only:
        print_peak_memory((options.size or ["paper"])[0], kinds[0])
        return
    print(", ".join(f"{name} {value}" for name, value in describe_machine().items()))
    print(f"{options.threads} threads, batches of {BATCH_S:g} s")
    speeds: list[Row] = []
    peaks: list[Row] = []
    for size in options.size or ["small", "paper"]:
        for kind in kinds:
            rows, row = compare(size, kind, options.budget_s)
            # A fresh process: memory that the other versions have left would hide some of it.
            flags = ["--memory-only", "--size", size, "--utterances", kind]
            flags += ["--threads", str(options.threads)]
            command = [sys.executable, str(Path(__file__)), *flags]
            done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
            speeds += rows
            peaks.append((*row, Cell(done.stdout.strip())))
            print_table(Table(SPEED_HEADER, tuple(rows), num_labels=3))
    tables = {
        "speed": Table(SPEED_HEADER, tuple(speeds), num_labels=3),
        "peaks": Table(PEAK_HEADER, tuple(peaks), num_labels=2),
    }
    print_table(tables["peaks"])
    if options.json:
        publish(options.json, tables, threads=options.threads)


if __name__ == "__main__":
    main()
