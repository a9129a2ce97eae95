"""What stands around products of 8-bit numbers: rows are rounded, sums become numbers again.

A row of what is multiplied has one scale, a row of weights too, and a sum of products of whole
numbers is exact: so a row's result does not depend on the rows beside it, on any processor.
"""

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from arborvox.kernels.compiling import exact_kernel, kernel
from arborvox.kernels.devices import KERNEL_ON
from arborvox.kernels.gate_math import ROUNDING_MAGIC, exp_float32
from arborvox.kernels.threads import run_split
from arborvox.model.kernels.bfloat16 import as_numbers, read, write

# Fewer rows than this are not worth waking a thread for.
ROWS_PER_THREAD = 64
MOST = np.float32(127.0)
LEAST_SCALE = np.float32(1e-30)  # of a row of zeros
WITHOUT_SIGN = np.int32(0x7FFFFFFF)
ZERO, HALF, ONE = np.float32(0.0), np.float32(0.5), np.float32(1.0)

# erf(z) = 1 - t (A1 + t (A2 + ...)) exp(-z^2), t = 1 / (1 + P z), to 1.5e-7
# (Abramowitz and Stegun, 7.1.26).
ERF_P = np.float32(0.3275911)
ERF_1, ERF_2, ERF_3 = np.float32(0.254829592), np.float32(-0.284496736), np.float32(1.421413741)
ERF_4, ERF_5 = np.float32(-1.453152027), np.float32(1.061405429)
ROOT_HALF = np.float32(0.5**0.5)
MOST_ERF = np.float32(9.0)  # 1 - erf is 0 beyond it, and exp needs no smaller numbers


class Int8Rows(NamedTuple):
    """Rows of whole numbers, each with what they are multiples of."""

    numbers: Tensor  # (R, D), int8
    scales: Tensor  # (R,)


class Int8Weight(NamedTuple):
    """A linear layer's weight, rounded by rows, and its bias."""

    rows: Int8Rows  # (E, D)
    bias: Tensor  # (E,)

    @classmethod
    def of(cls, weight: Tensor, bias: Tensor) -> "Int8Weight":
        """Round a weight (E, D) to whole numbers of each row's scale."""
        scales = weight.float().abs().amax(dim=1).clamp(min=float(LEAST_SCALE)) / float(MOST)
        numbers = (weight.float() / scales[:, None]).round().to(torch.int8)
        return cls(Int8Rows(numbers, scales), bias.float())

    def multiply(self, rows: Int8Rows) -> Tensor:
        """Return the exact sums of products, (R, D) -> (R, E), int32."""
        return torch._int_mm(rows.numbers, self.rows.numbers.t())


def is_fast_here() -> bool:
    """Say whether this processor multiplies 8-bit numbers, four at a time, without overflow."""
    here = torch.cpu.get_capabilities()
    return KERNEL_ON.get("cpu") == "numba" and any(
        here.get(name, False) for name in ("avx512_vnni", "avx_vnni", "amx_int8")
    )


def normalize(x: Tensor, gain: Tensor, shift: Tensor, epsilon: float) -> Int8Rows:
    """Round layer_norm(x) of bfloat16 or float32 rows, (R, D), (D,) twice."""
    rows = _empty_rows(*x.shape)
    values, numbers, scales = as_numbers(x.contiguous()), rows.numbers.numpy(), rows.scales.numpy()
    gains, shifts = gain.numpy(), shift.numpy()
    run_split(
        lambda first, last: _normalize(
            values[first:last],
            gains,
            shifts,
            np.float32(epsilon),
            numbers[first:last],
            scales[first:last],
        ),
        len(values),
        ROWS_PER_THREAD,
    )
    return rows


def activate(sums: Tensor, of: Int8Rows, weight: Int8Weight) -> Int8Rows:
    """Round gelu(product + bias) of the sums (R, E) that a weight gave of some rows."""
    rows = _empty_rows(*sums.shape)
    wide, numbers, scales = sums.numpy(), rows.numbers.numpy(), rows.scales.numpy()
    row_scales, column_scales = of.scales.numpy(), weight.rows.scales.numpy()
    bias = weight.bias.numpy()
    run_split(
        lambda first, last: _activate(
            wide[first:last],
            row_scales[first:last],
            column_scales,
            bias,
            numbers[first:last],
            scales[first:last],
        ),
        len(wide),
        ROWS_PER_THREAD,
    )
    return rows


