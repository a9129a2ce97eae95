"""What 8-bit products bring to a frozen Whisper and what they change, beside bf16 or fp32 alone.

    python benchmarks/int8.py FOLDER Mboshi=mboshi/train Iban=iban/data/wav [--json FILE]

FOLDER is the encoder of a Whisper; each other folder holds recordings, some of which are drawn by
lot. What they stand beside is what the processor has: fp32 where it has no bf16 (the table
"fp32"), or what --precision asks for. Both ways encode the same twenty seconds right after each
other, on one thread: the speed is in seconds of speech a second of processor time, features left
out, and the ratio that of the medians. Told as well is how near each way's normalized states are to
those in fp32, mean over the states of the layers that are kept.
"""

import argparse
import copy
import statistics
import time
from collections.abc import Iterator
from pathlib import Path

import torch
from publishing import named_path, tell
from recordings import draw_recordings
from torch import Tensor
from torch.nn import functional

from arborvox.config import FeaturesConfig, ModelConfig
from arborvox.config.on_pretrained import ON_TOP
from arborvox.model.encoders.pretrained.encoder import PretrainedEncoder
from arborvox.model.precision import choose_precision
from arborvox.report.document import Cell, Table
from arborvox.training.states import JOINED_S

QUANTIZED = "8-bit feed-forward"
HEADER = (
    "recordings",
    "mean length (s)",
    "products",
    "speech a second (s)",
    "ratio",
    "cosine with fp32",
    "mean difference",
)


def make_encoder(folder: Path, quantize: str) -> PretrainedEncoder:
    """Build the encoder that `--pretrained` would."""
    keys = {key.removeprefix("model."): value for key, value in ON_TOP.items()}
    keys |= {"encoder": "pretrained", "pretrained": str(folder), "quantize": quantize}
    encoder = PretrainedEncoder(ModelConfig.model_validate(keys), FeaturesConfig()).eval()
    encoder.load_start()
    return encoder


def pack(encoder: PretrainedEncoder, precision: str) -> PretrainedEncoder:
    """Lay it out as it is for states that are kept."""
    packed = copy.deepcopy(encoder)
    if precision == "bf16":
        packed.bfloat16()
    if packed.gains_by_packing(precision):
        packed.pack()
    return packed


def groups(frames: list[Tensor], frame_s: float) -> Iterator[list[Tensor]]:
    """Yield utterances that are encoded together."""
    group: list[Tensor] = []
    for each in frames:
        group.append(each)
        if sum(map(len, group)) * frame_s >= JOINED_S:
            yield group
            group = []
    if group:
        yield group


def measure(
    encoders: dict[str, PretrainedEncoder],
    exact: PretrainedEncoder,
    frames: list[Tensor],
    frame_s: float,
) -> dict[str, tuple[float, float, float]]:
    """Return each way's speed, its cosine with what is exact, and the mean difference."""
    speeds: dict[str, list[float]] = {way: [] for way in encoders}
    likeness: dict[str, list[Tensor]] = {way: [] for way in encoders}
    distance: dict[str, list[Tensor]] = {way: [] for way in encoders}
    for group in groups(frames, frame_s):
        wanted = torch.cat(exact.frozen_states_of_each(group))
        for encoder in encoders.values():  # products of a new size are compiled first
            encoder.frozen_states_of_each(group)
        for way, encoder in encoders.items():
            began = time.process_time()
            states = encoder.frozen_states_of_each(group)
            seconds = time.process_time() - began
            speeds[way].append(sum(map(len, group)) * frame_s / seconds)
            found = torch.cat(states)
            ours, theirs = (x.view(-1, exact.network.width) for x in (found, wanted))
            likeness[way].append(functional.cosine_similarity(ours, theirs, dim=-1))
            distance[way].append((found - wanted).abs().mean(dim=-1))
    return {
        way: (
            statistics.median(speeds[way]),
            float(torch.cat(likeness[way]).mean()),
            float(torch.cat(distance[way]).mean()),
        )
        for way in encoders
    }


def main() -> None:
    """Measure, print, and write where asked."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("pretrained", type=Path)
    parser.add_argument("folders", type=named_path, nargs="+")
    parser.add_argument("--recordings", type=int, default=100, help="of each folder, by lot")
    parser.add_argument("--precision", choices=("auto", "bf16", "fp32"), default="auto")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--add", action="store_true", help="keep the other table")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    exact = make_encoder(arguments.pretrained, "none")
    width = exact.network.width
    precision = choose_precision(arguments.precision, torch.device("cpu"), width)
    encoders = {
        way: pack(make_encoder(arguments.pretrained, quantize), precision)
        for way, quantize in ((precision, "none"), (QUANTIZED, "feed-forward"))
    }
    rows: list[tuple[Cell, ...]] = []
    for label, folder in arguments.folders:
        take = exact.input
        frames = draw_recordings(folder, arguments.recordings, take)
        length_s = sum(map(len, frames)) * take.frame_s / len(frames)
        with torch.inference_mode():
            found = measure(encoders, exact, frames, take.frame_s)
        first = next(iter(found.values()))[0]
        for way, (speed, cosine, difference) in found.items():
            words = (f"{speed:.0f}", f"{speed / first:.2f}", f"{cosine:.4f}", f"{difference:.3f}")
            rows.append(tuple(map(Cell, (label, f"{length_s:.1f}", way, *words))))
    name = "int8" if precision == "bf16" else precision
    tell({name: Table(HEADER, tuple(rows))}, arguments.json, add=arguments.add)


if __name__ == "__main__":
    main()
