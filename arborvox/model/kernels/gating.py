"""The element-wise steps of the Conformer's convolution module on a CPU, in bfloat16."""

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import Function, once_differentiable

from arborvox.kernels.compiling import kernel
from arborvox.kernels.gate_math import logistic_float32
from arborvox.kernels.threads import run_split
from arborvox.model.kernels.bfloat16 import as_bits, narrow, widen
from arborvox.model.kernels.blocks import sum_blocks
from arborvox.model.kernels.norms import center

# Fewer rows than this are not worth waking a thread for.
ROWS_PER_THREAD = 128


class GatedFrames(Function):
    """Compute a * sigma(b) of (a, b) = x + bias: (B, T, 2D), (2D,) -> (B, T, D); 0 at padding."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, bias: Tensor, padded: Tensor | None) -> Tensor:
        x = x.contiguous()
        *sizes, width = x.shape
        out = x.new_empty(*sizes, width // 2)
        rows, out_rows = _halves(x), as_bits(out).reshape(-1, width // 2)
        if padded is None:
            padded = torch.zeros(len(rows), dtype=torch.bool)
        absent = padded.contiguous().view(-1).numpy()
        offsets = bias.detach().float().numpy().reshape(2, -1)
        run_split(
            lambda first, last: _gate(
                rows[first:last], offsets, absent[first:last], out_rows[first:last]
            ),
            len(rows),
            ROWS_PER_THREAD,
        )
        ctx.save_for_backward(x, bias, padded)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None]:
        x, bias, padded = ctx.saved_tensors
        out = torch.empty_like(x)
        rows, out_rows = _halves(x), _halves(out)
        grads = as_bits(grad.contiguous()).reshape(-1, grad.shape[-1])
        absent, offsets = padded.contiguous().view(-1).numpy(), bias.float().numpy().reshape(2, -1)
        for_bias = sum_blocks(
            lambda first, last, sums: _gate_backward(
                rows[first:last],
                offsets,
                absent[first:last],
                grads[first:last],
                out_rows[first:last],
                sums,
            ),
            len(rows),
            *offsets.shape,
        )
        return out, torch.from_numpy(for_bias).view(-1).to(bias.dtype), None


class NormalizedSilu(Function):
    """Compute silu(LayerNorm(x)): (..., D), (D,), (D,) -> (..., D)."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, epsilon: float) -> Tensor:
        x = x.contiguous()
        out = torch.empty_like(x)
        rows, out_rows = (as_bits(y).reshape(-1, x.shape[-1]) for y in (x, out))
        statistics = torch.empty(len(rows), 2)
        wide_statistics = statistics.numpy()
        gains = weight.detach().float().numpy(), bias.detach().float().numpy()
        run_split(
            lambda first, last: _normalize(
                rows[first:last],
                *gains,
                np.float32(epsilon),
                wide_statistics[first:last],
                out_rows[first:last],
            ),
            len(rows),
            ROWS_PER_THREAD,
        )
        ctx.save_for_backward(x, statistics, weight, bias)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
        x, statistics, weight, bias = ctx.saved_tensors
        out = torch.empty_like(x)
        rows, grads, out_rows = (
            as_bits(y).reshape(-1, x.shape[-1]) for y in (x, grad.contiguous(), out)
        )
        wide_statistics = statistics.numpy()
        gains = weight.float().numpy(), bias.float().numpy()
        sums = sum_blocks(
            lambda first, last, sums: _normalized_backward(
                rows[first:last],
                *gains,
                wide_statistics[first:last],
                grads[first:last],
                out_rows[first:last],
                sums,
            ),
            len(rows),
            2,
            len(weight),
        )
        for_weight, for_bias = torch.from_numpy(sums)
        return out, for_weight.to(weight.dtype), for_bias.to(bias.dtype), None


def _halves(x: Tensor) -> Any:
    """Return the bits of (B, T, 2D) as (B * T, 2, D)."""
    return as_bits(x).reshape(-1, 2, x.shape[-1] // 2)


@kernel
def _gate(rows: Any, bias: Any, absent: Any, out: Any) -> None:
    """Fill out (R, D) with the gated rows (R, 2, D)."""
    R, _, D = rows.shape
    for r in range(R):
        if absent[r]:
            out[r] = 0
            continue
        for i in range(D):
            gate = logistic_float32(widen(rows[r, 1, i]) + bias[1, i])
            out[r, i] = narrow((widen(rows[r, 0, i]) + bias[0, i]) * gate)


@kernel
def _gate_backward(rows: Any, bias: Any, absent: Any, grads: Any, out: Any, sums: Any) -> None:
    """Fill out (R, 2, D) with the gradients of the rows, and add them up."""
    R, _, D = rows.shape
    for_value, for_gate = np.empty(D, np.float32), np.empty(D, np.float32)
    for r in range(R):
        if absent[r]:
            out[r] = 0
            continue
        # In short loops over few arrays: LLVM must prove that no two of them overlap.
        for i in range(D):
            for_value[i] = logistic_float32(widen(rows[r, 1, i]) + bias[1, i])
        for i in range(D):
            gate = for_value[i]
            value = widen(rows[r, 0, i]) + bias[0, i]
            for_gate[i] = gate * (np.float32(1.0) - gate) * value
        for i in range(D):
            wide = widen(grads[r, i])
            for_value[i] *= wide
            for_gate[i] *= wide
        for i in range(D):
            out[r, 0, i] = narrow(for_value[i])
            sums[0, i] += for_value[i]
        for i in range(D):
            out[r, 1, i] = narrow(for_gate[i])
            sums[1, i] += for_gate[i]


@kernel
def _normalize(rows: Any, weight: Any, bias: Any, epsilon: Any, statistics: Any, out: Any) -> None:
    """Fill out, and the mean and the inverse deviation of each row."""
    R, D = rows.shape
    wide = np.empty(D, np.float32)
    for r in range(R):
        for i in range(D):
            wide[i] = widen(rows[r, i])
        mean, sharpness = center(wide, epsilon)
        for i in range(D):
            y = wide[i] * sharpness * weight[i] + bias[i]
            out[r, i] = narrow(y * logistic_float32(y))
        statistics[r, 0] = mean
        statistics[r, 1] = sharpness


@kernel
def _normalized_backward(
    rows: Any, weight: Any, bias: Any, statistics: Any, grads: Any, out: Any, sums: Any
) -> None:
    """Fill out with the gradients of the rows, and add up those of weight and bias."""
    R, D = rows.shape
    standard, for_standard = np.empty(D, np.float32), np.empty(D, np.float32)
    for r in range(R):
        mean, sharpness = statistics[r, 0], statistics[r, 1]
        level, tilt = np.float32(0.0), np.float32(0.0)
        for i in range(D):
            standard[i] = (widen(rows[r, i]) - mean) * sharpness
            y = standard[i] * weight[i] + bias[i]
            sigmoid = logistic_float32(y)
            wide = (
                widen(grads[r, i]) * sigmoid * (np.float32(1.0) + y * (np.float32(1.0) - sigmoid))
            )
            sums[0, i] += wide * standard[i]
            sums[1, i] += wide
            for_standard[i] = wide * weight[i]
            level += for_standard[i]
            tilt += for_standard[i] * standard[i]
        level /= np.float32(D)
        tilt /= np.float32(D)
        for i in range(D):
            out[r, i] = narrow(sharpness * (for_standard[i] - level - standard[i] * tilt))
