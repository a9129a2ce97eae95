"""The models of a project: the one it began with, those it has learned, and which is in use."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from arborvox.errors import ArborvoxError
from arborvox.files import path_below, read_json, write_json_atomic
from arborvox.typed_json import check_form, read_form

BASE = "base"  # the model that the project began with; it lies where the user has it
LEARNED = "learned.json"
POINTER = "current.json"

Verdict = Literal["better", "same", "worse"]


@dataclass(frozen=True)
class LearnedModel:
    """A model that was learned from corrections, and what the fixed test set says of it."""

    name: str  # 001, 002, …
    parent: str  # the model that it began with and is compared to
    time: str
    offered: bool  # not worse than its parent
    verdict: Verdict
    metric: str  # CER, or PER for phones
    parent_rate: float  # 0.25 are 25 %; each rate with its 95 % interval
    parent_low: float
    parent_high: float
    rate: float
    low: float
    high: float
    difference: float  # rate - parent_rate, paired
    difference_low: float
    difference_high: float
    p_value: float  # of the paired test
    num_test: int
    test_s: float
    train_s: float  # of corrected speech
    elapsed_s: float
    heard: tuple[str, ...]  # recordings that it, or a model before it, learned from
    num_withdrawn: int = 0  # recordings that it heard and that were withdrawn since


@dataclass(frozen=True)
class Pointer:
    """Which model is in use, and which ones were before it."""

    model: str = BASE
    before: tuple[str, ...] = ()


class Models:
    """The folder `models/`: one folder a model, and the pointer to the one in use."""

    def __init__(self, folder: Path, base: Path | None) -> None:
        self.folder, self.base = folder, base

    @property
    def current(self) -> str:
        """The name of the model in use."""
        return self._pointer().model

    @property
    def previous(self) -> str | None:
        """The name of the model that `go_back` would take, if there is one."""
        return next(reversed(self._pointer().before), None)

    def path(self, name: str) -> Path | None:
        """Return the checkpoint folder of a model; None: the project has no model to begin with."""
        return self.base if name == BASE else path_below(self.folder, name)

    def learned(self) -> list[LearnedModel]:
        """List the learned models, the oldest first."""
        files = sorted(self.folder.glob(f"[0-9]*/{LEARNED}"))
        return [read_form(path, LearnedModel, "delete that model's folder") for path in files]

    def offer(self) -> LearnedModel | None:
        """Return the newest model, if it is offered and learned from the one in use."""
        newest = next(reversed(self.learned()), None)
        if newest is None or not newest.offered:
            return None
        pointer = self._pointer()
        return newest if newest.parent == pointer.model else None

    def accept(self, name: str) -> None:
        """Put a learned model into use; one stroke, so that there is always one in use."""
        known = {model.name: model for model in self.learned()}
        if name not in known:
            there = ", ".join(known) or "none yet"
            raise ArborvoxError(f"{self.folder} has no model {name!a}; there are: {there}.")
        pointer = self._pointer()
        if name == pointer.model:
            return
        if not known[name].offered:
            raise ArborvoxError(
                f"The test set says that model {name} is worse than the one before it, so it is "
                "not offered."
            )
        self._point(Pointer(name, (*pointer.before, pointer.model)))

    def go_back(self) -> str:
        """Put the model into use that was in use before; return its name."""
        pointer = self._pointer()
        if not pointer.before:
            raise ArborvoxError(f"{self.folder}: no other model was in use before this one.")
        self._point(Pointer(pointer.before[-1], pointer.before[:-1]))
        return pointer.before[-1]

    def next_name(self) -> str:
        """Name the model that would be learned next; no name is given twice."""
        taken = [int(path.name) for path in self.folder.glob("[0-9]*") if path.name.isdigit()]
        return f"{max(taken, default=0) + 1:03d}"

    def _pointer(self) -> Pointer:
        path = self.folder / POINTER
        if not path.exists():
            return Pointer()
        return check_form(read_json(path), Pointer, path, "delete it to use the first model")

    def _point(self, pointer: Pointer) -> None:
        write_json_atomic(
            self.folder / POINTER, {"model": pointer.model, "before": list(pointer.before)}
        )
