"""What is done to training audio and features; pure functions, randomness by `torch.Generator`."""

from pathlib import Path

import numpy as np
import soxr
import torch
from numpy.typing import NDArray
from torch import Generator, Tensor

from arborvox import audio
from arborvox.config import AugmentConfig
from arborvox.errors import ArborvoxError
from arborvox.files import expand_place

AUDIO_SUFFIXES = {".flac", ".m4a", ".mp3", ".ogg", ".opus", ".wav"}

Samples = NDArray[np.float32]  # (S,)


def change_speed(samples: Samples, speed: float, sampling_rate: int) -> Samples:
    """Play faster (speed > 1) or slower; pitch moves along, as on a tape."""
    if speed == 1.0:
        return samples
    changed: Samples = soxr.resample(samples, sampling_rate * speed, sampling_rate)
    return changed


def mask_features(
    features: Tensor,
    config: AugmentConfig,
    fill: Tensor,
    generator: Generator,
    *,
    has_bands: bool = True,
    frames_a_mask: float = 1.0,
) -> Tensor:
    """SpecAugment: replace some bands and some stretches of time of (T, M) by `fill`, (M,).

    Where frames have no bands, time alone is masked; `frames_a_mask` frames are as long as one of
    those that `max_time_mask` counts.
    """
    T, M = features.shape
    features = features.clone()
    widest = min(round(config.max_time_mask * frames_a_mask), int(T * config.max_time_share))
    for _ in range(config.frequency_masks if has_bands else 0):
        start, end = _draw_span(M, min(config.max_frequency_mask, M), generator)
        features[:, start:end] = fill[start:end]
    for _ in range(config.time_masks):
        start, end = _draw_span(T, widest, generator)
        features[start:end] = fill
    return features


def add_noise(samples: Samples, noise: Samples, snr_db: float) -> Samples:
    """Add noise, repeated or cut to fit, at a signal-to-noise ratio."""
    noise = np.resize(noise, len(samples))
    signal_power, noise_power = np.mean(samples**2), np.mean(noise**2)
    if signal_power == 0 or noise_power == 0:
        return samples
    gain = np.sqrt(signal_power / noise_power) * 10.0 ** (-snr_db / 20.0)
    mixed: Samples = samples + noise * np.float32(gain)
    return mixed


def reverberate(samples: Samples, impulse_response: Samples) -> Samples:
    """Convolve with a room's response; length, loudness and start of speech stay as they were."""
    direct = int(np.argmax(np.abs(impulse_response)))
    size = len(samples) + len(impulse_response) - 1
    size = 1 << (size - 1).bit_length()  # powers of two are the fast transforms
    spectrum = np.fft.rfft(samples, size) * np.fft.rfft(impulse_response, size)
    wet = np.fft.irfft(spectrum, size)[direct : direct + len(samples)]
    before, after = np.sqrt(np.mean(samples**2)), np.sqrt(np.mean(wet**2))
    scaled: Samples = (wet * (before / after if after > 0 else 1.0)).astype(np.float32)
    return scaled


class Surroundings:
    """The user's noises and rooms, put around clean speech at random."""

    def __init__(self, config: AugmentConfig, sampling_rate: int) -> None:
        self._config = config
        self._sampling_rate = sampling_rate
        self._noises = _list_audio(config.noise_folder, "augment.noise_folder")
        self._rooms = _list_audio(config.reverb_folder, "augment.reverb_folder")

    def choose(self, generator: Generator) -> tuple[Path | None, Path | None]:
        """Draw a room and a noise for one utterance; None where there is none."""
        room = _draw_file(self._rooms, self._config.reverb_share, generator)
        noise = _draw_file(self._noises, self._config.noise_share, generator)
        return room, noise

    def apply(
        self, samples: Samples, room: Path | None, noise: Path | None, generator: Generator
    ) -> Samples:
        """Put the chosen room, then the chosen noise, around the samples."""
        if room is not None:
            samples = reverberate(samples, self._load(room))
        if noise is not None:
            low, high = self._config.snr_db
            snr_db = low + (high - low) * float(torch.rand((), generator=generator))
            sound = self._load(noise)
            start = int(torch.randint(len(sound), (), generator=generator))
            samples = add_noise(samples, np.roll(sound, -start), snr_db)
        return samples

    def _load(self, path: Path) -> Samples:
        try:
            return audio.load(path, self._sampling_rate)
        except audio.AudioProblem as problem:
            raise ArborvoxError(
                f"{path} cannot be used for augmentation: {problem}; remove it from its folder."
            ) from None


def _draw_span(length: int, widest: int, generator: Generator) -> tuple[int, int]:
    """Draw a span of at most `widest` inside `length`."""
    width = int(torch.randint(widest + 1, (), generator=generator))
    start = int(torch.randint(length - width + 1, (), generator=generator))
    return start, start + width


def _draw_file(files: list[Path], share: float, generator: Generator) -> Path | None:
    """Draw a file with probability `share`."""
    if not files or float(torch.rand((), generator=generator)) >= share:
        return None
    return files[int(torch.randint(len(files), (), generator=generator))]


def _list_audio(folder: str | None, key: str) -> list[Path]:
    """List a folder's recordings, sorted so that a draw means the same file everywhere."""
    if folder is None:
        return []
    folder = expand_place(folder, key)
    files = sorted(p for p in Path(folder).rglob("*") if p.suffix.lower() in AUDIO_SUFFIXES)
    if not files:
        raise ArborvoxError(f"{key}: there is no audio in {folder}.")
    return files
