"""What leaving torch costs or brings: real-time factors at one thread, one utterance at a time.

python benchmarks/export.py --json results/export.json
Each case hears the same eight seconds of noise from samples to greedy CTC labels, in networks of
the sizes small and paper with fresh weights: what they hear does not change how long it takes.
"""

import argparse
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from publishing import print_table, publish
from timing import Timing, interleave

from arborvox.config import validate_recipe
from arborvox.config.choices import ExportPrecision, values_of
from arborvox.export.exporting import export_onnx
from arborvox.model.asr import ASR
from arborvox.model.checkpoint import save_checkpoint
from arborvox.recognizer import load
from arborvox.report.document import Cell, Table
from arborvox.tokens.tokenizer import Tokenizer
from arborvox.tree import HuffmanTree

SIZES = ("small", "paper")
LENGTH_S = 8.0
NUM_UNITS = 60


def main() -> None:
    """Time all cases of each size in turn, and publish the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--budget", type=float, default=40.0, help="seconds for each size")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    rows, samples = [], {}
    for size in SIZES:
        times, megabytes = _time_size(size, asked.budget)
        samples[size] = {name: timing.as_json() for name, timing in times.items()}
        base = times["torch bf16"].median_s
        for name, timing in times.items():
            rtf = timing.median_s / LENGTH_S
            row = (size, name, f"{rtf:.4f}", f"{timing.median_s / base:.2f}")
            rows.append(tuple(Cell(text) for text in (*row, megabytes.get(name, ""))))
    header = ("size", "what computes", "real-time factor", "of torch's bf16", "MB on disk")
    table = Table(header, tuple(rows), num_labels=2)
    print_table(table)
    if asked.json:
        publish(asked.json, {"rtf": table}, samples=samples)


def _time_size(size: str, budget_s: float) -> tuple[dict[str, Timing], dict[str, str]]:
    noise = np.random.default_rng(0).standard_normal(int(LENGTH_S * 16_000))
    samples = (0.1 * noise).astype(np.float32)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        run = fresh_checkpoint(folder / "run", size)
        recognizers: dict[str, Any] = {
            f"torch {precision}": load(run, mode="ctc-greedy", precision=precision, device="cpu")
            for precision in ("fp32", "bf16")
        }
        megabytes = {}
        for precision in values_of(ExportPrecision):
            out = folder / precision
            export_onnx(run, out, precision=precision)  # type: ignore[arg-type, unused-ignore]
            name = f"onnxruntime {precision}"
            megabytes[name] = f"{sum(p.stat().st_size for p in out.glob('*.onnx')) / 1e6:.1f}"
            recognizers[name] = load(out, mode="ctc-greedy", num_threads=1)

        def hear(recognizer: Any) -> object:
            engine = recognizer.engine
            return engine.recognize([engine.features(samples)])

        cases = {name: partial(hear, recognizer) for name, recognizer in recognizers.items()}
        for case in cases.values():
            case()  # compiles, packs, allocates
        return interleave(cases, budget_s=budget_s), megabytes


def fresh_checkpoint(folder: Path, size: str) -> Path:
    """Write a checkpoint of a size with seeded weights."""
    units = ("<eos>", "<unk>", *(chr(0x4E00 + n) for n in range(NUM_UNITS - 2)))
    tokenizer = Tokenizer("char", units, {"x-x": tuple(range(1, NUM_UNITS + 1))})
    tree = HuffmanTree.from_counts(range(1, NUM_UNITS + 1), units)
    recipe = validate_recipe({"name": size, "model": {"size": size}}, name="benchmark")
    torch.manual_seed(0)
    model = ASR(recipe.model, recipe.features, NUM_UNITS, tree).eval()
    save_checkpoint(folder, model, recipe, tokenizer, tree)
    return folder


if __name__ == "__main__":
    main()
