"""What encoders take: frames of speech, their global normalization, and a cache on disk."""

import contextlib
import hashlib
import json
import os
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from lhotse.features.kaldi.layers import Wav2LogFilterBank
from numpy.typing import NDArray
from torch import Tensor

from arborvox import audio
from arborvox.config import FeaturesConfig
from arborvox.spectra import frame_powers

# Kaldi reads 16-bit integers; our samples lie in [-1, 1].
INT16_SCALE = 32768.0
SCALES: dict[str, float] = {"int16": INT16_SCALE, "unit": 1.0}

# Part of every cache key: raise it when the numbers that `LogMel` gives change.
FEATURES_VERSION = 2

# A channel that never changes would otherwise be divided by zero.
MIN_VARIANCE = 1e-8


class SpeechInput(ABC):
    """Samples at one rate in, an encoder's frames out.

    It is made from the recipe alone and travels to worker processes, which have no network.
    """

    sampling_rate: int
    width: int  # numbers that a frame has: M
    frame_s: float  # seconds from one frame to the next
    min_frames: int  # fewer are filled up, to give one state
    wants_statistics: bool  # whether the encoder normalizes by the training data
    from_cache_alone = False  # whether it cannot be computed here, but must have been before
    has_bands = True  # whether neighbors in a frame are alike, so that stretches can be masked
    tells_loudness = False  # whether a frame is log powers, and the encoder learns from the start
    frames_a_mask: float = 1.0  # how many frames stand for one of augment.max_time_mask
    key: str  # names what the numbers depend on, for caches
    description: str  # for the model card

    @abstractmethod
    def __call__(self, samples: NDArray[np.float32]) -> Tensor:
        """Turn mono samples (S,) into frames (T, M), at least one."""


class FilterBanks:
    """Kaldi's log filter banks: window and filters are Lhotse's, the transform is in fp64."""

    def __init__(self, lhotse: Wav2LogFilterBank) -> None:
        self.size, self.hop = lhotse.wav2win._length, lhotse.wav2win._shift
        self.fft_length = int(lhotse.fft_length)
        self.window: Tensor = lhotse.wav2win._window.detach().double()
        self.filters: Tensor = lhotse._fb.detach()  # (F, M)
        self.floor = float(lhotse._eps)

    def __call__(self, wave: NDArray[np.float64]) -> Tensor:
        """Turn samples (S,) into the bands (T, M) of every whole window."""
        powers = frame_powers(
            wave, self.window.numpy(), hop=self.hop, fft_length=self.fft_length, kaldi=True
        )
        return (torch.from_numpy(powers) @ self.filters).clamp_(min=self.floor).log_()


