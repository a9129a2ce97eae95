"""Samples of a recording at the rate a model wants: whole, or block by block."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import soundfile
import soxr

from arborvox.audio.recording import (
    AudioInfo,
    AudioProblem,
    Recording,
    Samples,
    open_recording,
    refuse_truncated,
)


def read_info(path: Path) -> AudioInfo:
    """Read the header only; a file that does not state its length is decoded to find it."""
    with open_recording(path) as recording:
        num_samples = recording.num_samples
        if num_samples is None:
            num_samples = sum(map(len, decode(recording)))
        return info_of(recording, num_samples)


def load(path: Path, sampling_rate: int = 16000) -> Samples:
    """Read a whole recording as mono float32 (T,) at the wanted rate; values are never clipped."""
    with open_recording(path) as recording:
        blocks = list(decode(recording))
        samples = np.concatenate(blocks) if blocks else np.zeros(0, np.float32)
        if recording.sampling_rate != sampling_rate:
            samples = soxr.resample(samples, recording.sampling_rate, sampling_rate)
        return samples


def stream(path: Path, sampling_rate: int = 16000, block_s: float = 30.0) -> Iterator[Samples]:
    """Yield mono blocks of `block_s` seconds, the last one shorter, in bounded memory."""
    block_len = max(1, round(block_s * sampling_rate))
    pending: list[Samples] = []
    num_pending = 0
    with open_recording(path) as recording:
        for piece in _resample(recording, sampling_rate):
            pending.append(piece)
            num_pending += len(piece)
            if num_pending < block_len:
                continue
            joined = np.concatenate(pending)
            num_whole = num_pending // block_len * block_len
            for start in range(0, num_whole, block_len):
                yield joined[start : start + block_len]
            pending, num_pending = [joined[num_whole:]], num_pending - num_whole
    if num_pending:
        yield np.concatenate(pending)


def decode(recording: Recording) -> Iterator[Samples]:
    """Yield mono blocks at the file's own rate; raise AudioProblem where they break off early."""
    num_decoded = 0
    try:
        for block in recording.blocks():
            if not np.isfinite(block).all():
                raise AudioProblem("NaN or infinite samples")
            num_decoded += len(block)
            yield block
    except soundfile.LibsndfileError:
        refuse_truncated(recording.num_samples or 0, num_decoded, recording.sampling_rate)
        decoded_s = num_decoded / recording.sampling_rate
        raise AudioProblem(f"damaged: decoding stops after {decoded_s:.1f} s") from None
    if recording.num_samples is not None and recording.is_exact:
        refuse_truncated(recording.num_samples, num_decoded, recording.sampling_rate)


def info_of(recording: Recording, num_samples: int) -> AudioInfo:
    """The facts about a recording, with the length that the header or the decoder gave."""
    return AudioInfo(recording.sampling_rate, num_samples, recording.num_channels)


def _resample(recording: Recording, sampling_rate: int) -> Iterator[Samples]:
    if recording.sampling_rate == sampling_rate:
        yield from decode(recording)
        return
    resampler = soxr.ResampleStream(recording.sampling_rate, sampling_rate, num_channels=1)
    for block in decode(recording):
        yield resampler.resample_chunk(block)
    yield resampler.resample_chunk(np.zeros(0, np.float32), last=True)
