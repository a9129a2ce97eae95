"""Depthwise convolution over time on a CPU, in bfloat16 with frames as rows.

torch's own takes five times as long for the gradients: it sees a picture of height 1.
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import Function, once_differentiable

from arborvox.kernels.compiling import kernel
from arborvox.kernels.threads import run_split
from arborvox.model.kernels.bfloat16 import as_bits, narrow, widen

# Fewer utterances than this are not worth waking a thread for.
UTTERANCES_PER_THREAD = 1


class DepthwiseConvolution(Function):
    """Convolve each channel with its own kernel: (B, T, D), (D, K), (D,) -> (B, T, D)."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        x = x.contiguous()
        taps = weight.float().t().contiguous().numpy()  # (K, D)
        out = torch.empty_like(x)
        _convolve_all(as_bits(x), taps, bias.float().numpy(), as_bits(out))
        ctx.save_for_backward(x, weight)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        x, weight = ctx.saved_tensors
        grad = grad.contiguous()
        B, _, D = x.shape
        # The gradient of the input is a convolution with the kernel turned around.
        taps = weight.float().flip(1).t().contiguous().numpy()
        for_x = torch.empty_like(x)
        bits, grad_bits = as_bits(x), as_bits(grad)
        _convolve_all(grad_bits, taps, np.zeros(D, np.float32), as_bits(for_x))
        # A sum for each utterance, added in order: the same bits for any number of threads.
        sums = np.zeros((B, len(taps) + 1, D), np.float32)
        run_split(
            lambda first, last: _sum_products(
                bits[first:last], grad_bits[first:last], sums[first:last]
            ),
            B,
            UTTERANCES_PER_THREAD,
        )
        total = torch.from_numpy(sums.sum(axis=0))
        return for_x, total[:-1].t().to(weight.dtype), total[-1].to(weight.dtype)


def _convolve_all(rows: Any, taps: Any, bias: Any, out: Any) -> None:
    run_split(
        lambda first, last: _convolve(rows[first:last], taps, bias, out[first:last]),
        len(rows),
        UTTERANCES_PER_THREAD,
    )


@kernel
def _convolve(rows: Any, taps: Any, bias: Any, out: Any) -> None:
    """Fill out (B, T, D) with the sum over k of taps[k] * rows[t + k - K // 2], and the bias."""
    B, T, D = rows.shape
    K = taps.shape[0]
    half = K // 2
    total = np.empty(D, np.float32)
    for b in range(B):
        for t in range(T):
            total[:] = bias
            for k in range(max(0, half - t), min(K, T + half - t)):
                row = rows[b, t + k - half]
                tap = taps[k]
                for i in range(D):
                    total[i] += tap[i] * widen(row[i])
            target = out[b, t]
            for i in range(D):
                target[i] = narrow(total[i])


@kernel
def _sum_products(rows: Any, grads: Any, sums: Any) -> None:
    """Add grads[t] * rows[t + k - K // 2] to sums[b, k], and grads[t] to the last row of sums."""
    B, T, D = rows.shape
    K = sums.shape[1] - 1
    half = K // 2
    wide = np.empty(D, np.float32)
    for b in range(B):
        for t in range(T):
            grad = grads[b, t]
            for_bias = sums[b, K]
            for i in range(D):
                wide[i] = widen(grad[i])
                for_bias[i] += wide[i]
            for k in range(max(0, half - t), min(K, T + half - t)):
                row = rows[b, t + k - half]
                for_tap = sums[b, k]
                for i in range(D):
                    for_tap[i] += wide[i] * widen(row[i])
