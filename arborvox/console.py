"""What a person sees: messages and progress on standard error, results on standard output."""

from collections.abc import Iterator
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
def progress(description: str, total: float | None) -> Iterator[Any]:
    """Show a progress bar; yields a function that advances it."""
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    hidden = not shows_progress()
    with Progress(*columns, console=console, disable=hidden, transient=True) as bar:
        task = bar.add_task(description, total=total)
        yield lambda amount=1: bar.advance(task, amount)
