"""What a run leaves for people to look at: metrics.jsonl, TensorBoard, a live line."""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.progress import Progress as Bar

from arborvox.console import (
    PLAIN_LINE_EVERY_S,
    console,
    say,
    shows_progress,
    tell_duration,
)
from arborvox.files import write_text_atomic
from arborvox.training.state import Progress, RunFolder

DRAWN = ("loss", "ctc", "attention", "learning_rate", "error_rate")


@dataclass(frozen=True)
class StepMeasures:
    """A line of metrics.jsonl; losses are means over tokens, None where the step was skipped."""

    epoch: int
    loss: float | None
    ctc: float | None
    attention: float | None
    gradient_norm: float | None
    learning_rate: float
    audio_s: float  # heard since the start, as are the counts below
    padding: float
    unreadable: int
    infeasible: int
    bad_steps: int


class Records:
    """Appends measurements; after a resume it continues where the state says, not where it was."""

    def __init__(self, run: RunFolder, progress: Progress) -> None:
        _drop_what_comes_again(run.metrics, progress)
        self._file = run.metrics.open("a", encoding="utf-8")
        self._board = _open_tensorboard(run.tensorboard, progress.step)

    def write(self, kind: str, step: int, values: dict[str, Any]) -> None:
        """Add a line such as {"kind": "train", "step": 7, "loss": 3.2, ...}."""
        line = json.dumps({"kind": kind, "step": step, **values}, ensure_ascii=False)
        self._file.write(line + "\n")
        self._file.flush()
        if self._board is not None:
            for name, value in values.items():
                if isinstance(value, dict):
                    for inner, number in value.items():
                        self._board.add_scalar(f"{kind}/{name}/{inner}", number, step)
                elif isinstance(value, int | float):
                    self._board.add_scalar(f"{kind}/{name}", value, step)

    def close(self) -> None:
        """Finish the files."""
        self._file.close()
        if self._board is not None:
            self._board.close()


def read_records(path: Path) -> list[dict[str, Any]]:
    """Read metrics.jsonl up to the first line that is no record, as a crash may cut one short."""
    records = []
    for line in path.read_bytes().splitlines() if path.exists() else []:
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            break
        if not _is_record(record):
            break
        records.append(record)
    return records


def _is_record(value: Any) -> bool:
    """Say whether a line has what is computed with: a kind, a step, and numbers or nothing."""
    if not isinstance(value, dict) or not isinstance(value.get("by_language", {}), dict):
        return False
    numbers = [*map(value.get, DRAWN), *value.get("by_language", {}).values()]
    return (
        isinstance(value.get("kind"), str)
        and type(value.get("step")) is int
        and all(number is None or _is_number(number) for number in (value["step"], *numbers))
    )


def _is_number(value: Any) -> bool:
    return isinstance(value, float) or (type(value) is int and abs(value) < 1 << 53)


class LiveLine:
    """Loss, speed and time left: a bar on a terminal, now and then a line elsewhere."""

    def __init__(self, bar: Bar, total_steps: int, step: int) -> None:
        self._bar = bar
        self._total = total_steps
        self._task = bar.add_task("training", total=total_steps, completed=step, told="")
        self._first_step, self._started, self._last_line = step, time.monotonic(), time.monotonic()

    def update(self, step: int, loss: float | None, audio_per_s: float) -> None:
        """Show where the run is."""
        shown = "skipped" if loss is None else f"{loss:.3f}"
        told = f"loss {shown}, {audio_per_s:.0f} s of audio/s"
        self._bar.update(self._task, completed=step, told=told)
        now = time.monotonic()
        if self._bar.disable and now - self._last_line > PLAIN_LINE_EVERY_S:
            self._last_line = now
            per_step = (now - self._started) / (step - self._first_step)
            left = tell_duration(per_step * max(self._total - step, 0))
            say(f"step {step}/{self._total}: {told}, {left} left")


@contextmanager
def live_line(total_steps: int, step: int, *, hidden: bool) -> Iterator[LiveLine]:
    """Show progress while the block runs."""
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[told]}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    hidden = hidden or not shows_progress()
    with Bar(*columns, console=console, disable=hidden, transient=True) as bar:
        yield LiveLine(bar, total_steps, step)


def _drop_what_comes_again(path: Path, progress: Progress) -> None:
    """Drop records of steps that will be taken, of evaluations that will be made, and of the end.

    A kill may have come after a line was written and before the state that knows of it.
    """
    evaluated = {evaluation.step for evaluation in progress.evaluations}
    kept = [
        record
        for record in read_records(path)
        if record["step"] <= progress.step
        and record["kind"] != "final"
        and (record["kind"] != "dev" or record["step"] in evaluated)
    ]
    lines = [json.dumps(record, ensure_ascii=False) + "\n" for record in kept]
    write_text_atomic(path, "".join(lines))


def _open_tensorboard(folder: Path, step: int) -> Any:
    """Open a writer where TensorBoard is installed (extra `tensorboard`), else return None."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        say("TensorBoard is not installed; metrics.jsonl has everything.")
        return None
    return SummaryWriter(folder, purge_step=step + 1)
