"""Arborvox under torchrun; may be told to die without warning, as train_command.py may.

team_command.py ARGUMENTS [-- ARGUMENTS …]: one command after the other, in the same processes.
KILL_AT=decode:2 kills a process when it has written its second batch of hypotheses,
KILL_AT=transcribe:2 when it has written its second transcript; other places are train_command's.
CUT_AT lets the second process wait, when it has written a batch, until its link is cut.
KILL_RANK and KILL_ONCE choose the process, and keep it from dying twice.
"""

import itertools
import os
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any

from train_command import arm, die, wait_for_a_cut

from arborvox.cli import main

PLACES = {
    "decode": ("arborvox.decode.corpus_decoding", "write_through"),
    "transcribe": ("arborvox.transcribe", "write_text_atomic"),
}


def do_after(place: str, count: int, action: Callable[[], None]) -> None:
    """Let a function of a module do something more when it has been called so often."""
    module, name = import_module(PLACES[place][0]), PLACES[place][1]
    function, calls = getattr(module, name), itertools.count(1)

    def call_and_act(*arguments: Any) -> Any:
        result = function(*arguments)
        if next(calls) == count:
            action()
        return result

    setattr(module, name, call_and_act)


if __name__ == "__main__":
    if "CUT_AT" in os.environ:
        do_after("decode", 1, wait_for_a_cut)
    place, _, number = os.environ.get("KILL_AT", "").partition(":")
    if place in PLACES:
        do_after(place, int(number), die)
    elif place:
        arm(place, int(number))
    words = sys.argv[1:]
    while words:
        end = words.index("--") if "--" in words else len(words)
        main_words, words = words[:end], words[end + 1 :]
        try:
            main(main_words)
        except SystemExit as left:
            if left.code:
                raise
