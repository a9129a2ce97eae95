"""Relative self-attention on a CPU, in bfloat16: all between its two linear layers.

What torch does in a dozen passes around the products (biases, scaling, rotation, splitting into
heads, joining) takes four here; and the half of the keys that is no parameter gets no gradient.
"""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.autograd.function import Function, once_differentiable

from arborvox.kernels.compiling import kernel
from arborvox.kernels.threads import run_split
from arborvox.model.kernels.bfloat16 import as_bits, narrow, widen
from arborvox.model.kernels.scores import softmax_backward_in_place, softmax_in_place

# Fewer utterances than this are not worth waking a thread for.
UTTERANCES_PER_THREAD = 1


class RelativeAttention(Function):
    """Attend with relative positions; see `RelativeSelfAttention` for the names and the reason.

    qkv (B, T, 3 H d), u and v (H, 1, d), P' (H, d, d), sines and cosines (T, d / 2), and a bias
    (B, 1, 1, T) on the keys -> (B, H, T, d).
    """

    @staticmethod
    def forward(
        ctx: Any,
        qkv: Tensor,
        u: Tensor,
        v: Tensor,
        position: Tensor,
        sine: Tensor,
        cosine: Tensor,
        bias: Tensor | None,
    ) -> Tensor:
        H, _, d = u.shape
        B, T, _ = qkv.shape
        ctx.scale = np.float32(d**-0.5)
        query, key = qkv.new_empty(2, B, H, T, 2 * d)
        value, shifted = qkv.new_empty(B, H, T, d), qkv.new_empty(H, B, T, d)
        waves = _as_floats(sine), _as_floats(cosine)
        parts = _halves(qkv.contiguous(), B, T, 3, H)
        biases = _as_floats(u).reshape(H, 2, -1), _as_floats(v).reshape(H, 2, -1)
        query_bits, key_bits = _halves(query, B, H, T, parts=4), _halves(key, B, H, T, parts=4)
        value_bits, shifted_bits = _halves(value, B, H, T), _halves(shifted, H, B, T)
        run_split(
            lambda first, last: _split_parts(
                first,
                last,
                parts,
                *biases,
                ctx.scale,
                *waves,
                query_bits,
                shifted_bits,
                key_bits,
                value_bits,
            ),
            B,
            UTTERANCES_PER_THREAD,
        )
        narrow_position = position.to(qkv.dtype)
        turned = _halves(torch.bmm(shifted.flatten(1, 2), narrow_position), H, B, T)
        run_split(
            lambda first, last: _rotate(first, last, turned, *waves, query_bits),
            B,
            UTTERANCES_PER_THREAD,
        )
        query, key, value = (x.flatten(0, 1) for x in (query, key, value))  # (B * H, T, ..)
        weights = torch.bmm(query, key.transpose(1, 2))  # (B * H, T, T), scores at first
        softmax_in_place(weights, bias, H * T)
        ctx.save_for_backward(shifted, narrow_position, sine, cosine, query, key, value, weights)
        ctx.types = u.dtype, v.dtype, position.dtype
        return torch.bmm(weights, value).view(B, H, T, d)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, None, None, None]:
        shifted, position, sine, cosine, query, key, value, weights = ctx.saved_tensors
        H, B, T, d = shifted.shape
        grad = grad.flatten(0, 1)  # (B * H, T, d)
        gradients = torch.bmm(grad, value.transpose(1, 2))  # of the weights, then of the scores
        softmax_backward_in_place(weights, gradients)
        waves = _as_floats(sine), _as_floats(cosine)
        query_bits = _halves(torch.bmm(gradients, key), B, H, T, parts=4)
        key_bits = _halves(torch.bmm(gradients.transpose(1, 2), query[..., :d]), B, H, T)
        value_bits = _halves(torch.bmm(weights.transpose(1, 2), grad), B, H, T)
        for_turned = torch.empty_like(shifted)
        turned_bits = _halves(for_turned, H, B, T)
        run_split(
            lambda first, last: _rotate_back(first, last, query_bits, *waves, turned_bits),
            B,
            UTTERANCES_PER_THREAD,
        )
        rows = for_turned.flatten(1, 2)  # (H, B * T, d)
        for_shifted = _halves(torch.bmm(rows, position.transpose(1, 2)), H, B, T)
        for_position = torch.bmm(shifted.flatten(1, 2).transpose(1, 2), rows)
        for_qkv = shifted.new_empty(B, T, 3 * H * d)
        parts = _halves(for_qkv, B, T, 3, H)
        # A sum for each utterance, added in order: the same bits for any number of threads.
        sums = np.zeros((B, 2, H, 2, d // 2), np.float32)
        run_split(
            lambda first, last: _join_parts(
                first, last, query_bits, for_shifted, key_bits, value_bits, ctx.scale, parts, sums
            ),
            B,
            UTTERANCES_PER_THREAD,
        )
        for_u, for_v = torch.from_numpy(sums.sum(axis=0)).view(2, H, 1, d)
        type_u, type_v, type_position = ctx.types
        grads = for_u.to(type_u), for_v.to(type_v), for_position.to(type_position)
        return for_qkv, *grads, None, None, None


def _as_floats(x: Tensor) -> NDArray[np.float32]:
    floats: NDArray[np.float32] = x.detach().float().squeeze(1).contiguous().numpy()
    return floats


def _halves(x: Tensor, *sizes: int, parts: int = 2) -> NDArray[np.uint16]:
    """Return a tensor's bits with the first axes as given, and the last cut into parts.

    Sines meet one half of a head and cosines the other. Kernels see the halves as an axis: an
    index that is a sum might be negative for all that the compiler knows, and costs a test.
    """
    return as_bits(x.view(*sizes, parts, -1))


@kernel
def _split_parts(
    first: int,
    last: int,
    parts: Any,
    u: Any,
    v: Any,
    scale: Any,
    sine: Any,
    cosine: Any,
    query: Any,
    shifted: Any,
    key: Any,
    value: Any,
) -> None:
    """Fill the first halves of the queries, the queries with v, the keys and the values."""
    _, T, _, H, _, half = parts.shape
    for b in range(first, last):
        for h in range(H):
            for t in range(T):
                for side in range(2):
                    for i in range(half):
                        wide = widen(parts[b, t, 0, h, side, i])
                        query[b, h, t, side, i] = narrow(scale * (wide + u[h, side, i]))
                        shifted[h, b, t, side, i] = narrow(scale * (wide + v[h, side, i]))
                    for i in range(half):
                        key[b, h, t, side, i] = parts[b, t, 1, h, side, i]
                    for i in range(half):
                        value[b, h, t, side, i] = parts[b, t, 2, h, side, i]
                for i in range(half):
                    key[b, h, t, 2, i] = narrow(cosine[t, i])
                    key[b, h, t, 3, i] = narrow(sine[t, i])


@kernel
def _rotate(first: int, last: int, turned: Any, sine: Any, cosine: Any, query: Any) -> None:
    """Fill the second halves of the queries."""
    H, _, T, _, half = turned.shape
    for b in range(first, last):
        for h in range(H):
            for t in range(T):
                for i in range(half):
                    x, y = widen(turned[h, b, t, 0, i]), widen(turned[h, b, t, 1, i])
                    query[b, h, t, 2, i] = narrow(x * sine[t, i] + y * cosine[t, i])
                    query[b, h, t, 3, i] = narrow(y * sine[t, i] - x * cosine[t, i])


@kernel
def _rotate_back(
    first: int, last: int, for_query: Any, sine: Any, cosine: Any, for_turned: Any
) -> None:
    """Fill the gradients of what `_rotate` takes: the rotation turned around."""
    H, _, T, _, half = for_turned.shape
    for b in range(first, last):
        for h in range(H):
            for t in range(T):
                for i in range(half):
                    x, y = widen(for_query[b, h, t, 2, i]), widen(for_query[b, h, t, 3, i])
                    for_turned[h, b, t, 0, i] = narrow(x * sine[t, i] - y * cosine[t, i])
                    for_turned[h, b, t, 1, i] = narrow(x * cosine[t, i] + y * sine[t, i])


@kernel
def _join_parts(
    first: int,
    last: int,
    for_query: Any,
    for_shifted: Any,
    for_key: Any,
    for_value: Any,
    scale: Any,
    parts: Any,
    sums: Any,
) -> None:
    """Fill the gradients of queries, keys and values, and add up those of u and v."""
    _, T, _, H, _, half = parts.shape
    for b in range(first, last):
        for t in range(T):
            for h in range(H):
                for side in range(2):
                    for i in range(half):
                        x = scale * widen(for_query[b, h, t, side, i])
                        y = scale * widen(for_shifted[h, b, t, side, i])
                        parts[b, t, 0, h, side, i] = narrow(x + y)
                        sums[b, 0, h, side, i] += x
                        sums[b, 1, h, side, i] += y
                    for i in range(half):
                        parts[b, t, 1, h, side, i] = for_key[b, h, t, side, i]
                    for i in range(half):
                        parts[b, t, 2, h, side, i] = for_value[b, h, t, side, i]
