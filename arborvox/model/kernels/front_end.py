"""The front end's first convolution and its ReLU on a CPU: one channel in, bfloat16 out.

torch has no fast way for a single input channel: as a product over patches the features are copied
nine times, and the largest tensor of the network is read and written once more for each step.
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


class FirstConvolution(Function):
    """Compute relu of a 3x3 convolution of stride 2: (B, T, M), (C, 9), (C,) -> (B, T1, M1, C).

    The features have no gradient.
    """

    @staticmethod
    def forward(ctx: Any, features: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        features = features.detach().float().contiguous()
        B, T, M = features.shape
        out = features.new_empty(B, (T - 1) // 2, (M - 1) // 2, len(weight), dtype=torch.bfloat16)
        frames, out_bits = features.numpy(), as_bits(out)
        taps = weight.detach().float().t().contiguous().numpy()  # (9, C)
        offsets = bias.detach().float().numpy()
        run_split(
            lambda first, last: _convolve(frames[first:last], taps, offsets, out_bits[first:last]),
            B,
            UTTERANCES_PER_THREAD,
        )
        ctx.save_for_backward(features, out)
        ctx.types = weight.dtype, bias.dtype
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[None, Tensor, Tensor]:
        features, out = ctx.saved_tensors
        frames, out_bits, grads = features.numpy(), as_bits(out), as_bits(grad.contiguous())
        # A sum for each utterance, added in order: the same bits for any number of threads.
        sums = np.zeros((len(frames), 10, out.shape[-1]), np.float32)
        run_split(
            lambda first, last: _sum_products(
                frames[first:last], out_bits[first:last], grads[first:last], sums[first:last]
            ),
            len(frames),
            UTTERANCES_PER_THREAD,
        )
        total = torch.from_numpy(sums.sum(axis=0))
        weight_type, bias_type = ctx.types
        return None, total[:-1].t().to(weight_type), total[-1].to(bias_type)


@kernel
def _patch(frames: Any, b: int, t: int, m: int) -> Any:
    """Return the nine features under the kernel at an output place."""
    top, middle, bottom = frames[b, 2 * t], frames[b, 2 * t + 1], frames[b, 2 * t + 2]
    left = 2 * m
    return (
        top[left],
        top[left + 1],
        top[left + 2],
        middle[left],
        middle[left + 1],
        middle[left + 2],
        bottom[left],
        bottom[left + 1],
        bottom[left + 2],
    )


@kernel
def _convolve(frames: Any, taps: Any, bias: Any, out: Any) -> None:
    """Fill out (B, T1, M1, C) with the rectified convolution of frames (B, T, M)."""
    B, T, M, C = out.shape
    for b in range(B):
        for t in range(T):
            for m in range(M):
                x0, x1, x2, x3, x4, x5, x6, x7, x8 = _patch(frames, b, t, m)
                # All taps in one sum: it stays in a register.
                for c in range(C):
                    value = bias[c] + x0 * taps[0, c] + x1 * taps[1, c] + x2 * taps[2, c]
                    value += x3 * taps[3, c] + x4 * taps[4, c] + x5 * taps[5, c]
                    value += x6 * taps[6, c] + x7 * taps[7, c] + x8 * taps[8, c]
                    # Written so that NaN stays NaN.
                    out[b, t, m, c] = narrow(np.float32(0.0) if value < np.float32(0.0) else value)


@kernel
def _sum_products(frames: Any, out: Any, grads: Any, sums: Any) -> None:
    """Add the gradients of the taps to sums[b, :9], and that of the bias to sums[b, 9]."""
    B, T, M, C = out.shape
    for b in range(B):
        for t in range(T):
            for m in range(M):
                x0, x1, x2, x3, x4, x5, x6, x7, x8 = _patch(frames, b, t, m)
                for c in range(C):
                    rectified = widen(out[b, t, m, c]) == np.float32(0.0)
                    gradient = np.float32(0.0) if rectified else widen(grads[b, t, m, c])
                    sums[b, 0, c] += x0 * gradient
                    sums[b, 1, c] += x1 * gradient
                    sums[b, 2, c] += x2 * gradient
                    sums[b, 3, c] += x3 * gradient
                    sums[b, 4, c] += x4 * gradient
                    sums[b, 5, c] += x5 * gradient
                    sums[b, 6, c] += x6 * gradient
                    sums[b, 7, c] += x7 * gradient
                    sums[b, 8, c] += x8 * gradient
                    sums[b, 9, c] += gradient
