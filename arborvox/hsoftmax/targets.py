"""Target ids: what is wrong with one is said in one way, whoever finds it."""

import torch
from torch import Tensor

from arborvox.errors import ArborvoxError


def check_target_ids(targets: Tensor, V: int) -> None:
    """Refuse ids outside 0..V-1, where looking at them costs no wait for another device."""
    if targets.is_cpu and not torch.compiler.is_compiling():
        wrong = (targets < 0) | (targets >= V)
        if wrong.any():
            row = int(wrong.nonzero()[0, 0])
            raise wrong_target(int(targets[row]), row, V)


def wrong_target(target: int, row: int, V: int) -> ArborvoxError:
    """Return the error that names a target which is no token."""
    return ArborvoxError(
        f"Target {target} in row {row} is no token: ids run from 0 to {V - 1}. "
        f"Leave padding out before calling nll."
    )
