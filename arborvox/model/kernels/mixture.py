"""States of several layers as one, by learned weights: kept ones are read once, as they lie."""

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import Function, once_differentiable

from arborvox.kernels.compiling import exact_kernel, kernel
from arborvox.kernels.threads import run_split
from arborvox.model.kernels.bfloat16 import as_bits, narrow, widen
from arborvox.model.kernels.blocks import sum_blocks

ROWS_PER_THREAD = 64
# Half precision's smallest exponent is so much larger than single precision's.
HALF_SCALE = np.float32(2.0**112)
HALF_INFINITY = np.uint32(0x7C00 << 13)  # and what is no number lies above


def mix_states(states: Tensor, weights: Tensor) -> Tensor:
    """Return the weighted sums of half-precision states, (..., K, D), (K,) -> (..., D) in bfloat16.

    States that were kept do not learn, so they have no gradient.
    """
    out: Tensor = _Mixture.apply(states, weights)  # type: ignore[no-untyped-call]
    return out


class _Mixture(Function):
    @staticmethod
    def forward(ctx: Any, states: Tensor, weights: Tensor) -> Tensor:
        states = states.contiguous()
        out = torch.empty(*states.shape[:-2], states.shape[-1], dtype=torch.bfloat16)
        rows = as_bits(states).reshape(-1, *states.shape[-2:])
        out_rows = as_bits(out).reshape(-1, states.shape[-1])
        shares = weights.detach().float().numpy()
        run_split(
            lambda first, last: _mix(rows[first:last], shares, out_rows[first:last]),
            len(rows),
            ROWS_PER_THREAD,
        )
        ctx.save_for_backward(states)
        ctx.weights_type = weights.dtype
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[None, Tensor]:
        (states,) = ctx.saved_tensors
        rows = as_bits(states).reshape(-1, *states.shape[-2:])
        grads = as_bits(grad.contiguous()).reshape(-1, states.shape[-1])
        for_weights = sum_blocks(
            lambda first, last, sums: _multiply(rows[first:last], grads[first:last], sums),
            len(rows),
            states.shape[-2],
        )
        return None, torch.from_numpy(for_weights).to(ctx.weights_type)


@exact_kernel
def widen_half(bits: Any) -> Any:
    """Return a half-precision number as a float32: its exponent scaled, its sign put back."""
    size = np.uint32(np.uint32(np.uint32(bits) & np.uint32(0x7FFF)) << np.uint32(13))
    scaled = np.float32(size.view(np.float32) * HALF_SCALE)
    sign = np.uint32(np.uint32(np.uint32(bits) & np.uint32(0x8000)) << np.uint32(16))
    endless = np.uint32(0x7F800000) if size >= HALF_INFINITY else np.uint32(0)
    return np.uint32(scaled.view(np.uint32) | np.uint32(sign | endless)).view(np.float32)


@kernel
def _mix(rows: Any, weights: Any, out: Any) -> None:
    """Fill out with the sums over layers, (R, K, D), (K,) -> (R, D)."""
    R, K, D = rows.shape
    sums = np.empty(D, np.float32)
    for r in range(R):
        sums[:] = 0.0
        for k in range(K):
            for i in range(D):
                sums[i] += weights[k] * widen_half(rows[r, k, i])
        for i in range(D):
            out[r, i] = narrow(sums[i])


@kernel
def _multiply(rows: Any, grads: Any, sums: Any) -> None:
    """Add the product of each layer's states and the gradients to `sums`, (K,)."""
    R, K, D = rows.shape
    for r in range(R):
        for k in range(K):
            total = np.float32(0.0)
            for i in range(D):
                total += widen(grads[r, i]) * widen_half(rows[r, k, i])
            sums[k] += total
