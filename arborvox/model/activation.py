"""SiLU and dropout in one pass over memory: the widest tensors of the network go through these."""

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import Function, once_differentiable
from torch.nn import functional

from arborvox.kernels.bfloat16 import as_bits, narrow, widen
from arborvox.kernels.compiling import exact_kernel
from arborvox.kernels.gate_math import logistic_float32
from arborvox.kernels.threads import run_split
from arborvox.model.dropout import dropout_mask

# 32 random bits decide about one element.
LEVELS = 1 << 32
# Fewer elements than this are not worth waking a thread for.
ELEMENTS_PER_THREAD = 1 << 16


def silu_dropout(x: Tensor, rate: float) -> Tensor:
    """Return dropout(silu(x)); a share of `rate` becomes 0, the rest is scaled up."""
    if rate == 0.0:
        return functional.silu(x)
    if x.device.type != "cpu" or x.dtype is not torch.bfloat16 or torch.compiler.is_compiling():
        activated = functional.silu(x)
        return activated * dropout_mask(activated, rate)
    out: Tensor = _SiluDropout.apply(x, rate)  # type: ignore[no-untyped-call]
    return out


class _SiluDropout(Function):
    """Only the input and a seed are kept for the gradient; the mask is drawn again."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, rate: float) -> Tensor:
        x = x.contiguous()
        out = torch.empty_like(x)
        ctx.seed = np.uint32(torch.randint(0, LEVELS, ()).item())
        ctx.dropped, ctx.scale = np.uint32(round(rate * LEVELS)), np.float32(1.0 / (1.0 - rate))
        ctx.save_for_backward(x)
        bits, out_bits = as_bits(x).reshape(-1), as_bits(out).reshape(-1)
        run_split(
            lambda first, last: _activate(
                bits[first:last], first, ctx.seed, ctx.dropped, ctx.scale, out_bits[first:last]
            ),
            len(bits),
            ELEMENTS_PER_THREAD,
        )
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        (x,) = ctx.saved_tensors
        out = torch.empty_like(x)
        bits, grad_bits, out_bits = (
            as_bits(x).reshape(-1),
            as_bits(grad.contiguous()).reshape(-1),
            as_bits(out).reshape(-1),
        )
        run_split(
            lambda first, last: _differentiate(
                bits[first:last],
                grad_bits[first:last],
                first,
                ctx.seed,
                ctx.dropped,
                ctx.scale,
                out_bits[first:last],
            ),
            len(bits),
            ELEMENTS_PER_THREAD,
        )
        return out, None


@exact_kernel
def _factor(place: int, seed: Any, dropped: Any, scale: Any) -> Any:
    """Return the scale, or 0 for the share that is dropped: a hash of the place (murmur3's mix)."""
    # Numba widens sums and products of 32 bits to 64; each is cut back, as the mix wants it.
    bits = np.uint32(np.uint32(np.uint32(place) * np.uint32(0x9E3779B1)) + seed)
    bits = np.uint32((bits ^ np.uint32(bits >> np.uint32(16))) * np.uint32(0x85EBCA6B))
    bits = np.uint32((bits ^ np.uint32(bits >> np.uint32(13))) * np.uint32(0xC2B2AE35))
    bits = np.uint32(bits ^ np.uint32(bits >> np.uint32(16)))
    return np.float32(0.0) if bits < dropped else scale


@exact_kernel
def _activate(bits: Any, place: int, seed: Any, dropped: Any, scale: Any, out: Any) -> None:
    """Fill out with dropout(x * sigma(x)); `place` is where the first element stands."""
    # From 0: an index that might be negative would be tested each time, one element at a time.
    for i in range(bits.size):
        x = widen(bits[i])
        out[i] = narrow(x * logistic_float32(x) * _factor(place + i, seed, dropped, scale))


@exact_kernel
def _differentiate(
    bits: Any, grads: Any, place: int, seed: Any, dropped: Any, scale: Any, out: Any
) -> None:
    """Fill out with the gradients: sigma(x) * (1 + x * (1 - sigma(x))), dropped alike."""
    for i in range(bits.size):
        x = widen(bits[i])
        share = logistic_float32(x)
        slope = share * (np.float32(1.0) + x * (np.float32(1.0) - share))
        out[i] = narrow(widen(grads[i]) * slope * _factor(place + i, seed, dropped, scale))
