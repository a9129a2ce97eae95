"""The features and augment sections: what the model hears."""

from typing import Annotated

from pydantic import Field, model_validator

from arborvox.config.choices import Normalization, SampleScale
from arborvox.config.section import Section

MIN_WINDOW_SAMPLES = 16
MIN_HIGHEST_HZ = 100
# Samples of a window times filters: 80 filters at 768 kHz and 0.1 s are a third of it.
MAX_FILTER_BANK = 20_000_000

Decibels = Annotated[float, Field(ge=-100, le=100)]


class FeaturesConfig(Section):
    """Log-mel filter banks, as Kaldi computes them."""

    sampling_rate: int = Field(16000, ge=1000, le=768_000)
    num_mels: int = Field(80, ge=4, le=1000)
    # Where the bands end; 0 is half the rate, below 0 so far beneath it. sherpa-onnx needs -400.
    high_freq: float = Field(0.0, ge=-380_000, le=384_000)
    # unit: samples lie in [-1, 1], as sherpa-onnx takes them; what is quiet is nearer to the floor.
    scale: SampleScale = "int16"
    window_s: float = Field(0.025, ge=1e-3, le=0.1)
    shift_s: float = Field(0.010, ge=1e-3, le=0.1)
    # corpus: by the training data's mean and deviation; utterance: less each one's own mean first.
    normalize: Normalization = "corpus"
    cache: str | None = None

    @model_validator(mode="after")
    def _check_window(self) -> "FeaturesConfig":
        samples = self.window_s * self.sampling_rate
        if samples < MIN_WINDOW_SAMPLES:
            raise ValueError(f"a window of {self.window_s} s has only {samples:.0f} samples")
        half = self.sampling_rate / 2
        highest = self.high_freq if self.high_freq > 0 else half + self.high_freq
        if not MIN_HIGHEST_HZ <= highest <= half:
            raise ValueError(f"high_freq must name a frequency of {MIN_HIGHEST_HZ} to {half:g} Hz")
        if self.shift_s > self.window_s:
            raise ValueError("shift_s must not be longer than window_s: speech would be skipped")
        if samples * self.num_mels > MAX_FILTER_BANK:
            raise ValueError(f"a window of {samples:.0f} samples is too long for so many num_mels")
        return self


class AugmentConfig(Section):
    """What is done to the training audio so that little of it goes a long way."""

    speeds: tuple[Annotated[float, Field(ge=0.1, le=10)], ...] = Field(
        (0.9, 1.0, 1.1), min_length=1, max_length=100
    )
    frequency_masks: int = Field(2, ge=0, le=1000)
    max_frequency_mask: int = Field(10, ge=0, le=1000)
    time_masks: int = Field(2, ge=0, le=1000)
    max_time_mask: int = Field(50, ge=0, le=100_000)
    max_time_share: float = Field(0.2, ge=0, le=1)
    # BPE units only: each merge of two pieces is left out with this probability.
    piece_dropout: float = Field(0.0, ge=0, lt=1)
    noise_folder: str | None = None
    noise_share: float = Field(0.5, ge=0, le=1)
    snr_db: tuple[Decibels, Decibels] = (10.0, 30.0)
    reverb_folder: str | None = None
    reverb_share: float = Field(0.3, ge=0, le=1)
