"""The progress view: a row for each model and seed, a column for each kind of work."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from rich.console import Group, RenderableType
from rich.live import Live
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from arborvox.console import console, say, shows_progress, tell_duration
from arborvox.pipeline.stages import Stage
from arborvox.pipeline.work_plan import KINDS, Leg, Plan

WAITING, RUNNING, DONE, KEPT = "waiting", "running", "done", "kept"
STOPPED, FAILED = "stopped", "failed"
SIGNS = {
    WAITING: "[dim]·[/dim]",
    RUNNING: "[bold cyan]▶[/bold cyan]",
    DONE: "[green]✓[/green]",
    KEPT: "[green]=[/green]",
    STOPPED: "[yellow]‖[/yellow]",
    FAILED: "[red]✗[/red]",
}


class Board:
    """Knows how each stage stands and shows it."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._status: dict[Path, str] = {stage.folder: WAITING for stage in plan.stages}
        self._began: dict[Path, float] = {}
        self._took: dict[Path, float] = {}

    def begin(self, stage: Stage, reason: str) -> None:
        """Note that a stage is being worked on, and why."""
        self._status[stage.folder] = RUNNING
        self._began[stage.folder] = time.monotonic()
        told = f" {self._name(stage)}{f' ({reason})' if reason else ''}"
        say(Text.assemble((stage.kind, "bold"), told))

    def end(self, stage: Stage, status: str) -> None:
        """Note how a stage ended."""
        self._status[stage.folder] = status
        if stage.folder in self._began:
            self._took[stage.folder] = time.monotonic() - self._began[stage.folder]

    def __rich__(self) -> RenderableType:
        """Draw the table as it is now."""
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
        for title in ("model", "seed", *KINDS):
            table.add_column(title)
        for leg in self._plan.legs:
            cells = [self._cell(leg, kind) for kind in KINDS]
            table.add_row(escape(leg.variant.label), str(leg.seed), *cells)
        key = "[dim]· waiting  ▶ at work  ✓ done  = unchanged, kept  ‖ stopped  ✗ failed[/dim]"
        return Group(table, key)

    def _cell(self, leg: Leg, kind: str) -> str:
        stages = [stage for stage in leg.stages if stage.kind == kind]
        if not stages:
            return "[dim]–[/dim]"
        told = " ".join(SIGNS[self._status[stage.folder]] for stage in stages)
        took = sum(self._took.get(stage.folder, 0.0) for stage in stages)
        return f"{told} [dim]{tell_duration(took)}[/dim]" if took >= 1 else told

    def _name(self, stage: Stage) -> str:
        return stage.folder.relative_to(self._plan.out).as_posix()


@contextmanager
def show_board(board: Board) -> Iterator[None]:
    """Keep the table at the foot of a terminal while the block runs; print it once at the end."""
    if not shows_progress():
        try:
            yield
        finally:
            say(board)
        return
    with Live(board, console=console, refresh_per_second=2):
        yield


def tell_reason(changed: Sequence[str], begun: bool) -> str:
    """Say in a few words why a stage is done again."""
    if not changed:
        return "going on" if begun else ""
    names = [name.removeprefix("settings.").removeprefix("inputs.") for name in changed]
    shown = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
    return f"again: {shown} changed"
