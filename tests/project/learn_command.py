"""`arborvox learn` as a process of its own that dies, or is stopped, where it is told to.

END_AT=backward:8 is the eighth step of training, before the weights change; decode:2 when the new
model is about to hear the test set; publish:1 before the model gets its place, draft:1 after it.
END_BY=KILL is what a power cut does, END_BY=STOP what a closed laptop does.

Processes that this one starts read this file, too: what is large is imported where it is used.
"""

import os
import signal
from collections.abc import Callable
from typing import Any

from arborvox.cli import main


def trap(function: Callable[..., Any], number: int) -> Callable[..., Any]:
    """Return the function, which the process does not come through the N-th time."""
    calls: list[int] = []

    def end_or_call(*arguments: Any, **options: Any) -> Any:
        calls.append(1)
        if len(calls) == number:
            os.kill(os.getpid(), signal.Signals[f"SIG{os.environ['END_BY']}"])
        return function(*arguments, **options)

    return end_or_call


if __name__ == "__main__":
    import torch

    from arborvox.project import learning

    place, _, count = os.environ.get("END_AT", ":0").partition(":")
    if place == "backward":
        clip = torch.nn.utils.clip_grad_norm_
        torch.nn.utils.clip_grad_norm_ = trap(clip, int(count))
    elif place == "decode":
        learning.decode_manifest = trap(learning.decode_manifest, int(count))
    elif place == "publish":
        learning.atomic_folder = trap(learning.atomic_folder, int(count))
    elif place == "draft":
        learning.write_drafts = trap(learning.write_drafts, int(count))
    main()
