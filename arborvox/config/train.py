"""The train section: batches, optimizer, schedule, checkpoints."""

from typing import Literal

from pydantic import Field

from arborvox.config.section import Section


class TrainConfig(Section):
    """The loop: batches, optimizer, schedule, checkpoints."""

    batch_s: float = Field(100.0, gt=0)  # padding included, over all processes together
    accumulate: int = Field(1, gt=0)
    max_epochs: int = Field(100, gt=0)
    max_steps: int | None = Field(None, gt=0)
    max_duration_s: float = Field(30.0, gt=0)
    language_temperature: float = Field(1.0, gt=0)
    duration_jitter: float = Field(0.03, ge=0, lt=1)  # mixes neighbours in length
    workers: int = Field(1, ge=0)
    optimizer: Literal["adam", "adamw"] = "adamw"
    schedule: Literal["warmup", "noam", "cosine"] = "warmup"
    learning_rate: float = Field(1e-3, gt=0)
    encoder_learning_rate: float | None = Field(None, gt=0)  # of a pretrained encoder
    freeze_steps: int = Field(0, ge=0)  # first steps in which a pretrained encoder rests
    warmup_steps: int = Field(25000, ge=0)
    weight_decay: float = Field(0.01, ge=0)  # of adamw; adam has none
    clip: float = Field(5.0, gt=0)
    precision: Literal["auto", "bf16", "fp32"] = "auto"
    compile: bool = False
    evaluate_every: int | None = Field(None, gt=0)  # steps; as often as `save_every` if not set
    patience: int | None = Field(None, gt=0)  # evaluations without a gain before the end
    average_best: int = Field(5, gt=0)
    keep: int = Field(3, gt=0)
    save_every: int = Field(500, gt=0)
    init_from: str | None = None
    seed: int = Field(0, ge=0)
