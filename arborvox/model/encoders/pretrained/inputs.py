"""What pretrained models take: Whisper's mel bands, plain samples, stacked filter banks."""

import json
import warnings
from functools import cached_property

import numpy as np
import torch
from lhotse.features.kaldi.layers import Wav2LogFilterBank
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from arborvox.features import INT16_SCALE, FilterBanks, SpeechInput
from arborvox.spectra import frame_powers

# Part of every cache key: raise it when the numbers change, or those of the states above them.
INPUTS_VERSION = 3

TINY = 1e-7  # under a variance


class WhisperMel(SpeechInput):
    """Log-mel bands as Whisper hears them, on the utterance's own length."""

    wants_statistics = False
    min_frames = 1

    def __init__(self, *, num_mels: int, sampling_rate: int, window: int, hop: int) -> None:
        self.sampling_rate, self.width = sampling_rate, num_mels
        self.frame_s = hop / sampling_rate
        self._window, self._hop = window, hop
        self.key = json.dumps(["whisper", INPUTS_VERSION, num_mels, sampling_rate, window, hop])
        self.description = f"{sampling_rate} Hz mono, Whisper's {num_mels} log-mel bands"

    @torch.no_grad()
    def __call__(self, samples: NDArray[np.float32]) -> Tensor:
        """Turn mono samples (S,) into (T, M), T = S // hop, at least 1."""
        # The window is centered on its frame, and reflection needs more than half a window.
        shortest, half = max(self._window, self._hop), self._window // 2
        wave = np.pad(samples, (0, max(0, shortest - len(samples)))).astype(np.float64)
        count = len(wave) // self._hop
        wave = np.pad(wave, half, mode="reflect")[: (count - 1) * self._hop + self._window]
        powers = frame_powers(
            wave, self.hann.numpy(), hop=self._hop, fft_length=self._window
        )  # (T, F)
        bands = (torch.from_numpy(powers) @ self.filters).clamp_(min=1e-10).log10_()  # (T, M)
        # Whatever is 80 dB below the loudest is silence.
        bands = torch.maximum(bands, bands.max() - 8.0)
        return (bands + 4.0) / 4.0

    @cached_property
    def hann(self) -> Tensor:
        """The window, in fp64."""
        return torch.hann_window(self._window, dtype=torch.float64, device="cpu")

    @cached_property
    def filters(self) -> Tensor:
        """Which frequencies each band hears, (F, M)."""
        bands = slaney_bands(self.width, self._window // 2 + 1, self.sampling_rate)
        return torch.from_numpy(bands.T.astype(np.float32))


def slaney_bands(num_mels: int, num_bins: int, sampling_rate: int) -> NDArray[np.float64]:
    """Return triangles of equal area on Slaney's mel scale up to Nyquist, (M, F)."""
    # Linear up to 1000 Hz at 15 mels, then 27 steps to each factor of 6.4.
    top = 15.0 + 27.0 * np.log(sampling_rate / 2 / 1000.0) / np.log(6.4)
    mels = np.linspace(0.0, top, num_mels + 2)
    corners_hz = np.where(
        mels < 15.0, mels * 200.0 / 3.0, 1000.0 * np.exp((mels - 15.0) * np.log(6.4) / 27.0)
    )
    bins_hz = np.linspace(0.0, sampling_rate / 2, num_bins)
    widths_hz = np.diff(corners_hz)  # (M + 1,)
    slopes = corners_hz[:, None] - bins_hz  # (M + 2, F)
    rising = -slopes[:-2] / widths_hz[:-1, None]
    falling = slopes[2:] / widths_hz[1:, None]
    triangles = np.maximum(0.0, np.minimum(rising, falling))
    areas: NDArray[np.float64] = 2.0 / (corners_hz[2:] - corners_hz[:-2])
    return triangles * areas[:, None]


class RawSamples(SpeechInput):
    """Samples as they are, or brought to mean 0 and deviation 1 over the utterance."""

    wants_statistics = False
    has_bands = False
    width = 1

    def __init__(self, *, sampling_rate: int, normalize: bool, min_samples: int) -> None:
        self.sampling_rate, self._normalize = sampling_rate, normalize
        self.frame_s = 1.0 / sampling_rate
        self.min_frames = min_samples
        self.frames_a_mask = sampling_rate / 100
        self.key = json.dumps(["samples", INPUTS_VERSION, sampling_rate, normalize, min_samples])
        self.description = f"{sampling_rate} Hz mono, samples"

    def __call__(self, samples: NDArray[np.float32]) -> Tensor:
        """Turn mono samples (S,) into (S, 1); fewer than one state needs are filled up."""
        wave = torch.from_numpy(samples).float()
        if self._normalize:
            wave = (wave - wave.mean()) / (wave.var(correction=0) + TINY).sqrt()
        return functional.pad(wave, (0, max(0, self.min_frames - len(wave))))[:, None]


class StackedFilterBanks(SpeechInput):
    """Kaldi's filter banks, each band normalized over the utterance, some frames side by side."""

    wants_statistics = False
    min_frames = 1

    def __init__(self, *, num_mels: int, sampling_rate: int, stride: int) -> None:
        self.sampling_rate, self.width = sampling_rate, num_mels * stride
        self._num_mels, self._stride = num_mels, stride
        self.frame_s = 0.01 * stride
        self.frames_a_mask = 1.0 / stride
        self.key = json.dumps(["stacked", INPUTS_VERSION, num_mels, sampling_rate, stride])
        self.description = (
            f"{sampling_rate} Hz mono, {num_mels} log-mel bands, {stride} frames side by side"
        )

    @torch.no_grad()
    def __call__(self, samples: NDArray[np.float32]) -> Tensor:
        """Turn mono samples (S,) into (T, M), at least one frame."""
        window, hop = round(0.025 * self.sampling_rate), round(0.01 * self.sampling_rate)
        shortest = window + hop * (self._stride - 1)
        samples = np.pad(samples, (0, max(0, shortest - len(samples))))
        bands = self.banks(samples.astype(np.float64) * INT16_SCALE)  # (T, M)
        deviation = (bands.var(dim=0) + TINY).sqrt()
        bands = (bands - bands.mean(dim=0)) / deviation
        # The model never saw a frame that is left over.
        return bands[: len(bands) - len(bands) % self._stride].reshape(-1, self.width)

    @cached_property
    def banks(self) -> FilterBanks:
        """Made when it is first used."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of snip_edges, which the model was taught with
            return FilterBanks(
                Wav2LogFilterBank(
                    sampling_rate=self.sampling_rate,
                    num_filters=self._num_mels,
                    high_freq=0.0,
                    snip_edges=True,
                )
            )
