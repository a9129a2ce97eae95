"""Every encoder's input as a graph: padded samples in, frames out, by plain products and gathers.

What stands before the filter banks (offset, pre-emphasis, window, Fourier transform) is linear, so
it is one convolution. Its kernel is computed from the window when the graph is loaded: the file
keeps a window and one wave instead of a matrix.
"""

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from arborvox.errors import ArborvoxError
from arborvox.features import INT16_SCALE, SCALES, LogMel, SpeechInput
from arborvox.model.encoders.pretrained.inputs import (
    TINY,
    RawSamples,
    StackedFilterBanks,
    WhisperMel,
)
from arborvox.model.encoders.stack import padded_frames
from arborvox.spectra import PRE_EMPHASIS


class InputGraph(nn.Module):
    """Samples (B, S) with lengths (B,) in; frames (B, T, M) and their number (B,) out."""

    min_samples: int  # that S must have at least; lengths may be smaller

    def forward(self, samples: Tensor, lens: Tensor) -> tuple[Tensor, Tensor]:
        """Turn padded samples into padded frames; what stands in the padding is anything."""
        raise NotImplementedError


class PowerSpectrum(nn.Module):
    """Power of each frequency in each frame, (B, S) padded -> (B, T, F)."""

    def __init__(self, window: Tensor, fft_length: int, hop: int, *, kaldi: bool) -> None:
        super().__init__()
        self.hop, self.size, self.fft_length, self.kaldi = hop, len(window), fft_length, kaldi
        self.register_buffer("window", window.double())
        turns = torch.arange(fft_length, dtype=torch.float64) * (2 * math.pi / fft_length)
        self.register_buffer("wave", turns.cos())
        # As buffers, so that their products are made by the graph and not stored in it.
        self.register_buffer("places", torch.arange(len(window)))
        self.register_buffer("frequencies", torch.arange(fft_length // 2 + 1))
        self.window: Tensor
        self.wave: Tensor
        self.places: Tensor
        self.frequencies: Tensor

    def forward(self, samples: Tensor) -> Tensor:
        """Convolve with cosines and sines."""
        kernel = self._kernel().to(samples.dtype)  # (2F, window)
        kernel = kernel.reshape(self.fft_length + 2, 1, self.size)  # sizes that a tracer can see
        spectrum = functional.conv1d(samples[:, None], kernel, stride=self.hop)  # (B, 2F, T)
        real, imaginary = spectrum.transpose(1, 2).chunk(2, dim=-1)
        return real * real + imaginary * imaginary

    def _kernel(self) -> Tensor:
        # The remainder changes nothing, but the tracer would multiply what it takes for constant.
        frequencies = self.frequencies % self.fft_length
        turns = frequencies[:, None] * self.places  # (F, window)
        cosine = self.wave[turns % self.fft_length]
        sine = self.wave[(turns + self.fft_length // 4) % self.fft_length]
        kernel = torch.cat((cosine, sine)) * self.window
        if self.kaldi:  # x_n - 0.97 x_(n-1) of the samples, seen from the kernel
            after = functional.pad(kernel[:, 1:], (0, 1))
            kernel = kernel - PRE_EMPHASIS * after
            first = functional.pad(kernel.new_ones(1), (0, self.size - 1))
            kernel = kernel - PRE_EMPHASIS * first * (kernel + PRE_EMPHASIS * after)
            kernel = kernel - kernel.mean(dim=1, keepdim=True)
        return kernel


def mirror(samples: Tensor, lens: Tensor, before: int, count: int, *, edge: bool) -> Tensor:
    """Return `count` samples from `before` in front of the first, mirrored at both ends.

    edge: whether the sample at the end stands twice.
    """
    places = torch.arange(count) - before
    twice = 1 if edge else 0
    places = torch.where(places < 0, -twice - places, places)[None, :]
    last = lens[:, None]
    places = torch.where(places >= last, 2 * last - 2 + twice - places, places)
    return samples.gather(1, places.clamp(0, samples.shape[1] - 1))


def mean_of(values: Tensor, lens: Tensor, *, correction: int = 0) -> tuple[Tensor, Tensor]:
    """Return mean and variance over an utterance's own frames, (B, T, M) -> (B, 1, M) twice."""
    padding = padded_frames(values, lens)
    count = lens[:, None, None].to(values.dtype)
    mean = values.masked_fill(padding, 0.0).sum(dim=1, keepdim=True) / count
    away = (values - mean).masked_fill(padding, 0.0)
    return mean, away.square().sum(dim=1, keepdim=True) / (count - correction)


class LogMelGraph(InputGraph):
    """Kaldi's filter banks of our own encoders."""

    def __init__(self, input: LogMel) -> None:
        super().__init__()
        banks = input.banks
        self.by_utterance = input.config.normalize == "utterance"
        self.scale = SCALES[input.config.scale]
        self.size, self.hop, self.floor = banks.size, banks.hop, banks.floor
        self.spectrum = PowerSpectrum(banks.window, banks.fft_length, self.hop, kaldi=True)
        self.register_buffer("bands", banks.filters)
        self.bands: Tensor
        # Enough for one state of the encoder.
        self.min_samples = max(self.size, input.min_frames * self.hop)

    def forward(self, samples: Tensor, lens: Tensor) -> tuple[Tensor, Tensor]:
        """Return log-mel frames; an utterance shorter than a window is filled up with silence."""
        places = torch.arange(samples.shape[1])
        samples = (samples * self.scale).masked_fill(places >= lens[:, None], 0.0)
        lens = lens.clamp(min=self.size)
        num_frames = (samples.shape[1] + self.hop // 2) // self.hop
        count = (num_frames - 1) * self.hop + self.size
        wave = mirror(samples, lens, (self.size - self.hop) // 2, count, edge=True)
        frames = (self.spectrum(wave) @ self.bands).clamp(min=self.floor).log()
        lens = torch.div(lens + self.hop // 2, self.hop, rounding_mode="floor")
        if self.by_utterance:
            frames = frames - mean_of(frames, lens)[0]
        return frames, lens


class WhisperMelGraph(InputGraph):
    """Whisper's log-mel bands."""

    def __init__(self, input: WhisperMel) -> None:
        super().__init__()
        self.size, self.hop = input._window, input._hop
        self.spectrum = PowerSpectrum(input.hann, self.size, self.hop, kaldi=False)
        self.register_buffer("bands", input.filters)
        self.bands: Tensor
        self.min_samples = max(self.size, self.hop)

    def forward(self, samples: Tensor, lens: Tensor) -> tuple[Tensor, Tensor]:
        """Return Whisper's bands, each utterance relative to its own loudest."""
        places = torch.arange(samples.shape[1])
        samples = samples.masked_fill(places >= lens[:, None], 0.0)
        lens = lens.clamp(min=self.min_samples)
        num_frames = samples.shape[1] // self.hop
        count = (num_frames - 1) * self.hop + self.size
        wave = mirror(samples, lens, self.size // 2, count, edge=False)
        bands = (self.spectrum(wave) @ self.bands).clamp(min=1e-10).log10()
        lens = torch.div(lens, self.hop, rounding_mode="floor")
        heard = bands.masked_fill(padded_frames(bands, lens), -10.0)
        bands = torch.maximum(bands, heard.amax(dim=(1, 2), keepdim=True) - 8.0)
        return (bands + 4.0) / 4.0, lens


class RawSamplesGraph(InputGraph):
    """Samples as they are, or brought to mean 0 and deviation 1."""

    def __init__(self, input: RawSamples) -> None:
        super().__init__()
        self.normalize, self.min_samples = input._normalize, input.min_frames

    def forward(self, samples: Tensor, lens: Tensor) -> tuple[Tensor, Tensor]:
        """Return samples as frames of one number."""
        frames = samples[:, :, None]
        if self.normalize:
            mean, variance = mean_of(frames, lens)
            frames = (frames - mean) / (variance + TINY).sqrt()
        frames = frames.masked_fill(padded_frames(frames, lens), 0.0)
        return frames, lens.clamp(min=self.min_samples)


class StackedFilterBanksGraph(InputGraph):
    """w2v-BERT's filter banks, some frames side by side."""

    def __init__(self, input: StackedFilterBanks) -> None:
        super().__init__()
        banks = input.banks
        self.size, self.hop, self.floor = banks.size, banks.hop, banks.floor
        self.stride = input._stride
        self.spectrum = PowerSpectrum(banks.window, banks.fft_length, self.hop, kaldi=True)
        self.register_buffer("bands", banks.filters)
        self.bands: Tensor
        self.min_samples = self.size + self.hop * (self.stride - 1)

    def forward(self, samples: Tensor, lens: Tensor) -> tuple[Tensor, Tensor]:
        """Return bands of mean 0 and deviation 1 over the utterance."""
        places = torch.arange(samples.shape[1])
        samples = (samples * INT16_SCALE).masked_fill(places >= lens[:, None], 0.0)
        lens = lens.clamp(min=self.min_samples)
        bands = (self.spectrum(samples) @ self.bands).clamp(min=self.floor).log()
        lens = torch.div(lens - self.size, self.hop, rounding_mode="floor") + 1
        mean, variance = mean_of(bands, lens, correction=1)
        bands = (bands - mean) / (variance + TINY).sqrt()
        whole = bands.shape[1] // self.stride
        bands = bands[:, : whole * self.stride]
        stacked = bands.reshape(bands.shape[0], whole, self.stride * bands.shape[2])
        return stacked, torch.div(lens, self.stride, rounding_mode="floor")


GRAPHS: dict[type[SpeechInput], Any] = {
    LogMel: LogMelGraph,
    WhisperMel: WhisperMelGraph,
    RawSamples: RawSamplesGraph,
    StackedFilterBanks: StackedFilterBanksGraph,
}


def input_graph(input: SpeechInput) -> InputGraph:
    """Return an encoder's input as a module that can be exported."""
    if type(input) not in GRAPHS:
        raise ArborvoxError(f"{input.description}: this input has no graph to export.")
    graph: InputGraph = GRAPHS[type(input)](input)
    return graph.eval()
