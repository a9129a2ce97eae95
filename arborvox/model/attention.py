"""Attention: one place that chooses how it is computed; relative, causal and cross attention."""

import math

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from arborvox.model.kernels.dispatch import is_exported, suits_kernel
from arborvox.model.kernels.relative import RelativeAttention
from arborvox.model.products import Linear

# On a CPU a training step with plain products takes about half the time of the fused kernel, up to
# the 1,500 frames measured (`benchmarks/network_parts.py`); far beyond that, memory decides.
MAX_PLAIN_KEYS = 2048
DIGIT_BASE = 32


def attend(q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None = None) -> Tensor:
    """Return softmax(q k' + bias) v; (B, H, Q, E), (B, H, K, E), (B, H, K, d) -> (B, H, Q, d)."""
    if is_exported():
        return attend_plainly(q, k, v, bias)
    if q.device.type == "cpu" and k.shape[-2] <= MAX_PLAIN_KEYS:
        return attend_plainly(q, k, v, bias)
    return attend_fused(q, k, v, bias)


def attend_plainly(q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None) -> Tensor:
    """Compute attention as two matrix products with the scores in memory between them."""
    scores = q @ k.transpose(-2, -1)
    if bias is not None:
        scores += bias
    return scores.softmax(-1) @ v


def attend_fused(q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None) -> Tensor:
    """Compute attention by torch's own kernel, which never holds all scores."""
    # The kernel wants queries and values of one size; columns of zeros come out as zeros.
    missing = q.shape[-1] - v.shape[-1]
    wide = functional.pad(v, (0, missing)) if missing else v
    return functional.scaled_dot_product_attention(q, k, wide, attn_mask=bias, scale=1.0)[
        ..., : v.shape[-1]
    ]


def split_heads(x: Tensor, heads: int) -> Tensor:
    """(B, T, H * d) -> (B, H, T, d)."""
    return x.view(*x.shape[:2], heads, -1).transpose(1, 2)


def merge_heads(x: Tensor) -> Tensor:
    """(B, H, T, d) -> (B, T, H * d)."""
    return x.transpose(1, 2).flatten(2)


def sinusoids(num_positions: int, size: int, like: Tensor) -> tuple[Tensor, Tensor]:
    """Return sines and cosines of the positions, (T, size / 2) each, from wave length 2 pi up."""
    if is_exported():
        return digit_waves(torch.arange(num_positions), size)
    # In fp64 until the end, so that far positions are as exact as near ones.
    count = size // 2
    frequency = 10000.0 ** (-torch.arange(count, dtype=torch.float64, device=like.device) / count)
    position = torch.arange(num_positions, dtype=torch.float64, device=like.device)
    angle = position[:, None] * frequency
    return angle.sin().to(like.dtype), angle.cos().to(like.dtype)


def digit_waves(positions: Tensor, size: int) -> tuple[Tensor, Tensor]:
    """Return sines and cosines of positions below 32,768, (…) -> (…, size / 2) each.

    Of the position's three digits to the base of 32, by the addition theorems: as exact as fp64 to
    fp32's last digit, in graphs for runtimes whose sine knows fp32 alone.
    """
    count = size // 2
    frequency = 10000.0 ** (-np.arange(count) / count)
    sine: Tensor | None = None
    cosine: Tensor | None = None
    for place in (1, DIGIT_BASE, DIGIT_BASE**2):
        angle = place * np.arange(DIGIT_BASE)[:, None] * frequency
        digit = torch.div(positions, place, rounding_mode="floor") % DIGIT_BASE
        s = torch.from_numpy(np.sin(angle).astype(np.float32))[digit]
        c = torch.from_numpy(np.cos(angle).astype(np.float32))[digit]
        if sine is None or cosine is None:
            sine, cosine = s, c
        else:
            sine, cosine = sine * c + cosine * s, cosine * c - sine * s
    assert sine is not None and cosine is not None
    return sine, cosine


