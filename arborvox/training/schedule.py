"""The learning rate at each step, as pure functions; steps count from 1."""

import math
from collections.abc import Callable
from functools import partial

from arborvox.config import TrainConfig
from arborvox.console import warn

Schedule = Callable[[int], float]


def warmup_rate(step: int, *, peak: float, warmup_steps: int) -> float:
    """Rise in a straight line to the peak at `warmup_steps`, then fall as 1 / sqrt(step)."""
    warmup = max(warmup_steps, 1)
    return peak * min(math.sqrt(warmup / step), step / warmup)


def noam_rate(step: int, *, factor: float, width: int, warmup_steps: int) -> float:
    """The Transformer's own: `factor` / sqrt(width) x min(1 / sqrt(step), step / warmup^1.5)."""
    warmup = max(warmup_steps, 1)
    return warmup_rate(step, peak=factor / math.sqrt(width * warmup), warmup_steps=warmup)


def cosine_rate(step: int, *, peak: float, warmup_steps: int, total_steps: int) -> float:
    """Rise in a straight line to the peak, then fall along half a cosine to zero at the end."""
    if step <= warmup_steps:
        return peak * step / warmup_steps
    done = min(1.0, (step - warmup_steps) / max(total_steps - warmup_steps, 1))
    return peak * 0.5 * (1.0 + math.cos(math.pi * done))


def make_schedule(config: TrainConfig, *, width: int, total_steps: int) -> Schedule:
    """Bind the recipe's numbers to the schedule that it names."""
    peak, warmup = config.learning_rate, config.warmup_steps
    schedules: dict[str, Schedule] = {
        "warmup": partial(warmup_rate, peak=peak, warmup_steps=warmup),
        "noam": partial(noam_rate, factor=peak, width=width, warmup_steps=warmup),
        "cosine": partial(cosine_rate, peak=peak, warmup_steps=warmup, total_steps=total_steps),
    }
    return schedules[config.schedule]


def warn_of_long_warmup(config: TrainConfig, total_steps: int) -> None:
    """Say so where a run would end before it has come to its learning rate."""
    if config.warmup_steps >= total_steps:
        warn(
            f"train.warmup_steps is {config.warmup_steps}, but the run has {total_steps} steps and "
            "will not come to its learning rate; set train.warmup_steps to about "
            f"{max(total_steps // 10, 1)}."
        )
