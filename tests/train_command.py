"""`arborvox train` as a process of its own; may be told to die without warning.

KILL_AT=backward:7 kills it in step 7 before the weights change, KILL_AT=state:10 between the saving
of step 10's model and its state; KILL_AT=error:7 is a fault of the program in step 7 instead, and
KILL_AT=group:7 a polite SIGTERM to all its processes, as a cluster sends it.
KILL_AT=second:3 starts the same command with another seed while step 3 is computed, and tells what
came of it; KILL_AT=final:1 kills it when the final model and its line in the metrics are written.
CUT_AT=FILE lets the second of two processes make the file in step 3, and wait for FILE.cut.
KILL_ONCE names a file that keeps it from dying twice; KILL_RANK chooses one of several processes,
or is `any`.

Processes that this one starts read this file, too: what is large is imported where it is used.
"""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from arborvox.cli import main


def die() -> None:
    """End this process as a power cut would, once."""
    once = os.environ.get("KILL_ONCE")
    if os.environ.get("KILL_RANK", "0") not in (os.environ.get("RANK", "0"), "any"):
        return
    if once is not None and Path(once).exists():
        return
    if once is not None:
        Path(once).touch()
    os.kill(os.getpid(), signal.SIGKILL)


def start_second() -> None:
    """Run the same command with another seed, wait for its end, and tell of it."""
    command = [sys.executable, *sys.argv, "--set", "train.seed=99"]
    free = {name: value for name, value in os.environ.items() if name != "KILL_AT"}
    done = subprocess.run(command, env=free, capture_output=True, text=True, check=False)
    print(f"second: {done.returncode} {done.stderr}", file=sys.stderr)


def wait_for_a_cut() -> None:
    """Say that this process is at work, once, and wait until its link is cut."""
    reached = Path(os.environ["CUT_AT"])
    if os.environ.get("RANK") != "1" or reached.exists():
        return
    reached.touch()
    while not reached.with_suffix(".cut").exists():
        time.sleep(0.05)


def arm(place: str, step: int) -> None:
    """Put the trap where it was asked for."""
    import torch

    from arborvox import train
    from arborvox.training.records import Records

    if place == "final":
        close = Records.close

        def close_and_die(self: Records) -> None:
            close(self)
            die()

        Records.close = close_and_die  # type: ignore[method-assign]
    elif place in ("backward", "cut", "error", "group", "second"):
        clip = torch.nn.utils.clip_grad_norm_
        calls: list[int] = []

        def clip_or_die(*arguments: Any, **options: Any) -> Any:
            calls.append(1)
            if len(calls) == step and place == "error":
                raise RuntimeError("a fault")
            if len(calls) == step and place == "cut":
                wait_for_a_cut()
                return clip(*arguments, **options)
            if len(calls) == step and place == "second":
                start_second()
                return clip(*arguments, **options)
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
    if "CUT_AT" in os.environ:
        arm("cut", 3)
    if "KILL_AT" in os.environ:
        place, _, number = os.environ["KILL_AT"].partition(":")
        arm(place, int(number))
    main()
