"""How a run ends: with a result that is told, or because going on would be of no use."""

from dataclasses import dataclass
from pathlib import Path

from torch import nn

from arborvox.console import say
from arborvox.errors import ArborvoxError
from arborvox.model.checkpoint import not_finite
from arborvox.training.evaluation import DevScore
from arborvox.training.state import Progress, RunFolder

# A run of bad luck ends sooner; longer, and something is wrong that waiting does not mend.
MAX_BAD_STEPS_IN_A_ROW = 20


@dataclass(frozen=True)
class TrainResult:
    """How a run ended."""

    run: Path
    progress: Progress
    interrupted: bool
    dev: DevScore | None  # of the final model; None without a development set


def goes_on_blindly(progress: Progress) -> bool:
    """Say whether step after step was thrown away."""
    return progress.bad_in_a_row >= MAX_BAD_STEPS_IN_A_ROW


def blind_steps_error(run: RunFolder, progress: Progress) -> ArborvoxError:
    """Return what is told when training stops for that; the weights are the last good ones."""
    return ArborvoxError(
        f"{MAX_BAD_STEPS_IN_A_ROW} steps in a row gave no finite gradient or had no readable "
        f"audio, so training stopped at step {progress.step}; the weights before that "
        f"are in {run.checkpoint(progress.step)}. Lower train.learning_rate, or see "
        f"{run.skipped} for missing audio."
    )


def refuse_broken_weights(model: nn.Module, run: RunFolder, step: int) -> None:
    """Stop before weights are saved of which nothing can be made any more."""
    broken = not_finite(model.state_dict())
    if broken is None:
        return
    newest = run.newest_state()
    kept = f"{newest.name} was the last good one" if newest else "nothing had been saved before"
    raise ArborvoxError(
        f"{run.root}: after step {step} {broken} holds NaN or infinite numbers, so nothing of it "
        f"is saved; {kept}. Lower train.learning_rate."
    )


def describe_result(result: TrainResult) -> None:
    """Tell a person how a run ended and where its files are."""
    progress = result.progress
    if result.interrupted:
        say(
            f"stopped after step {progress.step}, all saved; "
            f"run the same command again to go on ({result.run})"
        )
        return
    left_out = {
        "utterances left out for their audio": progress.unreadable,
        "labels longer than their frames": progress.infeasible,
        "steps without a finite gradient": progress.bad_steps,
    }
    told = ", ".join(f"{count} {what}" for what, count in left_out.items() if count)
    say(
        f"{progress.step} steps, {progress.audio_s / 3600:.2f} h of audio, "
        f"{100 * progress.padding:.1f} % padding" + (f"; {told}" if told else "")
    )
    if result.dev is not None:
        say(f"final model: {result.dev}")
    say(f"wrote {result.run / 'final'}")
    say(f"wrote {result.run / 'curves.png'}")
