"""What the loops with a LayerNorm in them share."""

from typing import Any

import numpy as np

from arborvox.kernels.compiling import kernel


@kernel
def center(row: Any, epsilon: Any) -> Any:
    """Take its mean off a row (D,); return the mean and the inverse of the row's deviation."""
    D = row.size
    mean, square = np.float32(0.0), np.float32(0.0)
    for i in range(D):
        mean += row[i]
    mean /= np.float32(D)
    for i in range(D):
        row[i] -= mean
        square += row[i] * row[i]
    return mean, np.float32(1.0) / np.sqrt(square / np.float32(D) + epsilon)
