"""The features and augment sections: what the model hears."""

from typing import Annotated

from pydantic import Field

from arborvox.config.choices import Normalization
from arborvox.config.section import Section

Decibels = Annotated[float, Field(ge=-100, le=100)]


class FeaturesConfig(Section):
    """Log-mel filter banks, as Kaldi computes them."""

    sampling_rate: int = Field(16000, ge=1000, le=768_000)
    num_mels: int = Field(80, gt=0, le=1000)
    window_s: float = Field(0.025, ge=1e-3, le=1)
    shift_s: float = Field(0.010, ge=1e-3, le=1)
    # corpus: by the training data's mean and deviation; utterance: less each one's own mean first.
    normalize: Normalization = "corpus"
    cache: str | None = None


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
    noise_folder: str | None = None
    noise_share: float = Field(0.5, ge=0, le=1)
    snr_db: tuple[Decibels, Decibels] = (10.0, 30.0)
    reverb_folder: str | None = None
    reverb_share: float = Field(0.3, ge=0, le=1)
