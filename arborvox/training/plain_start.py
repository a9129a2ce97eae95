"""Regularization that waits: first the alignment, then masks, speeds, noises and dropout.

From the first step they keep a network that has heard nothing yet at CTC's blanks for hundreds of
steps; once labels and frames have found each other they are what little data needs.
"""

from arborvox.config import TrainConfig
from arborvox.console import warn
from arborvox.model.asr import ASR
from arborvox.training.evaluation import DevScore
from arborvox.training.preparation import TrainingData
from arborvox.training.state import Progress

MOST_PLAIN = 0.25  # of a run's steps, where the alignment is never found


def begins_plain(config: TrainConfig, model: ASR, data: TrainingData) -> bool:
    """Say whether the first steps do without regularization."""
    if config.regularize_below is None:
        return False
    if model.ctc is None or not len(data.dev):
        missing = "CTC branch" if model.ctc is None else "development set"
        warn(f"train.regularize_below is of no use without a {missing}; it is not read.")
        return False
    return True


def why_regularize(
    config: TrainConfig, progress: Progress, dev: DevScore, total_steps: int
) -> str | None:
    """Say why a plain start is over, if it is."""
    assert config.regularize_below is not None
    if dev.score < config.regularize_below:
        return "the alignment is found"
    if progress.step >= MOST_PLAIN * total_steps:
        return "the alignment is waited for no longer"
    return None