class RelativeSelfAttention(nn.Module):
    """Self-attention that knows how far apart two frames are, as in Transformer-XL.

    The score of frame i for frame j is ((q_i + u) . k_j + (q_i + v) . P r_(i-j)) / sqrt(d), where r
    holds sines and cosines of the distance. By the addition theorems r_(i-j) is a rotation of
    r_j by i. So the second product is a dot product of the rotated P'(q_i + v) with plain position
    features of j: both terms are one matrix product, and no table over distances is ever made.
    """

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        size = width // heads
        self.heads, self.scale = heads, 1.0 / math.sqrt(size)
        self.qkv = Linear(width, 3 * width)
        self.position = nn.Parameter(torch.empty(heads, size, size))  # P', by head
        self.content_bias = nn.Parameter(torch.empty(heads, 1, size))  # u
        self.position_bias = nn.Parameter(torch.empty(heads, 1, size))  # v
        self.out = Linear(width, width)
        bound = math.sqrt(3.0 / size)
        for parameter in (self.position, self.content_bias, self.position_bias):
            nn.init.uniform_(parameter, -bound, bound)

    def forward(self, x: Tensor, waves: tuple[Tensor, Tensor], bias: Tensor | None) -> Tensor:
        """Mix frames, (B, T, D) -> (B, T, D); `waves` are the sines and cosines of 0..T-1."""
        out: Tensor = self.out(merge_heads(self._mix(self.qkv(x), *waves, bias)))
        return out

    def _mix(self, qkv: Tensor, sine: Tensor, cosine: Tensor, bias: Tensor | None) -> Tensor:
        """Attend, (B, T, 3D) -> (B, H, T, d)."""
        if suits_kernel("relative_attention", qkv) and qkv.shape[1] <= MAX_PLAIN_KEYS:
            mixed: Tensor = RelativeAttention.apply(  # type: ignore[no-untyped-call]
                qkv, self.content_bias, self.position_bias, self.position, sine, cosine, bias
            )
            return mixed
        q, k, v = (split_heads(part, self.heads) for part in qkv.chunk(3, dim=-1))
        u, w = self.content_bias * self.scale, self.position_bias * self.scale
        content = torch.add(u.to(q.dtype), q, alpha=self.scale)
        a, b = (torch.add(w.to(q.dtype), q, alpha=self.scale) @ self.position).chunk(2, dim=-1)
        rotated = (a * sine + b * cosine, b * sine - a * cosine)
        query = torch.cat((content, *rotated), dim=-1)  # (B, H, T, 2d)
        features = torch.cat((cosine, sine), dim=-1).expand(*k.shape)
        return attend(query, torch.cat((k, features), dim=-1), v, bias)


class CausalSelfAttention(nn.Module):
    """Self-attention of the decoder: a token sees itself and what was written before it."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads, self.scale = heads, 1.0 / math.sqrt(width // heads)
        self.qkv = Linear(width, 3 * width)
        self.out = Linear(width, width)

    def forward(self, x: Tensor, bias: Tensor) -> Tensor:
        """Mix tokens, (B, U, D) -> (B, U, D), under the causal bias (U, U)."""
        q, k, v = self.project(x)
        out: Tensor = self.out(merge_heads(attend(q * self.scale, k, v, bias)))
        return out

    def project(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return queries, keys and values, (B, H, U, d) each."""
        q, k, v = (split_heads(part, self.heads) for part in self.qkv(x).chunk(3, dim=-1))
        return q, k, v


class CrossAttention(nn.Module):
    """Attention of the decoder to the encoded frames."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads, self.scale = heads, 1.0 / math.sqrt(width // heads)
        self.q = Linear(width, width)
        self.kv = Linear(width, 2 * width)
        self.out = Linear(width, width)

    def forward(self, x: Tensor, keys: Tensor, values: Tensor, bias: Tensor | None) -> Tensor:
        """Read from the frames, (B, U, D) -> (B, U, D)."""
        q = split_heads(self.q(x), self.heads) * self.scale
        out: Tensor = self.out(merge_heads(attend(q, keys, values, bias)))
        return out

    def keys_and_values(self, encoded: Tensor) -> tuple[Tensor, Tensor]:
        """Project the encoded frames once for all tokens, (B, T, D) -> (B, H, T, d) twice."""
        keys, values = (split_heads(part, self.heads) for part in self.kv(encoded).chunk(2, dim=-1))
        return keys, values
