"""What each kernel brings: whole training steps with it and without it, in one process, by turns.

    python benchmarks/kernels.py [--size paper] [--utterances "10 s"] [--json results/kernels.json]

Steps are those of `arborvox train` (bf16, H-Softmax, dropout, fused AdamW). A version is the same
network with one kernel left to torch, with all of them left to torch, or with its layers compiled
(`train.compile`). All take a step each round, in an order that changes; a version's figure is the
median over rounds of its time divided by the default's in the same round, with the quartiles. The
default runs twice, which shows how much is noise. With --json the figures are written there and,
as a page with the same tables, beside it. `--quick` only shows that all of it runs.
"""

import argparse
import copy
import json
import shlex
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from timing import Case, Timing, describe_machine, interleave
from training import DURATIONS_S, Batch, make_batches, make_model, make_step, random_durations_s

from arborvox.config import TrainConfig
from arborvox.hsoftmax import HierarchicalSoftmax
from arborvox.model.asr import ASR
from arborvox.model.kernels.dispatch import KERNELS, without_kernels
from arborvox.model.memory import keep_freed_memory
from arborvox.training.optimizer import make_optimizer

DEFAULT = "default"
AGAIN = "default, once more"
TORCH = "bf16 with torch's own operations"
COMPILED = "torch.compile of the encoder's layers"
REFERENCE = "H-Softmax by its PyTorch reference"

Rows = list[tuple[str, ...]]
Step = Callable[[Batch], None]


@dataclass(frozen=True)
class Table:
    """Rows under a header; the first columns are words, the others numbers."""

    header: tuple[str, ...]
    num_labels: int
    rows: Rows

    def as_json(self) -> dict[str, object]:
        """Return what a file of results holds."""
        return {"header": self.header, "num_labels": self.num_labels, "rows": self.rows}

    def as_markdown(self) -> str:
        """Return the table as a page shows it."""
        rule = ["---"] * self.num_labels + ["---:"] * (len(self.header) - self.num_labels)
        return "\n".join(f"| {' | '.join(row)} |" for row in (self.header, rule, *self.rows))


@contextmanager
def reference_output(model: ASR) -> Iterator[None]:
    """Let plain PyTorch compute the output layer."""
    assert isinstance(model.output, HierarchicalSoftmax)
    kernel, model.output.kernel = model.output.kernel, "reference"
    try:
        yield
    finally:
        model.output.kernel = kernel


def make_versions(size: str, compiler: str) -> dict[str, Step]:
    """Return every way to take a training step; all but the compiled one share a network."""
    model = make_model(size, "hierarchical")
    step = make_step(model, make_optimizer(model, TrainConfig()), "bf16")

    def without(*names: str) -> Step:
        def take_step(batch: Batch) -> None:
            with without_kernels(*names):
                step(batch)

        return take_step

    def by_reference(batch: Batch) -> None:
        with reference_output(model):
            step(batch)

    def by_torch(batch: Batch) -> None:
        with without_kernels(*KERNELS), reference_output(model):
            step(batch)

    versions: dict[str, Step] = {DEFAULT: step, AGAIN: step, TORCH: by_torch}
    if compiler != "none":
        other = copy.deepcopy(model)
        for layer in other.encoder.layers:  # as the training loop does
            layer.compile(dynamic=True, backend=compiler)
        versions[COMPILED] = make_step(other, make_optimizer(other, TrainConfig()), "bf16")
    versions |= {name: without(name) for name in KERNELS}
    versions[REFERENCE] = by_reference
    return versions


def time_steps(
    versions: Mapping[str, Step],
    batches: Sequence[Batch],
    budget_s: float,
    clock: Callable[[], float],
) -> dict[str, Timing]:
    """Time steps of all versions by turns; in a round all take theirs on the same batch."""

    def case(step: Step) -> Case:
        place = iter(range(sys.maxsize))
        return lambda: step(batches[next(place) % len(batches)])

    for name, step in versions.items():
        print(f"first steps: {name}", flush=True)
        for batch in batches:  # compiles, and fills the memory that a process keeps
            step(batch)
    cases = {name: case(step) for name, step in versions.items()}
    return interleave(cases, budget_s=budget_s, sample_s=0, rounds=(3, 60), clock=clock)


