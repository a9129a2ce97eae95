"""How near states of Whisper's encoder are to those of its 30 seconds, with silence and without.

    python benchmarks/silence.py FOLDER UCLA=ucla/fin/audio "Common Voice"=common_voice/sah/clips

FOLDER is the encoder of a Whisper; each other folder holds recordings. Each is heard at its own
length, with the silence that `model.silence: as-taught` gives, and filled up with silence to
what Whisper was taught with. Told is the cosine of each layer's states with those of the last way,
mean over states and recordings.
"""

import argparse
from pathlib import Path

import torch
from publishing import named_path, tell
from recordings import draw_recordings
from torch import Tensor
from torch.nn import functional

from arborvox.model.encoders.pretrained.base_model import open_base_model
from arborvox.model.encoders.pretrained.whisper import SILENCE_BELOW, WhisperNetwork
from arborvox.report.document import Cell, Table

HEARD = ("own length", "silence in summary")


def hear(network: WhisperNetwork, frames: Tensor, num_states: int) -> list[Tensor]:
    """Return the states of each layer that belong to the recording, (T', D) each."""
    x, lens = network.embed(frames[None], torch.tensor([len(frames)]))
    context = network.context(x, lens)
    states = []
    for number in range(len(network.layers)):
        x = network.run_layer(number, x, context)
        last = number + 1 == len(network.layers)
        states.append((network.finish(x) if last else x)[0, :num_states])
    return states


def likeness(plain: WhisperNetwork, silent: WhisperNetwork, frames: Tensor) -> list[list[float]]:
    """Return cosines with the states of the whole length, for both ways and each layer."""
    most = plain.max_frames
    whole = functional.pad(
        frames, (0, 0, 0, most - len(frames)), value=float(frames.max()) - SILENCE_BELOW
    )
    num_states = -(-len(frames) // plain.frames_a_state)
    wanted = hear(plain, whole, num_states)
    return [
        [
            float(functional.cosine_similarity(ours, theirs, dim=-1).mean())
            for ours, theirs in zip(hear(network, frames, num_states), wanted, strict=True)
        ]
        for network in (plain, silent)
    ]


def main() -> None:
    """Measure, print, and write where asked."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("pretrained", type=Path)
    parser.add_argument("folders", type=named_path, nargs="+")
    parser.add_argument("--recordings", type=int, default=40, help="of each folder, by lot")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    base = open_base_model(str(arguments.pretrained), None)
    networks = [WhisperNetwork(base).eval() for _ in HEARD]
    for network in networks:
        network.load(base)
    networks[1].hear_silence()
    rows: list[tuple[Cell, ...]] = []
    for label, folder in arguments.folders:
        take = WhisperNetwork.make_input(base)
        with torch.no_grad():
            heard = draw_recordings(folder, arguments.recordings, take)
            found = torch.tensor([likeness(networks[0], networks[1], each) for each in heard])
        seconds = sum(map(len, heard)) * take.frame_s / len(heard)
        for way, cosines in zip(HEARD, found.mean(dim=0).tolist(), strict=True):
            words = (label, f"{seconds:.1f}", way, *(f"{cosine:.3f}" for cosine in cosines))
            rows.append(tuple(map(Cell, words)))
    layers = tuple(f"layer {n + 1}" for n in range(len(networks[0].layers)))
    header = ("recordings", "mean length (s)", "heard", *layers)
    tell({"silence": Table(header, tuple(rows))}, arguments.json)


if __name__ == "__main__":
    main()
