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
from functools import partial
from pathlib import Path

import torch

from arborvox import audio
from arborvox.console import progress, say
from arborvox.data import BatchReader, EncodedUtterance, Order, UtteranceTable
from arborvox.errors import ArborvoxError
from arborvox.features import FeatureCache, SpeechInput
from arborvox.model.encoders import SpeechEncoder
from arborvox.model.transfer import to_device
from arborvox.processes import count_cores
from arborvox.training.interrupts import StopRequest
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
        lens = torch.tensor([len(frames)])
        states, _ = self.encoder.frozen_states(*to_device((frames[None], lens), self.device))
        return states[0].half().cpu()


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
    if ranks.first:
        work = [(data.train, speed) for speed in speeds] + [(data.dev, 1.0)]
        cache = FeatureCache(folder, states_input.key)
        _check_room(work, states_input, folder, cache)
        writer = _make_writer(data, encoder, cache, precision, ranks)
        for table, speed in work:
            _write_states(replace(writer, reader=BatchReader(table, data.input)), speed, stop)
    ranks.wait()
    encoder.take_states()
    return replace(data, input=states_input, cache=str(folder))


def _make_writer(
    data: TrainingData,
    encoder: SpeechEncoder,
    cache: FeatureCache,
    precision: str,
    ranks: Ranks,
) -> StatesWriter:
    """Copy the encoder into the fastest type; the original goes on to learn what is on top."""
    encoder = copy.deepcopy(encoder).eval()
    if precision == "bf16":
        encoder.bfloat16()
        if ranks.device.type == "cpu":
            encoder.pack(alone=True)
    return StatesWriter(BatchReader(data.train, data.input), encoder, ranks.device, cache)


def _check_room(
    work: Sequence[tuple[UtteranceTable, float]],
    states_input: SpeechInput,
    folder: Path,
    cache: FeatureCache,
) -> None:
    """Say how much the states take, and refuse what the disk cannot hold."""
    bytes_a_second = states_input.width * BYTES_A_NUMBER / states_input.frame_s
    audio_s = sum(table.duration_s / speed for table, speed in work)
    say(
        f"frozen encoder: states of {audio_s / 3600:.2f} h of speech, all speeds together, take "
        f"{audio_s * bytes_a_second / GIGA:.2f} GB in {folder}; "
        "what is there already is not computed again"
    )
    folder.mkdir(parents=True, exist_ok=True)
    free_bytes = shutil.disk_usage(folder).free
    if audio_s * bytes_a_second <= free_bytes:
        return
    # Only here: it reads all of the audio.
    missing_bytes = _missing_s(work, cache) * bytes_a_second
    if missing_bytes > free_bytes:
        raise ArborvoxError(
            f"The encoder's states need {missing_bytes / GIGA:.1f} GB more, but {folder} has "
            f"{free_bytes / GIGA:.1f} GB left; make room, name another disk by features.cache, or "
            f"read fewer layers (model.layers) or speeds (augment.speeds)."
        )


def _missing_s(work: Sequence[tuple[UtteranceTable, float]], cache: FeatureCache) -> float:
    """Count the speech whose states are not there yet; the same piece listed twice counts once."""
    missing: dict[Path, float] = {}
    for table, speed in work:
        for row in range(len(table)):
            utterance = table[row]
            with contextlib.suppress(audio.AudioProblem, OSError):  # it will have no states
                path = cache.path(utterance.audio, utterance.variant(speed))
                if not path.exists():
                    missing[path] = utterance.duration_s / speed
    return sum(missing.values())


def _write_states(writer: StatesWriter, speed: float, stop: StopRequest) -> None:
    """Encode a table at one speed; whoever asks to stop finds later what was done until then."""
    table = writer.reader.table
    # A graphics card is not shared with processes that were forked.
    workers = count_cores() if writer.device.type == "cpu" else 0
    with (
        progress(f"encoder's states, speed {speed:g}", len(table)) as advance,
        contextlib.closing(load_batches(writer, _orders(table, speed), workers)) as pieces,
    ):
        for written in pieces:
            if written.problem:
                raise ArborvoxError(
                    f"The encoder's states cannot be kept: {written.problem}; make room, or "
                    f"name another disk by features.cache."
                )
            advance(written.num_utterances)
            if stop.asked:
                raise KeyboardInterrupt


def _orders(table: UtteranceTable, speed: float) -> Iterator[Order]:
    for order in plain_orders(table, PIECE_S):
        yield replace(order, speeds=(speed,) * len(order.rows))