def add(x: Tensor, sums: Tensor, of: Int8Rows, weight: Int8Weight) -> Tensor:
    """Return x + product + bias in x's type, (R, E), of what a weight gave of some rows."""
    x = x.contiguous()
    out = torch.empty_like(x)
    values, wide, out_values = as_numbers(x), sums.numpy(), as_numbers(out)
    row_scales, column_scales = of.scales.numpy(), weight.rows.scales.numpy()
    bias = weight.bias.numpy()
    run_split(
        lambda first, last: _add(
            values[first:last],
            wide[first:last],
            row_scales[first:last],
            column_scales,
            bias,
            out_values[first:last],
        ),
        len(values),
        ROWS_PER_THREAD,
    )
    return out


def _empty_rows(R: int, D: int) -> Int8Rows:
    return Int8Rows(torch.empty(R, D, dtype=torch.int8), torch.empty(R))


@exact_kernel
def _gelu(x: Any) -> Any:
    """Return x * (1 + erf(x / sqrt(2))) / 2."""
    z = abs(x) * ROOT_HALF
    z = MOST_ERF if z > MOST_ERF else z  # written so that NaN stays NaN
    t = ONE / (ONE + ERF_P * z)
    p = ERF_5
    p = p * t + ERF_4
    p = p * t + ERF_3
    p = p * t + ERF_2
    p = p * t + ERF_1
    rest = p * t * exp_float32(-z * z)  # 1 - erf(z)
    return HALF * x * (ONE + (ONE - rest if x > ZERO else rest - ONE))


@exact_kernel
def _round(value: Any) -> Any:
    """Return the nearest whole number from -127 to 127: it is in the low bits of a large sum."""
    return np.int8(np.float32(value + ROUNDING_MAGIC).view(np.int32) & np.int32(0xFF))


@exact_kernel
def _size(value: Any) -> Any:
    """Return a whole number that is the larger, the larger a float32 is without its sign."""
    return np.int32(np.float32(value).view(np.int32) & WITHOUT_SIGN)


@kernel
def _fill(values: Any, largest: Any, numbers: Any) -> Any:
    """Round a row, whose largest has this `_size`; return its scale."""
    scale = max(np.int32(largest).view(np.float32) / MOST, LEAST_SCALE)
    inverse = ONE / scale
    for i in range(len(values)):
        numbers[i] = _round(values[i] * inverse)
    return scale


@kernel
def _normalize(rows: Any, gain: Any, shift: Any, epsilon: Any, numbers: Any, scales: Any) -> None:
    R, D = rows.shape
    wide = np.empty(D, np.float32)
    for r in range(R):
        row = rows[r]
        total = ZERO
        for i in range(D):
            wide[i] = read(row[i])
            total += wide[i]
        mean = total / np.float32(D)
        squares = ZERO
        for i in range(D):
            wide[i] -= mean
            squares += wide[i] * wide[i]
        factor = ONE / np.sqrt(squares / np.float32(D) + epsilon)
        largest = np.int32(0)
        for i in range(D):
            wide[i] = wide[i] * factor * gain[i] + shift[i]
            largest = max(largest, _size(wide[i]))
        scales[r] = _fill(wide, largest, numbers[r])


@kernel
def _activate(
    sums: Any, row_scales: Any, column_scales: Any, bias: Any, numbers: Any, scales: Any
) -> None:
    R, E = sums.shape
    wide = np.empty(E, np.float32)
    for r in range(R):
        row, scale = sums[r], row_scales[r]
        largest = np.int32(0)
        for i in range(E):
            wide[i] = _gelu(np.float32(row[i]) * (scale * column_scales[i]) + bias[i])
            largest = max(largest, _size(wide[i]))
        scales[r] = _fill(wide, largest, numbers[r])


@kernel
def _add(rows: Any, sums: Any, row_scales: Any, column_scales: Any, bias: Any, out: Any) -> None:
    R, E = sums.shape
    for r in range(R):
        row, sum_row, out_row, scale = rows[r], sums[r], out[r], row_scales[r]
        for i in range(E):
            more = np.float32(sum_row[i]) * (scale * column_scales[i]) + bias[i]
            out_row[i] = write(read(row[i]) + more, out_row)
