"""`arborvox run` as a process of its own, which may be told to die: see train_command.py.

run_command.py RECIPE OUT; KILL_AT=decode:1 kills it when the first batch of hypotheses is written.
"""

import os
import sys
from pathlib import Path
from typing import TextIO

from train_command import arm, die


def arm_decoding() -> None:
    """Die when some hypotheses are on disk and the stage is not sealed."""
    from arborvox.decode import corpus_decoding

    write = corpus_decoding.write_through

    def write_and_die(results: TextIO, lines: list[str]) -> None:
        write(results, lines)
        die()

    corpus_decoding.write_through = write_and_die


if __name__ == "__main__":
    from arborvox.pipeline.experiment import run_experiment

    place, _, number = os.environ.get("KILL_AT", "").partition(":")
    if place == "decode":
        arm_decoding()
    elif place:
        arm(place, int(number))
    run_experiment(Path(sys.argv[1]), Path(sys.argv[2]), [0])
