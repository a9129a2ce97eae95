"""Sums over the rows of a matrix that do not depend on the number of threads."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from arborvox.kernels.threads import run_split

# Rows that are added up together. Sums of blocks are added in order, whoever made them.
ROWS_PER_BLOCK = 512

Work = Callable[[int, int, NDArray[np.float32]], None]


def sum_blocks(work: Work, num_rows: int, *shape: int) -> NDArray[np.float32]:
    """Call work(first, last, sums) on blocks of rows, and return the sum of all `sums`."""
    sums = np.zeros((max(1, -(-num_rows // ROWS_PER_BLOCK)), *shape), np.float32)

    def work_on_blocks(first: int, last: int) -> None:
        for block in range(first, last):
            begin = block * ROWS_PER_BLOCK
            work(begin, min(begin + ROWS_PER_BLOCK, num_rows), sums[block])

    run_split(work_on_blocks, len(sums), 1)
    total: NDArray[np.float32] = sums.sum(axis=0)
    return total
