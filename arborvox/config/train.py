"""The train section: batches, optimizer, schedule, checkpoints."""

from typing import Annotated

from pydantic import Field

from arborvox.config.choices import Optimizer, Precision, Schedule
from arborvox.config.section import Section, Seed

Steps = Annotated[int, Field(gt=0, le=10**9)]


class TrainConfig(Section):
    """The loop: batches, optimizer, schedule, checkpoints."""

    batch_s: float = Field(
        100.0, gt=0, le=1_000_000
    )  # padding included, over all processes together
    accumulate: int = Field(1, gt=0, le=100_000)
    max_epochs: int = Field(100, gt=0, le=1_000_000)
    max_steps: Steps | None = None
    max_duration_s: float = Field(30.0, gt=0, le=86_400)
    language_temperature: float = Field(1.0, ge=0.01, le=1000)
    duration_jitter: float = Field(0.03, ge=0, lt=1)  # mixes neighbors in length
    mixed_shards: int = Field(16, gt=0, le=1_000_000)  # open at a time, where there are any
    workers: int = Field(1, ge=0, le=1024)
    optimizer: Optimizer = "adamw"
    schedule: Schedule = "warmup"
    learning_rate: float = Field(1e-3, gt=0, le=100)
    encoder_learning_rate: float | None = Field(None, gt=0, le=100)  # of a pretrained encoder
    freeze_steps: int = Field(0, ge=0, le=10**9)  # first steps in which a pretrained encoder rests
    warmup_steps: int = Field(25000, ge=0, le=10**9)
    # Masks, speeds, noises and dropout wait until the development error rate is below this share.
    regularize_below: float | None = Field(None, gt=0, le=1)
    weight_decay: float = Field(0.01, ge=0, le=100)  # of adamw; adam has none
    # Of what tied gates differ in from the question that they share; of adamw too.
    deviation_decay: float = Field(0.3, ge=0, le=100)
    clip: float = Field(5.0, gt=0, le=10**9)
    precision: Precision = "auto"
    compile: bool = False
    evaluate_every: Steps | None = None  # steps; as often as `save_every` if not set
    patience: Steps | None = None  # evaluations without a gain before the end
    average_best: int = Field(5, gt=0, le=10_000)
    keep: int = Field(3, gt=0, le=10_000)
    save_every: Steps = 500
    init_from: str | None = None
    init_outputs: bool = True  # take output layers over, too; a tree never takes a softmax's
    seed: Seed = 0
