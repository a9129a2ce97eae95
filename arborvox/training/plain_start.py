"""A plain start: first the alignment, then everything that makes it harder to find.

Masks, speeds, noises and dropout keep a network that has heard nothing yet at CTC's blanks for
hundreds of steps. So do pauses, which make its first guess, letters spread evenly over a recording,
wrong everywhere. A decoder without an alignment is a language model, and what it asks of the
encoder has little to do with speech. Once labels and frames have found each other, all of them are
what little data needs.

Now and then a beginning goes astray: CTC leaves its blanks, writes the wrong labels, and does
not find out of that any more. Other first weights do, so they are drawn anew while there is time.
"""

import math

from arborvox.config import TrainConfig
from arborvox.console import warn
from arborvox.model.asr import ASR
from arborvox.model.dropout import rest_dropout
from arborvox.training.evaluation import DevScore
from arborvox.training.preparation import TrainingData
from arborvox.training.state import Progress

KEPT_WAITING = "pauses, masks, speeds, noises, dropout and the decoder's say"

# Above this error rate a model writes little but blanks, which it may still leave.
BLANK_ABOVE = 0.9

# Where the alignment is not found, it is waited for this share of a run's steps; in a short run for
# as many steps as a beginning takes; and for half of any run, if need be, as long as nothing but
# blanks is written, at which masks and dropout would keep it.
MOST_PLAIN = 0.25
STEPS_TO_BEGIN = 500
MOST_PLAIN_WHILE_BLANK = 0.5

# A beginning is astray after so many steps, with a best error rate above this, of more than blanks,
# and none better in so many evaluations.
STEPS_TO_SHOW = 600
ASTRAY_ABOVE = 0.65
EVALUATIONS_WITHOUT_GAIN = 3
LATEST_BEGINNING = 0.1  # of a run's steps: later ones would have too few left


def begins_plain(config: TrainConfig, model: ASR, data: TrainingData) -> bool:
    """Say whether the first steps do without regularization."""
    if config.regularize_below is None:
        return False
    if model.ctc is None or not len(data.dev):
        missing = "CTC branch" if model.ctc is None else "development set"
        warn(f"train.regularize_below is of no use without a {missing}; it is not read.")
        return False
    return True


def set_plain(model: ASR, *, plain: bool) -> None:
    """Let dropout rest and CTC alone teach the encoder, or end that."""
    rest_dropout(model, resting=plain)
    model.decoder_apart = plain


def why_regularize(
    config: TrainConfig, progress: Progress, dev: DevScore, total_steps: int
) -> str | None:
    """Say why a plain start is over, if it is."""
    assert config.regularize_below is not None
    if dev.score < config.regularize_below:
        return "the alignment is found"
    longest = MOST_PLAIN_WHILE_BLANK * total_steps
    wait = max(MOST_PLAIN * total_steps, min(STEPS_TO_BEGIN, longest))
    if progress.step >= (longest if dev.score > BLANK_ABOVE else wait):
        return "the alignment is waited for no longer"
    return None


def is_astray(progress: Progress, total_steps: int) -> bool:
    """Say whether a plain start writes the wrong thing, gets no better, and can begin again."""
    scores = [found.score for found in progress.evaluations if found.step > progress.began]
    before, lately = scores[:-EVALUATIONS_WITHOUT_GAIN], scores[-EVALUATIONS_WITHOUT_GAIN:]
    return (
        progress.plain
        and progress.step - progress.began >= STEPS_TO_SHOW
        and progress.step <= LATEST_BEGINNING * total_steps
        and ASTRAY_ABOVE < min(before, default=math.inf) < BLANK_ABOVE
        and min(before, default=math.inf) <= min(lately)
    )