def ratios(times: Mapping[str, Timing], name: str) -> tuple[float, float, float]:
    """Return the quartiles of a version's time over the default's, round by round."""
    pairs = np.divide(times[name].samples_s, times[DEFAULT].samples_s)
    low, middle, high = np.percentile(pairs, (25, 50, 75))
    return float(low), float(middle), float(high)


def version_table(times: Mapping[str, Timing]) -> Table:
    """Compare the whole versions."""
    rows: Rows = []
    for name in (DEFAULT, AGAIN, TORCH, COMPILED):
        if name in times:
            low, middle, high = ratios(times, name)
            milliseconds = f"{times[name].median_s * 1e3:.0f}"
            rows.append((name, milliseconds, f"{middle:.3f}", f"{low:.3f}–{high:.3f}"))
    return Table(("version", "step, ms", "of the default", "quartiles"), 1, rows)


def kernel_table(times: Mapping[str, Timing]) -> Table:
    """Say what a step takes longer without each kernel, the greatest gain first."""
    told = {**KERNELS, REFERENCE: "the output layer"}
    found = {name: ratios(times, name) for name in told}
    rows: Rows = [
        (name, told[name], *(f"{100 * (ratio - 1):+.1f} %" for ratio in (middle, low, high)))
        for name, (low, middle, high) in sorted(found.items(), key=lambda item: -item[1][1])
    ]
    header = ("left to torch", "what it computes", "longer step", "lower quartile", "upper")
    return Table(header, 2, rows)


def publish(path: Path, tables: Mapping[str, Table], times: Mapping[str, Timing]) -> None:
    """Write the figures as JSON, and a page with the tables beside it."""
    command = shlex.join(["python", *sys.argv])
    machine = describe_machine()
    figures = {
        "arborvox_results": 1,
        "command": command,
        "source": "written by the command",
        "environment": machine,
        "samples": {name: timing.as_json() for name, timing in times.items()},
        "tables": {name: table.as_json() for name, table in tables.items()},
    }
    path.write_text(json.dumps(figures, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    parts = ["# What each kernel brings to a training step", f"Made by `{command}` on:"]
    parts[-1] += " " + ", ".join(f"{name} {value}" for name, value in machine.items()) + "."
    parts.append((__doc__ or "").split("\n\n")[-1].strip())
    for name, table in tables.items():
        mark = f"<!-- table: {path.name}#{name} -->"
        parts.append(f"{mark}\n{table.as_markdown()}\n<!-- end -->")
    path.with_suffix(".md").write_text("\n\n".join(parts) + "\n", encoding="utf-8")
    print(f"wrote {path} and {path.with_suffix('.md')}")


def main() -> None:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--size", choices=["tiny", "small", "paper"], default="paper")
    parser.add_argument("--utterances", choices=list(DURATIONS_S), default="10 s")
    parser.add_argument("--batch-s", type=float, default=25.0, help="audio of a batch")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--budget-s", type=float, default=240.0, help="time for the rounds")
    parser.add_argument("--wall-clock", action="store_true", help="instead of the CPU's time")
    parser.add_argument("--compiler", default="inductor", help="torch.compile's backend, or none")
    parser.add_argument("--json", type=Path, help="write the figures here, and a page beside it")
    parser.add_argument("--quick", action="store_true", help="a few steps of a tiny network")
    options = parser.parse_args()
    if options.quick:
        options.size, options.batch_s, options.budget_s = "tiny", 10.0, 1.0
        options.compiler = "aot_eager"  # traces the layers, and generates no code
    torch.set_num_threads(options.threads)
    keep_freed_memory()
    print(", ".join(f"{name} {value}" for name, value in describe_machine().items()))
    durations_s = np.sort(random_durations_s(options.utterances))
    batches = make_batches(durations_s, count=3, batch_s=options.batch_s)
    # CPU time is disturbed less by other processes, but adds up over threads.
    by_wall = options.wall_clock or options.threads > 1
    clock = time.perf_counter if by_wall else time.process_time
    versions = make_versions(options.size, options.compiler)
    times = time_steps(versions, batches, options.budget_s, clock)
    tables = {"versions": version_table(times), "kernels": kernel_table(times)}
    rounds = len(times[DEFAULT].samples_s)
    print(f"{options.threads} threads, {'wall clock' if by_wall else 'CPU time'}, {rounds} rounds")
    for table in tables.values():
        print(f"\n{table.as_markdown()}")
    if options.json:
        publish(options.json, tables, times)


if __name__ == "__main__":
    main()
