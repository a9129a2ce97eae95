"""The features and augment sections: what the model hears."""

from typing import Annotated, Literal

from pydantic import Field

from arborvox.config.section import Section


class FeaturesConfig(Section):
    """Log-mel filter banks, as Kaldi computes them."""

    sampling_rate: int = Field(16000, gt=0)
    num_mels: int = Field(80, gt=0)
    window_s: float = Field(0.025, gt=0)
    shift_s: float = Field(0.010, gt=0)
    # corpus: by the training data's mean and deviation; utterance: less each one's own mean first.
    normalise: Literal["corpus", "utterance"] = "corpus"
    cache: str | None = None


class AugmentConfig(Section):
    """What is done to the training audio so that little of it goes a long way."""

    speeds: tuple[Annotated[float, Field(gt=0)], ...] = Field((0.9, 1.0, 1.1), min_length=1)
    frequency_masks: int = Field(2, ge=0)
    max_frequency_mask: int = Field(10, ge=0)
    time_masks: int = Field(2, ge=0)
    max_time_mask: int = Field(50, ge=0)
    max_time_share: float = Field(0.2, ge=0, le=1)
    noise_folder: str | None = None
    noise_share: float = Field(0.5, ge=0, le=1)
    snr_db: tuple[float, float] = (10.0, 30.0)
    reverb_folder: str | None = None
    reverb_share: float = Field(0.3, ge=0, le=1)
