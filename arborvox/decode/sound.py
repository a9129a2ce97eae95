"""Sound in whatever form a program has it: a path, an open file, samples, or blocks of samples."""

import shutil
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import soxr

from arborvox import audio
from arborvox.errors import ArborvoxError

BLOCK_S = 30.0
MAX_RATE = 10_000_000

# An array is anything that NumPy can read, (S,) or (S, channels); blocks are arrays one by one.
Sound = str | Path | BinaryIO | Any


def sound_blocks(sound: Sound, rate: int | None, wanted_rate: int) -> Iterator[audio.Samples]:
    """Yield mono blocks at the wanted rate, in bounded memory if the sound comes in blocks."""
    is_file = isinstance(sound, str | Path) or hasattr(sound, "read")
    if is_file and rate is not None:
        raise ArborvoxError("A recording states its own rate; `rate` belongs to samples alone.")
    if isinstance(sound, str | Path):
        yield from audio.stream(Path(sound), wanted_rate, BLOCK_S)
    elif is_file:
        yield from _from_open_file(sound, wanted_rate)
    else:
        if rate is None:
            raise ArborvoxError("Samples need their rate: transcribe(samples, rate=48000).")
        if isinstance(rate, bool) or int(rate) != rate or not 1 <= rate <= MAX_RATE:
            raise ArborvoxError(f"The rate is a number of samples a second, not {rate!r}.")
        blocks = sound if isinstance(sound, Iterator) else _cut(mono_samples(sound), int(rate))
        yield from _resample(map(mono_samples, blocks), int(rate), wanted_rate)


class CountedBlocks:
    """Blocks of samples that are counted as they pass."""

    def __init__(self, blocks: Iterable[audio.Samples]) -> None:
        self._blocks = iter(blocks)
        self.num_samples = 0

    def __iter__(self) -> Iterator[audio.Samples]:
        for block in self._blocks:
            self.num_samples += len(block)
            yield block


def mono_samples(values: Any) -> audio.Samples:
    """Turn samples (S,) or (S, channels), whole numbers or floats, into mono in [-1, 1]."""
    try:
        samples = np.asarray(values)
    except (ValueError, TypeError, RuntimeError) as error:
        raise ArborvoxError(f"Samples must be an array of numbers ({error}).") from None
    if samples.ndim not in (1, 2) or samples.dtype.kind not in "iuf":
        raise ArborvoxError(
            f"Samples must be numbers of the shape (S,) or (S, channels), but they are "
            f"{samples.dtype} of the shape {samples.shape}."
        )
    if samples.dtype.kind in "iu" and samples.dtype.itemsize > 4:
        raise ArborvoxError(f"Samples must be integers of at most 32 bits, not {samples.dtype}.")
    if samples.dtype.kind == "f":
        mono = samples.astype(np.float32, copy=False)
    else:
        # int16 has its full scale at 32,768; unsigned samples have their silence in the middle.
        half = 2.0 ** (8 * samples.dtype.itemsize - 1)
        middle = half if samples.dtype.kind == "u" else 0.0
        mono = ((samples - middle) / half).astype(np.float32)
    if mono.ndim == 2:
        mono = mono.mean(axis=1) if mono.shape[1] else np.zeros(0, np.float32)
    if not np.isfinite(mono).all():
        raise audio.AudioProblem("NaN or infinite samples")
    return mono


def _from_open_file(file: BinaryIO, wanted_rate: int) -> Iterator[audio.Samples]:
    """Read an open file through a copy on disk: decoders look back, and a stream cannot."""
    with tempfile.TemporaryDirectory(prefix="arborvox-") as folder:
        path = Path(folder) / "sound"
        with path.open("wb") as copy:
            try:
                shutil.copyfileobj(file, copy)
            except TypeError:
                raise ArborvoxError("Open the file in binary mode: open(path, 'rb').") from None
        yield from audio.stream(path, wanted_rate, BLOCK_S)


def _cut(samples: audio.Samples, rate: int) -> Iterator[audio.Samples]:
    length = max(1, round(BLOCK_S * rate))
    for start in range(0, len(samples), length):
        yield samples[start : start + length]


def _resample(
    blocks: Iterable[audio.Samples], rate: int, wanted_rate: int
) -> Iterator[audio.Samples]:
    if rate == wanted_rate:
        yield from blocks
        return
    resampler = soxr.ResampleStream(rate, wanted_rate, num_channels=1)
    for block in blocks:
        yield resampler.resample_chunk(block)
    yield resampler.resample_chunk(np.zeros(0, np.float32), last=True)
