"""States of an encoder that does not learn: computed once for the whole corpus, kept on disk.

They are kept as features are: one file for each piece of audio and speed, named by the audio's
bytes, the encoder's weights and the layers that are read; so an interrupted run goes on where it
stopped, and other runs with the same encoder find them there.
"""

import contextlib
import copy
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from arborvox import audio
from arborvox.console import progress, say
from arborvox.data import BatchReader, Order, UtteranceTable
from arborvox.errors import ArborvoxError
from arborvox.features import FeatureCache, SpeechInput
from arborvox.model.encoders import SpeechEncoder
from arborvox.model.transfer import to_device
from arborvox.processes import count_cores
from arborvox.training.interrupts import StopRequest
from arborvox.training.loader import SHARING_MEMORY, load_batches, plain_orders
from arborvox.training.preparation import TrainingData
from arborvox.training.ranks import Ranks

BYTES_A_NUMBER = 2  # half precision
GIGA = 1e9
PIECE_S = 60.0  # of audio, that a process is given at once
JOINED_S = 20.0  # of audio, that the encoder is given at once


@dataclass(frozen=True)
class StatesWork:
    """A table to be heard at one speed."""

    table: UtteranceTable
    speed: float
    missing: NDArray[np.int64]  # rows that have no states yet

    @property
    def missing_s(self) -> float:
        """Seconds of speech that are still to be encoded."""
        durations_s = self.table.columns["duration_s"][self.missing]
        return float(durations_s.sum(dtype=np.float64)) / self.speed


@dataclass(frozen=True)
class StatesOrder:
    """Some utterances of one of the tables."""

    work: int  # which of them
    order: Order


@dataclass(frozen=True)
class Written:
    """What became of one piece of the work."""

    num_utterances: int
    problem: str  # why the last write failed


@dataclass
class StatesWriter:
    """Encodes utterances, some at a time; their states do not depend on their neighbors."""

    readers: Sequence[BatchReader]  # of each table
    encoder: SpeechEncoder
    device: torch.device
    cache: FeatureCache

    @torch.inference_mode()
    def read(self, ordered: StatesOrder) -> Written:
        """Make sure that the states of some utterances are there; unreadable ones have none."""
        reader, order = self.readers[ordered.work], ordered.order
        waiting: dict[Path, torch.Tensor] = {}
        for row, speed in zip(order.rows, order.speeds, strict=True):
            utterance = reader.table[row]
            try:
                path = self.cache.path(utterance.audio, utterance.variant(speed))
                if self.cache.load(path) is None:
                    waiting[path] = reader.clean_features(utterance, speed)
            except (audio.AudioProblem, OSError):
                continue  # named when training wants to hear it
            if sum(map(len, waiting.values())) * reader.input.frame_s >= JOINED_S:
                self._encode(waiting)
                waiting = {}
        self._encode(waiting)
        return Written(len(order.rows), self.cache.problem)

    def _encode(self, waiting: dict[Path, torch.Tensor]) -> None:
        if not waiting:
            return
        frames = to_device(tuple(waiting.values()), self.device)
        states = self.encoder.frozen_states_of_each(frames)
        for path, each in zip(waiting, states, strict=True):
            self.cache.store(path, each.half().cpu())


def keep_states(
    data: TrainingData,
    encoder: SpeechEncoder,
    folder: Path,
    *,
    speeds: Sequence[float],
    precision: str,
    ranks: Ranks,
    stop: StopRequest,
) -> TrainingData:
    """Compute what is not there yet, and return the data with states as the input."""
    states_input = encoder.states_input
    assert states_input is not None
    states_input.key += f"|{precision}"
    if _is_packed(encoder, precision, ranks.device):
        states_input.key += encoder.packed_key
    if ranks.first:
        cache = FeatureCache(folder, states_input.key)
        work = [
            _find_work(table, speed, cache, stop)
            for table, speed in [*((data.train, speed) for speed in speeds), (data.dev, 1.0)]
        ]
        _check_room(work, states_input, folder)
        # Without work there is no copy of the encoder and no other process.
        missing = [each for each in work if len(each.missing)]
        if missing:
            readers = [BatchReader(each.table, data.input) for each in missing]
            frozen = _lay_out(encoder, precision, ranks.device)
            _write_states(StatesWriter(readers, frozen, ranks.device, cache), missing, stop)
    ranks.wait()
    encoder.take_states()
    return replace(data, input=states_input, cache=str(folder))


