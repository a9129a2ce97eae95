"""Split a loop over rows between as many threads as torch may use."""

import os
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Share = TypeVar("Share")

_pools: dict[int, ThreadPoolExecutor] = {}

# The threads of a parent process do not live in its forked children.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pools.clear)


def run_split(
    work: Callable[[int, int], Share], total: int, smallest_share: int
) -> tuple[Share, ...]:
    """Call work(first, last) on contiguous shares of 0..total, each of at least `smallest_share`.

    Returns what the shares returned, in order. The work must release the GIL and write nowhere
    that another share reads or writes.
    """
    if total < 2 * smallest_share:
        return (work(0, total),)
    torch = sys.modules.get("torch")  # not there in a runtime that does without
    num_threads = 1 if torch is None else torch.get_num_threads()
    num_shares = min(num_threads, total // smallest_share)
    if num_shares == 1:
        return (work(0, total),)
    pool = _pools.get(num_shares)
    if pool is None:
        pool = _pools.setdefault(
            num_shares, ThreadPoolExecutor(num_shares - 1, thread_name_prefix="arborvox")
        )
    bounds = [total * share // num_shares for share in range(num_shares + 1)]
    others = [pool.submit(work, *bounds[i : i + 2]) for i in range(1, num_shares)]
    first = work(bounds[0], bounds[1])
    return (first, *(other.result() for other in others))
