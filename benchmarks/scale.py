"""What a core does, and what more of them bring: decoding, preparing, planning, reading shards.

    python benchmarks/scale.py [--release DIR] [--rows 5000000] [--json results/scale.json]

Decodes and prepares with one process of one thread and with two, lays out an epoch of 30 million
utterances, compares the reading of shards with a training step, and from the rates computes what
150, 5,000 and 100,000 hours cost. `--release` is a made-up release to prepare (see prepare.py); it
is made where it is not there. Two quiet cores are needed for the ratios to mean anything.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import soundfile
import torch
from prepare import make_release, prepare_and_watch
from publishing import print_table, publish

from arborvox.config import validate_recipe
from arborvox.data import COLUMNS
from arborvox.features import LogMel
from arborvox.manifest import Utterance, write_cuts
from arborvox.model.asr import ASR
from arborvox.model.checkpoint import save_checkpoint
from arborvox.model.precision import autocast, choose_precision
from arborvox.report.document import Cell, Table
from arborvox.shards import find_recording, recording_file
from arborvox.shards.packing import Bucket, pack_bucket
from arborvox.tokens.tokenizer import Tokenizer
from arborvox.training.plan import Planner
from arborvox.tree import HuffmanTree

RATE = 16000
LETTERS = tuple("abcdefghijklmnopqrstuvwxyz ")
UNITS = ("<eos>", "<unk>", *LETTERS)
BATCH_S = 100.0
MEAN_S = 5.0  # of an utterance, as in Common Voice
PLANNED = 30_000_000
HOURS = (150, 5_000, 100_000)


def make_speech(folder: Path, total_s: float) -> list[Utterance]:
    """Write recordings of noise with made-up texts, of unlike lengths."""
    chance = np.random.default_rng(0)
    folder.mkdir()
    utterances: list[Utterance] = []
    while total_s > 0:
        duration_s = float(chance.uniform(2, 8))
        path = folder / f"u{len(utterances):05d}.flac"
        samples = 0.1 * chance.normal(size=round(duration_s * RATE))
        soundfile.write(path, samples.astype(np.float32), RATE)
        text = "".join(chance.choice(LETTERS, round(12 * duration_s))).strip()
        utterances.append(Utterance(path.stem, str(path), "und", text, RATE, len(samples)))
        total_s -= duration_s
    return utterances


def make_model(folder: Path) -> ASR:
    """Save a model of the paper's size with seeded weights."""
    recipe = validate_recipe({"name": "scale", "model": {"size": "paper"}}, name="scale")
    counts = tuple(range(1, len(UNITS) + 1))
    tree = HuffmanTree.from_counts(counts, UNITS)
    torch.manual_seed(0)
    model = ASR(recipe.model, recipe.features, len(UNITS), tree)
    tokenizer = Tokenizer("char", UNITS, {"und": counts})
    save_checkpoint(folder, model, recipe, tokenizer, tree)
    return model


def decode(processes: int, run: Path, manifest: Path, out: Path) -> dict[str, Any]:
    """Decode with so many processes of one thread each; return timing and the whole command's s."""
    words = ["-m", "arborvox", "decode", str(run), str(manifest), "--out", str(out)]
    words += ["--mode", "ctc-beam"]
    if processes > 1:
        launch = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}"]
        words = [*launch, *words]
    began = time.perf_counter()
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}
    subprocess.run([sys.executable, *words], check=True, env=environment, capture_output=True)
    command_s = time.perf_counter() - began
    timing = json.loads(out.with_suffix(".timing.json").read_text(encoding="utf-8"))
    return {
        "elapsed_s": max(own["elapsed_s"] for own in timing["ranks"]),
        "work_s": sum(timing["seconds"].values()),
        "audio_s": timing["audio_s"],
        "command_s": command_s,
    }


def plan_epoch(count: int) -> tuple[float, float]:
    """Lay out an epoch of so many utterances in shards of 1,000; return seconds and peak GB.

    In a process of its own, so that the peak is that of planning.
    """
    code = f"import scale; scale.plan_here({count})"
    done = subprocess.run(
        [sys.executable, "-c", code],
        check=True,
        capture_output=True,
        text=True,
        cwd=Path(__file__).parent,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent)},
    )
    seconds, peak = done.stdout.split()
    return float(seconds), float(peak)


