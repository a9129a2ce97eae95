"""How a round of learning goes: a small file that a page can look at, whoever does the work."""

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Literal

from arborvox.errors import ArborvoxError
from arborvox.files import hold, make_folder, write_json_atomic
from arborvox.typed_json import read_form

Stage = Literal["idle", "prepare", "train", "test", "draft", "done", "failed", "stopped"]

STATUS = "learning.json"
OUTPUT = "learning.txt"  # what a round that a page has started says
LOCK = ".learning.lock"
ASKING_S = 2.0
WORK = "work"  # of a round that is not finished

_children: dict[Path, subprocess.Popen[bytes]] = {}  # by project: rounds that this process began


@dataclass(frozen=True)
class LearningStatus:
    """How far a round of learning is."""

    stage: Stage = "idle"
    done: int = 0  # of this stage
    total: int = 0
    message: str = ""  # one sentence for a person
    model: str = ""  # the name of the model that it makes, or has made
    process: int = 0  # who works on it
    running: bool = False  # False with a stage in between: killed; learning again goes on with it


def read_status(folder: Path) -> LearningStatus:
    """Return how the round goes that is at work, or how the last one ended."""
    path = folder / STATUS
    told = LearningStatus()
    if path.is_file():
        told = read_form(path, LearningStatus, "delete it")
    running = is_learning(folder) or _is_starting(folder)
    if running and told.stage == "train":
        told = replace(told, done=_last_step(folder / WORK / "run" / "metrics.jsonl"))
    return replace(told, running=running)


def write_status(folder: Path, status: LearningStatus) -> None:
    """Tell how far it is."""
    write_json_atomic(folder / STATUS, asdict(status))


def is_learning(folder: Path) -> bool:
    """Whether a process is at work on a round right now; a killed one is not."""
    if not (folder / LOCK).exists():
        return False
    try:
        with hold(folder / LOCK, ""):
            return False
    except ArborvoxError:
        return True


@contextlib.contextmanager
def hold_learning(folder: Path, patience_s: float = ASKING_S) -> Iterator[None]:
    """Be the only one that learns in a project, or changes what learning reads."""
    refusal = (
        f"A round of learning is at work in {folder}; wait for it, or stop it with "
        f"`arborvox learn {folder} --stop`."
    )
    # Whoever asks whether somebody learns holds it for a moment, too.
    with hold(folder / LOCK, refusal, patience_s=patience_s):
        yield


def start_learning(folder: Path) -> None:
    """Start a round in a process of its own, which goes on if this one ends."""
    if is_learning(folder) or _is_starting(folder):
        raise ArborvoxError(f"A round of learning is at work in {folder} already.")
    make_folder(folder)
    # So that whoever asks at once is not told of the round before.
    write_status(folder, LearningStatus("prepare", message="starting"))
    with (folder / OUTPUT).open("wb") as output:
        _children[folder] = subprocess.Popen(
            [sys.executable, "-m", "arborvox", "learn", str(folder)],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def _is_starting(folder: Path) -> bool:
    """Whether a round that this process began is alive; it takes seconds to hold its lock."""
    child = _children.get(folder)
    return child is not None and child.poll() is None  # which also buries it


def stop_learning(folder: Path) -> bool:
    """Ask the round at work to stop, so that it can go on later; say whether there was one."""
    status = read_status(folder)
    if not status.running or not status.process:
        return False
    os.kill(status.process, signal.SIGTERM)
    if hasattr(signal, "SIGCONT"):
        os.kill(status.process, signal.SIGCONT)  # one that was stopped would not hear
    return True


def _last_step(metrics: Path) -> int:
    """Return how many steps a training has gone, as its records say."""
    with contextlib.suppress(OSError, ValueError):
        with metrics.open("rb") as file:
            file.seek(max(0, metrics.stat().st_size - 65_536))
            lines = file.read().splitlines()
        for line in reversed(lines):
            with contextlib.suppress(ValueError, KeyError, TypeError):
                return int(json.loads(line)["step"])
    return 0
