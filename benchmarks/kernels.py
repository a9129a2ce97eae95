"""What each kernel brings: whole training steps with it and without it, in one process, by turns.

    python benchmarks/kernels.py [--case "paper, 10 s"] [--json results/kernels.json]

Steps are those of `arborvox train` (bf16, H-Softmax, dropout, fused AdamW), of the sizes `paper`
and `small`, and of two Conformer layers on the cached states of a frozen encoder (`states`). A
version is the same network with one kernel left to torch, with all of them left to torch, or with
its layers compiled (`train.compile`). All take a step each round, in an order that changes. A
version's time is that of its fast rounds: the 20th percentile over the rounds on each of three
batches, averaged, in CPU time; the default runs twice, which shows how much is noise. `--quick`
only shows that all of it runs.
"""

import argparse
import copy
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import torch
from publishing import print_table, publish
from timing import Case, Timing, describe_machine, interleave
from training import (
    DURATIONS_S,
    Batch,
    make_batches,
    make_model,
    make_step,
    make_tree,
    random_durations_s,
)

from arborvox.config import FeaturesConfig, ModelConfig, TrainConfig
from arborvox.hsoftmax import HierarchicalSoftmax
from arborvox.model.asr import ASR
from arborvox.model.kernels.dispatch import KERNELS, without_kernels
from arborvox.model.memory import keep_freed_memory
from arborvox.report.document import Cell, Table
from arborvox.training.optimizer import make_optimizer

DEFAULT = "default"
AGAIN = "default, once more"
TORCH = "bf16 with torch's own operations"
COMPILED = "torch.compile of the encoder's layers"
REFERENCE = "H-Softmax by its PyTorch reference"

STATES = "states"  # of a frozen encoder, read from disk
CASES = [f"{size}, {kind}" for size in ("paper", "small", STATES) for kind in DURATIONS_S]
NUM_BATCHES = 3
FAST_ROUNDS = 20  # percentile

WIDTH, LAYERS = 512, [3, 4, 5, 6]
STATES_WIDTH = WIDTH * len(LAYERS)
# As Whisper base; its weights are not needed where states are given.
WHISPER = {
    "model_type": "whisper",
    "d_model": WIDTH,
    "encoder_layers": 6,
    "encoder_attention_heads": 8,
    "encoder_ffn_dim": 2048,
    "num_mel_bins": 80,
}
ON_STATES = {
    "encoder": "pretrained",
    "layers": LAYERS,
    "width": 256,
    "heads": 4,
    "feed_forward": 1024,
    "encoder_layers": 2,
    "decoder_layers": 2,
}
FRAMES_A_STATE = 2

Step = Callable[[Batch], None]


def make_states_model() -> ASR:
    """Build what recipes put on a frozen encoder, which is told to expect states."""
    torch.manual_seed(0)
    tree = make_tree()
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "config.json").write_text(json.dumps(WHISPER), encoding="utf-8")
        config = ModelConfig.model_validate({"size": "small", "pretrained": folder, **ON_STATES})
        model = ASR(config, FeaturesConfig(), tree.num_leaves, tree)
    model.encoder.take_states()
    return model