def plan_here(count: int) -> None:
    """Make up a table, plan an epoch, and print seconds and peak memory."""
    chance = np.random.default_rng(0)
    columns = np.zeros(count, COLUMNS)
    columns["duration_s"] = np.clip(np.exp(chance.normal(1.5, 0.4, count)), 0.5, 30)
    columns["language"] = chance.integers(100, size=count)
    table: Any = SimpleNamespace(
        columns=columns, shards=(np.arange(count, dtype=np.int32) // 1000).astype(np.int32)
    )
    planner = Planner(table, BATCH_S, (0.9, 1.0, 1.1), 1.0, 0.03, seed=0)
    began = time.perf_counter()
    plan = planner.plan(0)
    for index in range(0, len(plan), max(1, len(plan) // 1000)):
        plan.order(index, rank=1, world=8)
    seconds = time.perf_counter() - began
    print(seconds, peak_gb())


def peak_gb() -> float:
    """Return the most memory that this process has had."""
    # VmHWM:    123456 kB
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024 / 1e9


def measure_step(model: ASR, utterances: list[Utterance], folder: Path) -> dict[str, float]:
    """Compare reading a batch from a shard with computing features and a training step."""
    torch.set_num_threads(1)
    batch, total_s = [], 0.0
    by_length = sorted(utterances, key=lambda utterance: utterance.duration_s)
    for utterance in by_length[len(by_length) // 2 :]:
        if total_s + utterance.duration_s > BATCH_S:
            break
        batch.append(utterance)
        total_s += utterance.duration_s
    packed = _pack(batch, folder)
    speech_input = LogMel(
        validate_recipe({"name": "scale", "model": {"size": "paper"}}, name="scale").features
    )
    read_s, features_s = [], []
    samples: list[Any] = []
    for _ in range(5):
        began = time.perf_counter()
        for utterance in packed:
            with recording_file(find_recording(utterance.audio)) as path:
                assert path.exists()
        read_s.append(time.perf_counter() - began)
    samples = [soundfile.read(u.audio, dtype="float32")[0] for u in batch]
    for _ in range(3):
        began = time.perf_counter()
        frames = [speech_input(values) for values in samples]
        features_s.append(time.perf_counter() - began)
    features = torch.nn.utils.rnn.pad_sequence(frames, batch_first=True)
    lens = torch.tensor([len(values) for values in frames])
    ids = [torch.tensor([UNITS.index(letter) for letter in u.text]) for u in batch]
    tokens = torch.nn.utils.rnn.pad_sequence(ids, batch_first=True, padding_value=-1)
    token_lens = torch.tensor([len(row) for row in ids])
    precision = choose_precision("auto", torch.device("cpu"), 256)
    steps_s = []
    model.train()
    for _ in range(3):
        began = time.perf_counter()
        with autocast(torch.device("cpu"), precision):
            losses = model(features, lens, tokens, token_lens)
        losses.total.backward()
        model.zero_grad()
        steps_s.append(time.perf_counter() - began)
    size = sum(len(find_recording(utterance.audio).read_bytes()) for utterance in packed)
    return {
        "audio_s": total_s,
        "read_s": float(np.median(read_s)),
        "features_s": float(np.median(features_s)),
        "step_s": float(np.median(steps_s[1:])),
        "bytes": float(size),
    }


def _pack(batch: list[Utterance], folder: Path) -> list[Utterance]:
    """Put a batch into one shard; return its utterances there."""
    from arborvox.manifest import cut_line, read_manifest

    (folder / "shards").mkdir()
    cuts = folder / "bucket.jsonl"
    cuts.write_text("".join(f"0\t{n}\t{cut_line(u)}" for n, u in enumerate(batch)))
    done = pack_bucket(Bucket(cuts, folder / "shards", "shar", folder / "shards"))
    manifest = done.manifest.with_name("packed.jsonl.gz")
    done.manifest.rename(manifest)
    return list(read_manifest(manifest))


def tell_costs(rates: dict[str, float], plan_s: float) -> Table:
    """Compute what corpora of three sizes cost, from what one core does."""
    rows = []
    for hours in HOURS:
        audio_s = hours * 3600.0
        utterances = audio_s / MEAN_S
        gigabytes = audio_s * rates["bytes a s"] / 1e9
        epoch_hours = audio_s / rates["training"] / 3600
        cells = (
            f"{hours:,} h",
            f"{utterances:,.0f}",
            f"{audio_s / BATCH_S:,.0f}",
            f"{epoch_hours:,.0f}",
            f"{audio_s / rates['decoding'] / 3600:,.0f}",
            f"{gigabytes:,.0f}",
            f"{64 * rates['training'] * rates['bytes a s'] / 1e9:.3f}",
            f"{utterances / rates['rows'] / 60:,.1f}",
            f"{plan_s * utterances:,.1f}",
        )
        rows.append(tuple(map(Cell, cells)))
    header = (
        "speech",
        "utterances",
        "steps an epoch",
        "core hours an epoch",
        "core hours to decode",
        "GB in shards",
        "GB/s for 64 cores",
        "minutes to prepare",
        "s to plan an epoch",
    )
    return Table(header, tuple(rows))


PARTS = ("decode", "step", "plan", "prepare")


def measure(options: argparse.Namespace, scratch: Path) -> dict[str, Any]:
    """Measure the parts that are asked for; the others are taken from the file of before."""
    measured: dict[str, Any] = {}
    if options.again != PARTS:
        measured = json.loads(options.json.read_text(encoding="utf-8"))["measured"]
    if {"decode", "step"} & set(options.again):
        utterances = make_speech(scratch / "audio", options.audio)
        write_cuts(scratch / "cuts.jsonl.gz", utterances)
        model = make_model(scratch / "run")
    if "decode" in options.again:
        outs = {str(n): scratch / f"{n}.jsonl" for n in (1, 2)}
        measured["decode"] = {
            n: decode(int(n), scratch / "run", scratch / "cuts.jsonl.gz", out)
            for n, out in outs.items()
        }
        measured["same"] = outs["1"].read_bytes() == outs["2"].read_bytes()
    if "step" in options.again:
        measured["step"] = measure_step(model, utterances, scratch)
    if "plan" in options.again:
        measured["plan"] = plan_epoch(options.planned)
    if "prepare" in options.again:
        release = options.release or scratch / "release"
        if not release.exists():
            print(f"making up {options.rows:,} rows (not timed)", flush=True)
            make_release(release, options.rows)
        measured["prepare"] = {}
        for n in (2, 1):
            os.sync()  # what was written before is not to be waited for
            for table in release.glob("*/*.tsv"):  # nor are tables and lists of clips
                table.read_bytes()
                os.listdir(table.parent / "clips")  # noqa: PTH208 (millions of names)
            watched = prepare_and_watch(release, scratch / f"out-{n}", 450.0, jobs=n)
            measured["prepare"][str(n)] = watched
            print(f"preparing, {n} processes: {watched}", flush=True)
    return measured


def main() -> None:
    """Measure, compute, print, publish."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--release", type=Path, help="a made-up release, made if it is not there")
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--audio", type=float, default=3600.0, help="seconds to decode")
    parser.add_argument("--planned", type=int, default=PLANNED)
    parser.add_argument(
        "--again", nargs="+", choices=PARTS, default=PARTS, help="only these; the rest is in --json"
    )
    parser.add_argument("--json", type=Path, help="write the figures here")
    options = parser.parse_args()
    scratch = Path(tempfile.mkdtemp(prefix="arborvox-scale-"))
    try:
        measured = measure(options, scratch)
        tables = make_tables(measured, options)
        for table in tables.values():
            print_table(table)
        if options.json:
            publish(options.json, tables, measured=measured)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def make_tables(measured: dict[str, Any], options: argparse.Namespace) -> dict[str, Table]:
    """Turn what was measured into tables."""
    one, two = measured["decode"]["1"], measured["decode"]["2"]
    alone, both = measured["prepare"]["1"], measured["prepare"]["2"]
    step, (plan_s, plan_gb) = measured["step"], measured["plan"]
    rates = {
        "training": step["audio_s"] / step["step_s"],
        "features": step["audio_s"] / step["features_s"],
        "decoding": one["audio_s"] / one["elapsed_s"],
        "rows": options.rows / alone[0],
        "bytes a s": step["bytes"] / step["audio_s"],
    }
    same = "the same bytes" if measured["same"] else "OTHER BYTES"
    ratios = Table(
        ("what", "one", "two", "gain"),
        tuple(
            tuple(map(Cell, row))
            for row in (
                (
                    f"decoding {one['audio_s']:.0f} s, {same} (s)",
                    f"{one['elapsed_s']:.1f}",
                    f"{two['elapsed_s']:.1f}",
                    f"{one['elapsed_s'] / two['elapsed_s']:.2f}",
                ),
                (
                    "the same with start and end of the command (s)",
                    f"{one['command_s']:.1f}",
                    f"{two['command_s']:.1f}",
                    f"{one['command_s'] / two['command_s']:.2f}",
                ),
                (
                    f"preparing {options.rows:,} rows (s)",
                    f"{alone[0]:.1f}",
                    f"{both[0]:.1f}",
                    f"{alone[0] / both[0]:.2f}",
                ),
            )
        ),
    )
    share = step["read_s"] / step["step_s"]
    core = Table(
        ("of one core", "measured"),
        tuple(
            tuple(map(Cell, row))
            for row in (
                ("training, size `paper`: seconds of audio a second", f"{rates['training']:.1f}"),
                ("decoding, CTC beam: seconds of audio a second", f"{rates['decoding']:.1f}"),
                ("features: seconds of audio a second", f"{rates['features']:.0f}"),
                ("preparing: rows a second", f"{rates['rows']:,.0f}"),
                ("reading a batch from a shard, share of its step", f"{100 * share:.2f} %"),
                ("noise in shards (FLAC): MB an hour", f"{rates['bytes a s'] * 3600 / 1e6:.0f}"),
                (f"planning {options.planned:,} utterances: s", f"{plan_s:.0f}"),
                ("the same: peak memory (GB)", f"{plan_gb:.2f}"),
            )
        ),
    )
    return {"ratios": ratios, "core": core, "costs": tell_costs(rates, plan_s / options.planned)}


if __name__ == "__main__":
    main()
