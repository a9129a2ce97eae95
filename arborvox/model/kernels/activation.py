"""Bias, SiLU and dropout in one pass over memory: the network's widest tensors go through these."""

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
from arborvox.model.kernels.chance import Chance, keep_factor, row_bits

# Fewer rows than this are not worth waking a thread for.
ROWS_PER_THREAD = 64


def silu_dropout(x: Tensor, bias: Tensor, rate: float) -> Tensor:
    """Return dropout(silu(x + bias)) in bfloat16 on a CPU, (..., D), (D,) -> (..., D)."""
    out: Tensor = _SiluDropout.apply(x, bias, rate)  # type: ignore[no-untyped-call]
    return out


class _SiluDropout(Function):
    """The derivatives are made where the values are, and kept instead of the input.

    So exponentials and random bits are computed once, and the gradient is one product.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, bias: Tensor, rate: float) -> Tensor:
        x = x.contiguous()
        out, derivatives = torch.empty_like(x), torch.empty_like(x)
        rows, out_rows, derivative_rows = (
            as_bits(y).reshape(-1, x.shape[-1]) for y in (x, out, derivatives)
        )
        offsets = bias.detach().float().numpy()
        seed, dropped, scale = Chance.draw(rate).numbers
        run_split(
            lambda first, last: _activate(
                rows[first:last],
                offsets,
                first,
                seed,
                dropped,
                scale,
                out_rows[first:last],
                derivative_rows[first:last],
            ),
            len(rows),
            ROWS_PER_THREAD,
        )
        ctx.save_for_backward(derivatives)
        ctx.bias_type = bias.dtype
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None]:
        (derivatives,) = ctx.saved_tensors
        out = torch.empty_like(derivatives)
        derivative_rows, grads, out_rows = (
            as_bits(y).reshape(-1, derivatives.shape[-1])
            for y in (derivatives, grad.contiguous(), out)
        )
        for_bias = sum_blocks(
            lambda first, last, sums: _multiply(
                derivative_rows[first:last], grads[first:last], out_rows[first:last], sums
            ),
            len(grads),
            derivatives.shape[-1],
        )
        return out, torch.from_numpy(for_bias).to(ctx.bias_type), None


@kernel
def _activate(
    rows: Any,
    bias: Any,
    place: int,
    seed: Any,
    dropped: Any,
    scale: Any,
    out: Any,
    derivatives: Any,
) -> None:
    """Fill out with dropout(y * sigma(y)), y = x + bias, and derivatives with its derivative by y.

    `place` is where the first row stands.
    """
    R, D = rows.shape
    for r in range(R):
        of_row = row_bits(place + r, seed)
        # From 0: an index that might be negative would be tested each time, one at a time.
        for i in range(D):
            y = widen(rows[r, i]) + bias[i]
            kept = logistic_float32(y)
            rest = y * (np.float32(1.0) - kept)
            kept *= keep_factor(i, of_row, dropped, scale)
            out[r, i] = narrow(y * kept)
            derivatives[r, i] = narrow(kept * (np.float32(1.0) + rest))


@kernel
def _multiply(derivatives: Any, grads: Any, out: Any, sums: Any) -> None:
    """Fill out with derivatives * grads, and add up its rows."""
    R, D = derivatives.shape
    for r in range(R):
        for i in range(D):
            product = widen(derivatives[r, i]) * widen(grads[r, i])
            out[r, i] = narrow(product)
            sums[i] += product