def with_states(batch: Batch) -> Batch:
    """Return the same utterances as states instead of frames."""
    B, T, _ = batch.features.shape
    states = torch.randn(B, T // FRAMES_A_STATE, STATES_WIDTH, dtype=torch.float16)
    lens = (batch.feature_lens // FRAMES_A_STATE).clamp(max=states.shape[1])
    return Batch(states, lens, batch.tokens, batch.token_lens)


@contextmanager
def reference_output(model: ASR) -> Iterator[None]:
    """Let plain PyTorch compute the output layer."""
    assert isinstance(model.output, HierarchicalSoftmax)
    kernel, model.output.kernel = model.output.kernel, "reference"
    try:
        yield
    finally:
        model.output.kernel = kernel


def make_versions(model: ASR, compiler: str) -> dict[str, Step]:
    """Return every way to take a training step; all but the compiled one share a network."""
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

    for step in versions.values():
        for batch in batches:  # compiles, and fills the memory that a process keeps
            step(batch)
    cases = {name: case(step) for name, step in versions.items()}
    return interleave(cases, budget_s=budget_s, sample_s=0, rounds=(6, 120), clock=clock)


def fast_s(timing: Timing) -> float:
    """Return the time of the fast rounds: what disturbs a step only makes it longer."""
    samples = np.array(timing.samples_s)
    by_batch = [samples[place::NUM_BATCHES] for place in range(NUM_BATCHES)]
    return float(np.mean([np.percentile(times, FAST_ROUNDS) for times in by_batch]))


def longer(times: Mapping[str, Timing], name: str) -> float:
    """Return by what share a version's steps are longer than the default's, both of its runs."""
    default_s = (fast_s(times[DEFAULT]) + fast_s(times[AGAIN])) / 2
    return fast_s(times[name]) / default_s - 1


def version_table(cases: Mapping[str, Mapping[str, Timing]]) -> Table:
    """Compare the whole versions, a row for each case."""
    names = [name for name in (AGAIN, TORCH, COMPILED) if all(name in t for t in cases.values())]
    rows = tuple(
        (
            Cell(case),
            Cell(f"{fast_s(times[DEFAULT]) * 1e3:.0f}"),
            *(Cell(f"{1 + longer(times, name):.2f}") for name in names),
        )
        for case, times in cases.items()
    )
    return Table(("network, utterances", "default, ms", *names), rows, name="versions")


def kernel_table(cases: Mapping[str, Mapping[str, Timing]]) -> Table:
    """Say what a step takes longer without each kernel, the greatest gain first."""
    told = {**KERNELS, REFERENCE: "the output layer", AGAIN: "nothing: this is noise"}
    gains = {name: [longer(times, name) for times in cases.values()] for name in told}
    rows = tuple(
        (Cell(name), Cell(told[name]), *(Cell(f"{100 * share:+.1f} %") for share in gains[name]))
        for name in sorted(told, key=lambda name: -max(gains[name]))
    )
    header = ("left to torch", "what it computes", *cases)
    return Table(header, rows, num_labels=2, name="kernels")


def main() -> None:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--case", choices=CASES, action="append", help="may be given again")
    parser.add_argument("--batch-s", type=float, default=25.0, help="audio of a batch")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--budget-s", type=float, default=60.0, help="time for each case")
    parser.add_argument("--wall-clock", action="store_true", help="instead of the CPU's time")
    parser.add_argument("--compiler", default="inductor", help="torch.compile's backend, or none")
    parser.add_argument("--json", type=Path, help="write the figures here")
    parser.add_argument("--quick", action="store_true", help="a few steps of small networks")
    options = parser.parse_args()
    chosen = options.case or CASES
    if options.quick:
        chosen, options.batch_s, options.budget_s = [f"{STATES}, 1-2 s"], 10.0, 1.0
        options.compiler = "aot_eager"  # traces the layers, and generates no code
    torch.set_num_threads(options.threads)
    keep_freed_memory()
    print(", ".join(f"{name} {value}" for name, value in describe_machine().items()))
    # CPU time is disturbed less by other processes, but adds up over threads.
    by_wall = options.wall_clock or options.threads > 1
    clock = time.perf_counter if by_wall else time.process_time
    times: dict[str, dict[str, Timing]] = {}
    for case in chosen:
        size, kind = case.split(", ")
        batches = make_batches(np.sort(random_durations_s(kind)), NUM_BATCHES, options.batch_s)
        model = make_states_model() if size == STATES else make_model(size, "hierarchical")
        if size == STATES:
            batches = [with_states(batch) for batch in batches]
        times[case] = time_steps(
            make_versions(model, options.compiler), batches, options.budget_s, clock
        )
        print(f"{case}: {len(times[case][DEFAULT].samples_s)} rounds", flush=True)
    tables = {table.name: table for table in (version_table(times), kernel_table(times))}
    for table in tables.values():
        print_table(table)
    if options.json:
        samples = {
            case: {name: timing.as_json() for name, timing in versions.items()}
            for case, versions in times.items()
        }
        publish(options.json, tables, samples=samples)


if __name__ == "__main__":
    main()
