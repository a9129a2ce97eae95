"""Dropout, residual sum and LayerNorm in one pass over memory, on a CPU in bfloat16."""

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import Function, once_differentiable

from arborvox.kernels.compiling import kernel
from arborvox.kernels.threads import run_split
from arborvox.model.kernels.bfloat16 import as_bits, narrow, widen
from arborvox.model.kernels.blocks import sum_blocks
from arborvox.model.kernels.chance import Chance, keep_factor, row_bits
from arborvox.model.kernels.norms import center

# Fewer rows than this are not worth waking a thread for.
ROWS_PER_THREAD = 128


class AddAndNormalize(Function):
    """Compute s = residual + scale * dropout(x) and LayerNorm(s): (..., D) twice -> (..., D) twice.

    Only the sum, each row's mean and deviation and a seed are kept for the gradient.
    """

    @staticmethod
    def forward(
        ctx: Any,
        residual: Tensor,
        x: Tensor,
        weight: Tensor,
        bias: Tensor,
        epsilon: float,
        rate: float,
        scale: float,
    ) -> tuple[Tensor, Tensor]:
        ctx.set_materialize_grads(False)
        ctx.chance = Chance.draw(rate, scale)
        residual, x = residual.contiguous(), x.contiguous()
        total, normed = torch.empty_like(residual), torch.empty_like(residual)
        rows, added, sums, outs = (
            as_bits(y).reshape(-1, x.shape[-1]) for y in (residual, x, total, normed)
        )
        seed, dropped, factor = ctx.chance.numbers
        statistics = torch.empty(len(rows), 2)
        wide_statistics = statistics.numpy()
        gains = weight.detach().float().numpy(), bias.detach().float().numpy()
        run_split(
            lambda first, last: _add_and_normalize(
                rows[first:last],
                added[first:last],
                sums[first:last],
                outs[first:last],
                wide_statistics[first:last],
                *gains,
                np.float32(epsilon),
                first,
                seed,
                dropped,
                factor,
            ),
            len(rows),
            ROWS_PER_THREAD,
        )
        ctx.save_for_backward(total, statistics, weight)
        ctx.bias_type = bias.dtype
        return total, normed

    @staticmethod
    @once_differentiable
    def backward(
        ctx: Any, for_total: Tensor | None, for_normed: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, Tensor, None, None, None]:
        total, statistics, weight = ctx.saved_tensors
        for_normed = for_normed.contiguous()
        # Where nobody else reads the sum, any tensor can stand for the gradient that is not there.
        passed_on = for_normed if for_total is None else for_total.contiguous()
        for_residual, for_x = torch.empty_like(total), torch.empty_like(total)
        rows, total_grads, normed_grads, outs, x_outs = (
            as_bits(y).reshape(-1, total.shape[-1])
            for y in (total, passed_on, for_normed, for_residual, for_x)
        )
        seed, dropped, factor = ctx.chance.numbers
        wide_statistics, gain = statistics.numpy(), weight.detach().float().numpy()
        sums = sum_blocks(
            lambda first, last, sums: _differentiate(
                rows[first:last],
                total_grads[first:last],
                normed_grads[first:last],
                outs[first:last],
                x_outs[first:last],
                wide_statistics[first:last],
                gain,
                for_total is not None,
                first,
                seed,
                dropped,
                factor,
                sums,
            ),
            len(rows),
            2,
            len(weight),
        )
        for_weight, for_bias = torch.from_numpy(sums)
        return (
            for_residual,
            for_x,
            for_weight.to(weight.dtype),
            for_bias.to(ctx.bias_type),
            None,
            None,
            None,
        )


@kernel
def _add_and_normalize(
    residual: Any,
    x: Any,
    total: Any,
    normed: Any,
    statistics: Any,
    weight: Any,
    bias: Any,
    epsilon: Any,
    place: int,
    seed: Any,
    dropped: Any,
    scale: Any,
) -> None:
    """Fill total, normed and statistics; `place` is where the first row stands."""
    R, D = x.shape
    wide = np.empty(D, np.float32)
    for r in range(R):
        of_row = row_bits(place + r, seed)
        for i in range(D):
            kept = widen(x[r, i]) * keep_factor(i, of_row, dropped, scale)
            bits = narrow(widen(residual[r, i]) + kept)
            total[r, i] = bits
            wide[i] = widen(bits)
        mean, sharpness = center(wide, epsilon)
        for i in range(D):
            normed[r, i] = narrow(wide[i] * sharpness * weight[i] + bias[i])
        statistics[r, 0] = mean
        statistics[r, 1] = sharpness


@kernel
def _differentiate(
    total: Any,
    for_total: Any,
    for_normed: Any,
    for_residual: Any,
    for_x: Any,
    statistics: Any,
    weight: Any,
    sum_is_read: bool,
    place: int,
    seed: Any,
    dropped: Any,
    scale: Any,
    sums: Any,
) -> None:
    """Fill the gradients of residual and x, and add up those of the norm's weight and bias."""
    R, D = total.shape
    standard, for_standard = np.empty(D, np.float32), np.empty(D, np.float32)
    passed = np.float32(1.0) if sum_is_read else np.float32(0.0)
    for r in range(R):
        mean, sharpness = statistics[r, 0], statistics[r, 1]
        level, tilt = np.float32(0.0), np.float32(0.0)
        for i in range(D):
            wide = widen(for_normed[r, i])
            standard[i] = (widen(total[r, i]) - mean) * sharpness
            for_standard[i] = wide * weight[i]
            sums[0, i] += wide * standard[i]
            sums[1, i] += wide
            level += for_standard[i]
            tilt += for_standard[i] * standard[i]
        level /= np.float32(D)
        tilt /= np.float32(D)
        of_row = row_bits(place + r, seed)
        for i in range(D):
            gradient = sharpness * (for_standard[i] - level - standard[i] * tilt)
            gradient += passed * widen(for_total[r, i])
            for_residual[r, i] = narrow(gradient)
            for_x[r, i] = narrow(gradient * keep_factor(i, of_row, dropped, scale))
