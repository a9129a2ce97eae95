"""Comparing kernels in bfloat16 with torch in float64, and with themselves on two threads."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

Results = tuple[Tensor, ...]


def assert_close_to_exact(found: Sequence[Tensor], exact: Sequence[Tensor], error: float) -> None:
    """Check the distance of each result from the exact one, as a share of its length."""
    for place, (have, want) in enumerate(zip(found, exact, strict=True)):
        distance = (have.double() - want.double()).norm() / want.double().norm()
        assert distance < error, f"result {place}: {distance:.2e} of its length away"


def assert_same_bits_on_two_threads(compute: Callable[[], Results]) -> None:
    """Check that the number of threads changes no bit."""
    threads = torch.get_num_threads()
    results = []
    try:
        for count in (1, 2):
            torch.set_num_threads(count)
            torch.manual_seed(0)
            results.append(compute())
    finally:
        torch.set_num_threads(threads)
    assert all(torch.equal(a, b) for a, b in zip(*results, strict=True))
