"""Linear layers whose products have few sizes.

oneDNN writes code for each size of product that it meets. For AMX that takes longer than the
product itself, and a batch of utterances rarely has as many states as another. So in training and
its evaluation rows of zeros are added, up to the next of a few sizes, and the code of more sizes is
kept than oneDNN would keep by itself (`benchmarks/product_sizes.py`).
"""

import functools
import os
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import Function, once_differentiable
from torch.nn import functional

from arborvox.model.kernels.dispatch import suits_kernel

# So many rows are computed at once anyway; and never more than one in sixteen is added.
LEAST_STEP = 64
STEPS_AN_OCTAVE = 16

# Attention's products keep their sizes, of which a training has thousands; oneDNN keeps 1,024.
KEPT_SIZES = 6000
CAPACITY = "ONEDNN_PRIMITIVE_CACHE_CAPACITY"


class Linear(nn.Linear):
    """A linear layer as torch has it, computed by `linear`."""

    def forward(self, x: Tensor) -> Tensor:
        """Multiply, (..., D) -> (..., E)."""
        return linear(x, self.weight, self.bias)


def take_over_linear_layers(module: nn.Module) -> None:
    """Let plain linear layers below a module that others wrote be computed in the same way."""
    for child in module.modules():
        if type(child) is nn.Linear:
            child.__class__ = Linear


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Return x weight' + bias, (..., D), (E, D), (E,) -> (..., E), as autocast would compute it."""
    if suits_filling(x):
        narrow_bias = None if bias is None else bias.to(torch.bfloat16)
        product: Tensor = FilledProduct.apply(x, weight.to(torch.bfloat16), narrow_bias)  # type: ignore[no-untyped-call]
        return product
    return functional.linear(x, weight, bias)


def suits_filling(x: Tensor) -> bool:
    """Say whether rows are to be added: to batches of a training, those of its evaluation too."""
    is_training = torch.is_autocast_enabled("cpu") and suits_kernel("products", x, cast=True)
    return is_training and writes_code_slowly()


def keep_code_of_products() -> None:
    """Keep code for more sizes, unless the user has said for how many; call it before products."""
    if writes_code_slowly():
        os.environ.setdefault(CAPACITY, str(KEPT_SIZES))


@functools.cache
def writes_code_slowly() -> bool:
    """Say whether this processor's products have code that takes longer to write than to run."""
    return torch.cpu._is_amx_tile_supported()


def filled_rows(rows: int) -> int:
    """Return the next of the few sizes that products have, (N) -> at most N + max(63, N / 16)."""
    step = max(LEAST_STEP, (1 << (rows - 1).bit_length()) // (2 * STEPS_AN_OCTAVE))
    return -(-rows // step) * step


class FilledProduct(Function):
    """x weight' + bias with rows of zeros behind x's own; weight and bias are in bf16."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        filled = _fill(x)
        ctx.save_for_backward(filled, weight)
        ctx.shape, ctx.dtype, ctx.has_bias = x.shape, x.dtype, bias is not None
        turned = weight.t()
        product = filled @ turned if bias is None else torch.addmm(bias, filled, turned)
        return product[: _num_rows(x)].view(*x.shape[:-1], len(weight))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor, Tensor | None]:
        filled, weight = ctx.saved_tensors
        rows = _num_rows(grad)
        for_product = _fill(grad)
        for_x = None
        if ctx.needs_input_grad[0]:
            for_x = (for_product @ weight)[:rows].view(ctx.shape).to(ctx.dtype)
        for_bias = for_product[:rows].sum(0) if ctx.has_bias else None
        return for_x, for_product.t() @ filled, for_bias


def _num_rows(x: Tensor) -> int:
    return x.numel() // x.shape[-1]


def _fill(x: Tensor) -> Tensor:
    """Return the rows of a tensor in bf16, and zeros up to the next size, (..., D) -> (N, D)."""
    rows, size = _num_rows(x), filled_rows(_num_rows(x))
    if rows == size:
        return x.reshape(rows, -1).to(torch.bfloat16)
    filled = x.new_empty(size, x.shape[-1], dtype=torch.bfloat16)
    filled[:rows].view(x.shape).copy_(x)
    filled[rows:].zero_()
    return filled