def _lay_out(encoder: SpeechEncoder, precision: str, device: torch.device) -> SpeechEncoder:
    """Copy the encoder into the fastest type; the original goes on to learn what is on top."""
    encoder = copy.deepcopy(encoder).eval()
    if precision == "bf16":
        encoder.bfloat16()
    if _is_packed(encoder, precision, device):
        encoder.pack()
    return encoder


def _is_packed(encoder: SpeechEncoder, precision: str, device: torch.device) -> bool:
    return device.type == "cpu" and encoder.gains_by_packing(precision)


def _find_work(
    table: UtteranceTable, speed: float, cache: FeatureCache, stop: StopRequest
) -> StatesWork:
    """Look which utterances have no states yet; the same piece listed twice is encoded once."""
    missing: dict[str, int] = {}
    with progress(f"looking for the encoder's states, speed {speed:g}", len(table)) as advance:
        for row in range(len(table)):
            utterance = table[row]
            with contextlib.suppress(audio.AudioProblem, OSError):  # named when training hears it
                path = cache.path(utterance.audio, utterance.variant(speed))
                if path.name not in missing and cache.load(path) is None:
                    missing[path.name] = row
            advance()
            if stop.asked:
                raise KeyboardInterrupt
    return StatesWork(table, speed, np.array(sorted(missing.values()), np.int64))


def _check_room(work: Sequence[StatesWork], states_input: SpeechInput, folder: Path) -> None:
    """Say how much the states take, and refuse what the disk cannot hold."""
    bytes_a_second = states_input.width * BYTES_A_NUMBER / states_input.frame_s
    audio_s = sum(each.table.duration_s / each.speed for each in work)
    missing_bytes = sum(each.missing_s for each in work) * bytes_a_second
    say(
        f"frozen encoder: states of {audio_s / 3600:.2f} h of speech, all speeds together, take "
        f"{audio_s * bytes_a_second / GIGA:.2f} GB in {folder}; "
        f"{missing_bytes / GIGA:.2f} GB of that are missing"
    )
    folder.mkdir(parents=True, exist_ok=True)
    free_bytes = shutil.disk_usage(folder).free
    if missing_bytes > free_bytes:
        raise ArborvoxError(
            f"The encoder's states need {missing_bytes / GIGA:.1f} GB more, but {folder} has "
            f"{free_bytes / GIGA:.1f} GB left; make room, name another disk by features.cache, or "
            f"read fewer layers (model.layers) or speeds (augment.speeds)."
        )


def _write_states(writer: StatesWriter, work: Sequence[StatesWork], stop: StopRequest) -> None:
    """Encode what is missing; whoever asks to stop finds later what was done until then."""
    # A graphics card is not shared with processes that were forked.
    workers = count_cores() if writer.device.type == "cpu" else 0
    orders = _orders(work)
    with (
        progress("encoder's states", sum(len(each.missing) for each in work)) as advance,
        contextlib.closing(load_batches(writer, orders, workers, SHARING_MEMORY)) as all_written,
    ):
        for written in all_written:
            if written.problem:
                raise ArborvoxError(
                    f"The encoder's states cannot be kept: {written.problem}; make room, or "
                    f"name another disk by features.cache."
                )
            advance(written.num_utterances)
            if stop.asked:
                raise KeyboardInterrupt


def _orders(work: Sequence[StatesWork]) -> Iterator[StatesOrder]:
    for number, each in enumerate(work):
        for order in plain_orders(each.table, PIECE_S, chosen=each.missing):
            speeds = (each.speed,) * len(order.rows)
            yield StatesOrder(number, replace(order, speeds=speeds))
