"""`arborvox train` as a process of its own; may be told to die without warning.

KILL_AT=backward:7 kills it in step 7 before the weights change, KILL_AT=state:10 between the saving
of step 10's model and its state; KILL_AT=error:7 is a fault of the program in step 7 instead, and
KILL_AT=group:7 a polite SIGTERM to all its processes, as a cluster sends it.
KILL_ONCE names a file that keeps it from dying twice; KILL_RANK chooses one of several processes.
"""

import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import torch

from arborvox import train
from arborvox.cli import main


def die() -> None:
    """End this process as a power cut would, once."""
    once = os.environ.get("KILL_ONCE")
    if os.environ.get("RANK", "0") != os.environ.get("KILL_RANK", "0"):
        return
    if once is not None and Path(once).exists():
        return
    if once is not None:
        Path(once).touch()
    os.kill(os.getpid(), signal.SIGKILL)


def arm(place: str, step: int) -> None:
    """Put the trap where it was asked for."""
    if place in ("backward", "error", "group"):
        clip = torch.nn.utils.clip_grad_norm_
        calls: list[int] = []

        def clip_or_die(*arguments: Any, **options: Any) -> Any:
            calls.append(1)
            if len(calls) == step and place == "error":
                raise RuntimeError("a fault")
            if len(calls) == step and place == "group":
                stop = ["sh", "-c", f"kill -TERM -{os.getpgrp()}"]
                subprocess.run(stop, check=True, start_new_session=True)
            elif len(calls) == step:
                die()
            return clip(*arguments, **options)

        torch.nn.utils.clip_grad_norm_ = clip_or_die
    else:
        save = train.save_state

        def save_or_die(folder: Path, progress: Any, optimizer: Any) -> None:
            if progress.step == step:
                die()
            save(folder, progress, optimizer)

        train.save_state = save_or_die


if __name__ == "__main__":
    if "KILL_AT" in os.environ:
        place, _, number = os.environ["KILL_AT"].partition(":")
        arm(place, int(number))
    main()