class LogMel(SpeechInput):
    """Kaldi's filter banks: Povey window, pre-emphasis 0.97, no dither."""

    wants_statistics = True
    tells_loudness = True

    def __init__(self, config: FeaturesConfig, min_frames: int = 1) -> None:
        self.config = config
        self.sampling_rate, self.width = config.sampling_rate, config.num_mels
        self.frame_s, self.min_frames = config.shift_s, min_frames
        self.description = f"{config.sampling_rate} Hz mono, {config.num_mels} log-mel bands"
        known = config.model_dump(mode="json", exclude={"cache"})
        for young in ("high_freq", "scale"):  # younger than the caches
            if known[young] == FeaturesConfig.model_fields[young].default:
                del known[young]
        self.key = json.dumps([FEATURES_VERSION, known], sort_keys=True)

    @cached_property
    def banks(self) -> FilterBanks:
        """Made when it is first used: who builds a network on the meta device needs no filters."""
        config = self.config
        return FilterBanks(
            Wav2LogFilterBank(
                sampling_rate=config.sampling_rate,
                frame_length=config.window_s,
                frame_shift=config.shift_s,
                num_filters=config.num_mels,
                high_freq=config.high_freq,  # Lhotse by itself would stop 400 Hz below Nyquist
            )
        )

    @torch.no_grad()
    def __call__(self, samples: NDArray[np.float32]) -> Tensor:
        """Turn mono samples (S,) into features (T, M), T = round(S / shift), at least 1."""
        size, hop = self.banks.size, self.banks.hop
        if len(samples) < size:
            samples = np.pad(samples, (0, size - len(samples)))
        wave = samples.astype(np.float64) * SCALES[self.config.scale]
        # Frames are centered on multiples of the shift; what they lack at the ends is mirrored.
        num_frames = (len(samples) + hop // 2) // hop
        before, needed = (size - hop) // 2, (num_frames - 1) * hop + size
        after = max(0, needed - before - len(wave))
        features = self.banks(np.pad(wave, (before, after), mode="symmetric")[:needed])
        if self.config.normalize == "utterance":
            features -= features.mean(dim=0)
        return features


class StatesInput(SpeechInput):
    """States of a network that does not learn, as an input of what learns on top of them.

    They come from the cache alone: worker processes have no network to compute them with.
    """

    wants_statistics = False
    from_cache_alone = True
    has_bands = False
    min_frames = 1

    def __init__(self, *, of: SpeechInput, frames_a_state: int, width: int, key: str) -> None:
        self.sampling_rate, self.width = of.sampling_rate, width
        self.frame_s = frames_a_state * of.frame_s
        self.frames_a_mask = of.frames_a_mask / frames_a_state
        self.key = f"{of.key}|{key}"
        self.description = of.description

    def __call__(self, samples: NDArray[np.float32]) -> Tensor:
        """Say that the cache is not whole."""
        raise audio.AudioProblem("its states are missing in the cache; run the command again")


def digest_tensors(tensors: Mapping[str, Tensor]) -> str:
    """Name what tensors hold."""
    digest = hashlib.blake2b(digest_size=16)
    for name, tensor in tensors.items():
        digest.update(name.encode())
        digest.update(tensor.detach().float().cpu().contiguous().numpy().data)
    return digest.hexdigest()


@dataclass(frozen=True)
class CMVN:
    """Mean and inverse standard deviation of each mel band over the training data, (M,) each."""

    mean: Tensor
    istd: Tensor

    @classmethod
    def from_sums(cls, sums: Iterable[NDArray[np.float64]]) -> "CMVN":
        """Add up what `feature_sums` gave for each utterance, in the order given."""
        total: NDArray[np.float64] | None = None
        for part in sums:
            total = part if total is None else total + part
        if total is None or total[0, 0] == 0:
            raise ValueError("CMVN needs at least one frame")
        count, first, second = total  # (3, M): frames, sum, sum of squares
        mean = first / count
        variance = np.maximum(second / count - mean**2, MIN_VARIANCE)
        return cls(
            torch.from_numpy(mean.astype(np.float32)),
            torch.from_numpy((1.0 / np.sqrt(variance)).astype(np.float32)),
        )


def feature_sums(features: Tensor) -> NDArray[np.float64]:
    """Return frames, sum and sum of squares of each band, (3, M), in float64."""
    values = features.numpy().astype(np.float64)  # (T, M)
    count = np.full(values.shape[1], len(values), np.float64)
    return np.stack((count, values.sum(axis=0), (values**2).sum(axis=0)))


class HasBytes(Protocol):
    """A recording, wherever it lies: a path, or a part of a shard."""

    def read_bytes(self) -> bytes:
        """Return all of it."""


class FeatureCache:
    """Features on disk, one file for each piece of audio, kind of input and speed.

    The key is made of the audio's bytes, not of its name: moved files still hit, changed ones miss.
    """

    def __init__(self, folder: Path, key: str) -> None:
        self._folder, self._key = folder, key
        self.problem = ""  # why the last write failed; the features themselves are still good

    def get(self, recording: HasBytes, variant: str, compute: Callable[[], Tensor]) -> Tensor:
        """Return the stored features of a variant ("start:duration:speed"), or make and store."""
        path = self.path(recording, variant)
        stored = self.load(path)
        if stored is not None:
            return stored
        features = compute()
        self.store(path, features)
        return features

    def store(self, path: Path, features: Tensor) -> None:
        """Keep the features of a file; where that fails, `problem` says why."""
        try:
            _store(path, features.numpy())
        except OSError as error:
            self.problem = f"{error.strerror or error} ({path.parent})"

    def load(self, path: Path) -> Tensor | None:
        """Map the features of a file; None where there are none."""
        # A file torn by a power cut is as good as a missing one.
        with contextlib.suppress(OSError, ValueError, EOFError):
            # Mapped, and a write would go to a copy.
            return torch.from_numpy(np.load(path, mmap_mode="c", allow_pickle=False))
        return None

    def path(self, recording: HasBytes, variant: str) -> Path:
        """Return where the features of a variant are, or would be; reads the audio's bytes."""
        digest = hashlib.blake2b(recording.read_bytes(), digest_size=20)
        digest.update(f"{self._key}|{variant}".encode())
        key = digest.hexdigest()
        return self._folder / key[:2] / f"{key[2:]}.npy"


def _store(path: Path, values: NDArray[np.floating[Any]]) -> None:
    """Write under a temporary name first: other processes may be reading the same cache."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=".", suffix=".part", dir=path.parent)
    part = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            np.save(file, values, allow_pickle=False)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
