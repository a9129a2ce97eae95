"""What a person sees: messages and progress on standard error, results on standard output."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from arborvox.errors import harmless

PLAIN_LINE_EVERY_S = 30.0  # between two lines about long work, where no bar can move

console = Console(stderr=True, highlight=False)
_level = {"quiet": False, "verbose": False}


def set_verbosity(*, quiet: bool, verbose: bool) -> None:
    """Choose how much is said: errors only, the usual, or every detail."""
    _level.update(quiet=quiet, verbose=verbose)


def say(message: Any) -> None:
    """Print a message or a Rich renderable, unless the user asked for quiet."""
    if not _level["quiet"]:
        _print(console, message)


def show(result: Any) -> None:
    """Print a command's result on standard output, whatever the verbosity."""
    _print(Console(highlight=False), result)


def detail(message: str) -> None:
    """Print what only a curious user wants, with --verbose."""
    if _level["verbose"]:
        console.print(f"[dim]{escape(harmless(message))}[/dim]")


def warn(message: str) -> None:
    """Print a warning, even in quiet mode: it names something that was not done as asked."""
    console.print(f"[yellow]warning:[/yellow] {escape(harmless(message))}", soft_wrap=True)


def _print(target: Console, message: Any) -> None:
    """Print text as it is: folders and transcripts may hold square brackets, and stay in a line."""
    if isinstance(message, str):
        target.print(harmless(message), markup=False, soft_wrap=True)
    else:
        target.print(message)


def shows_progress() -> bool:
    """Say whether moving bars are wanted: a person looks on and did not ask for quiet."""
    return console.is_terminal and not _level["quiet"]


@contextmanager
def progress(description: str, total: float | None) -> Iterator[Callable[..., None]]:
    """Show a progress bar, or now and then a line in a log; yields a function that advances it."""
    if not shows_progress():
        yield LoggedProgress(description, total).advance
        return
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(description, total=total)
        yield lambda amount=1: bar.advance(task, amount)


class LoggedProgress:
    """Tells how far work has come, in lines that are far enough apart for a log."""

    def __init__(
        self, description: str, total: float | None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._description, self._total, self._clock = description, total, clock
        self._done = 0.0
        self._began = self._told = clock()

    def advance(self, amount: float = 1) -> None:
        """Count what was done; say so if it is time."""
        self._done += amount
        now = self._clock()
        if now - self._told < PLAIN_LINE_EVERY_S:
            return
        self._told = now
        text = f"{self._description}: {self._done:,.0f}"
        if self._total:
            left_s = (now - self._began) * (self._total / self._done - 1) if self._done else 0.0
            text += f" of {self._total:,.0f}, about {tell_duration(left_s)} left"
        say(text)


def tell_duration(seconds: float) -> str:
    """Write a duration as people read it: 0:07, 12:30, 1:05:00."""
    minutes, rest = divmod(round(max(seconds, 0.0)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
