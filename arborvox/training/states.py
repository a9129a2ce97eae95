"""States of an encoder that does not learn: computed once for the whole corpus, kept on disk.

They are kept as features are: one file for each piece of audio and speed, named by the audio's
bytes, the encoder's weights and the layers that are read; so an interrupted run goes on where it
stopped, and other runs with the same encoder find them there.
"""

import copy
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import torch

from arborvox import audio
from arborvox.console import progress, say
from arborvox.data import BatchReader, EncodedUtterance, Order, UtteranceTable
from arborvox.errors import ArborvoxError
from arborvox.features import FeatureCache, SpeechInput
from arborvox.model.encoders import SpeechEncoder
from arborvox.processes import count_cores
from arborvox.training.loader import load_batches, plain_orders
from arborvox.training.preparation import TrainingData
from arborvox.training.ranks import Ranks

BYTES_A_NUMBER = 2  # half precision
GIGA = 1e9
PIECE_S = 60.0  # of audio, that a process is given at once


@dataclass(frozen=True)
class Written:
    """What became of one piece of the work."""

    num_utterances: int
    problem: str  # why the last write failed


@dataclass
class StatesWriter:
    """Encodes utterances one by one, so that their states do not depend on their neighbors."""

    reader: BatchReader
    encoder: SpeechEncoder
    device: torch.device
    cache: FeatureCache

    @torch.no_grad()
    def read(self, order: Order) -> Written:
        """Make sure that the states of some utterances are there; unreadable ones have none."""
        for row, speed in zip(order.rows, order.speeds, strict=True):
            utterance = self.reader.table[row]
            compute = partial(self._encode, utterance, speed)
            try:
                self.cache.get(utterance.audio, utterance.variant(speed), compute)
            except (audio.AudioProblem, OSError):
                continue  # named when training wants to hear it
        return Written(len(order.rows), self.cache.problem)

    def _encode(self, utterance: EncodedUtterance, speed: float) -> torch.Tensor:
        frames = self.reader.clean_features(utterance, speed)
        lens = torch.tensor([len(frames)], device=self.device)
        states, _ = self.encoder.frozen_states(frames[None].to(self.device), lens)
        return states[0].half().cpu()


def keep_states(
    data: TrainingData,
    encoder: SpeechEncoder,
    folder: Path,
    *,
    speeds: Sequence[float],
    precision: str,
    ranks: Ranks,
) -> TrainingData:
    """Compute what is not there yet, and return the data with states as the input."""
    states_input = encoder.states_input
    assert states_input is not None
    states_input.key += f"|{precision}"
    if ranks.first:
        _fill(data, encoder, folder, states_input, speeds, precision, ranks)
    ranks.wait()
    encoder.take_states()
    return replace(data, input=states_input, cache=str(folder))


def _fill(
    data: TrainingData,
    encoder: SpeechEncoder,
    folder: Path,
    states_input: SpeechInput,
    speeds: Sequence[float],
    precision: str,
    ranks: Ranks,
) -> None:
    worker = copy.deepcopy(encoder).eval()
    if precision == "bf16":
        worker.bfloat16()
        if ranks.device.type == "cpu":
            worker.pack()
    folder.mkdir(parents=True, exist_ok=True)
    cache = FeatureCache(folder, states_input.key)
    work = [(data.train, speed) for speed in speeds] + [(data.dev, 1.0)]
    audio_s = sum(table.duration_s / speed for table, speed in work)
    needed_bytes = audio_s / states_input.frame_s * states_input.width * BYTES_A_NUMBER
    say(
        f"frozen encoder: states of {audio_s / 3600:.2f} h of speech ({len(speeds)} speed(s)) take "
        f"{needed_bytes / GIGA:.2f} GB in {folder}; what is there already is not computed again"
    )
    free_bytes = shutil.disk_usage(folder).free
    known_bytes = sum(path.stat().st_size for path in folder.rglob("*.npy"))
    if needed_bytes > free_bytes + known_bytes:
        raise ArborvoxError(
            f"The encoder's states need {needed_bytes / GIGA:.1f} GB, but {folder} has "
            f"{free_bytes / GIGA:.1f} GB left; make room, name another disk by features.cache, or "
            f"read fewer layers (model.layers) or speeds (augment.speeds)."
        )
    for table, speed in work:
        reader = BatchReader(table, data.input)
        writer = StatesWriter(reader, worker, ranks.device, cache)
        # A graphics card is not shared with processes that were forked.
        workers = count_cores() if ranks.device.type == "cpu" else 0
        with progress(f"encoder's states, speed {speed:g}", len(table)) as advance:
            for written in load_batches(writer, _orders(table, speed), workers):
                if written.problem:
                    raise ArborvoxError(
                        f"The encoder's states cannot be kept: {written.problem}; make room, or "
                        f"name another disk by features.cache."
                    )
                advance(written.num_utterances)


def _orders(table: UtteranceTable, speed: float) -> Iterator[Order]:
    for order in plain_orders(table, PIECE_S):
        yield replace(order, speeds=(speed,) * len(order.rows))
