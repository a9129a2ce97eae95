"""The softmax over attention scores and its gradient, in bfloat16: one pass over each row."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from arborvox.kernels.compiling import exact_kernel, kernel
from arborvox.kernels.gate_math import LEAST_EXPONENT, exp_float32
from arborvox.kernels.threads import run_split
from arborvox.model.kernels.bfloat16 import as_bits, narrow, widen

# Fewer rows of scores than this are not worth waking a thread for.
ROWS_PER_THREAD = 256
NO_BIAS = np.zeros((1, 1, 1), np.uint16)


def softmax_in_place(scores: Tensor, bias: Tensor | None, rows_per_bias: int) -> None:
    """Replace scores (B * H, Q, K) by softmax(scores + bias); so many rows make an utterance."""
    rows, bias_bits = as_bits(scores).reshape(-1, scores.shape[2]), _bias_bits(bias)
    run_split(
        lambda first, last: _softmax_rows(rows[first:last], bias_bits, first, rows_per_bias),
        len(rows),
        ROWS_PER_THREAD,
    )


def softmax_backward_in_place(weights: Tensor, gradients: Tensor) -> None:
    """Replace the gradients of softmax's values by those of its scores, both (B * H, Q, K)."""
    weight_rows, gradient_rows = (as_bits(x).reshape(-1, x.shape[2]) for x in (weights, gradients))
    run_split(
        lambda first, last: _softmax_backward(weight_rows[first:last], gradient_rows[first:last]),
        len(weight_rows),
        ROWS_PER_THREAD,
    )


def _bias_bits(bias: Tensor | None) -> NDArray[np.uint16]:
    """Return a bias as (B or 1, Q or 1, K)."""
    if bias is None:
        return NO_BIAS
    rows = bias if bias.dim() == 2 else bias.squeeze(1)
    return as_bits(rows.bfloat16().contiguous().view(-1, *rows.shape[-2:]))


@exact_kernel
def _sortable(value: Any) -> Any:
    """Return whole numbers in the order of float32: their largest is found 16 at a time."""
    bits = np.float32(value).view(np.int32)
    return np.int32(bits ^ np.int32(np.int32(bits >> np.int32(31)) & np.int32(0x7FFFFFFF)))


@exact_kernel
def _from_sortable(place: Any) -> Any:
    """Return the float32 that a whole number stands for."""
    return np.int32(place ^ np.int32(np.int32(place >> np.int32(31)) & np.int32(0x7FFFFFFF))).view(
        np.float32
    )


@kernel
def _softmax_rows(rows: Any, bias: Any, first: int, rows_per_bias: int) -> None:
    """Replace each row of scores (R, K) by its softmax; `first` is the place of the first row."""
    R, K = rows.shape
    biased = bias.shape[2] == K
    wide = np.empty(K, np.float32)
    for r in range(R):
        row = rows[r]
        top = np.int32(-0x80000000)
        if biased:
            extra = bias[
                ((first + r) // rows_per_bias) % bias.shape[0], (first + r) % bias.shape[1]
            ]
            for i in range(K):
                wide[i] = widen(row[i]) + widen(extra[i])
                top = max(top, _sortable(wide[i]))
        else:
            for i in range(K):
                wide[i] = widen(row[i])
                top = max(top, _sortable(wide[i]))
        peak = _from_sortable(top)
        total = np.float32(0.0)
        for i in range(K):
            below = wide[i] - peak
            # Exactly 0 where nothing may be seen; written so that NaN stays NaN.
            weight = np.float32(0.0) if below < LEAST_EXPONENT else exp_float32(below)
            wide[i] = weight
            total += weight
        scale = np.float32(1.0) / total
        for i in range(K):
            row[i] = narrow(wide[i] * scale)


@kernel
def _softmax_backward(weights: Any, gradients: Any) -> None:
    """Replace the gradients of softmax's values by those of its scores, both (R, K)."""
    R, K = weights.shape
    for r in range(R):
        weight, gradient = weights[r], gradients[r]
        mean = np.float32(0.0)
        for i in range(K):
            mean += widen(weight[i]) * widen(gradient[i])
        for i in range(K):
            gradient[i] = narrow(widen(weight[i]) * (widen(gradient[i]) - mean))
