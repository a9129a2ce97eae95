"""Attention: relative positions against their definition, fused against plain."""

import math

import pytest
import torch
from torch import Tensor

from arborvox.model import attention
from arborvox.model.attention import RelativeSelfAttention, attend_fused, attend_plainly, sinusoids


def naive_relative_attention(layer: RelativeSelfAttention, x: Tensor, lens: list[int]) -> Tensor:
    """Score by score, as Transformer-XL defines it: content and position terms with u and v."""
    B, T, D = x.shape
    H, d = layer.heads, D // layer.heads
    q, k, v = (part.view(B, T, H, d) for part in layer.qkv(x).chunk(3, dim=-1))
    frequency = [10000.0 ** (-n / (d // 2)) for n in range(d // 2)]
    mixed = torch.zeros(B, T, H, d, dtype=x.dtype)
    for b in range(B):
        for h in range(H):
            for i in range(T):
                scores = []
                for j in range(lens[b]):
                    angles = [(i - j) * f for f in frequency]
                    r = torch.tensor(
                        [math.sin(a) for a in angles] + [math.cos(a) for a in angles], dtype=x.dtype
                    )
                    content = (q[b, i, h] + layer.content_bias[h, 0]) @ k[b, j, h]
                    place = (q[b, i, h] + layer.position_bias[h, 0]) @ (layer.position[h] @ r)
                    scores.append((content + place) / math.sqrt(d))
                weights = torch.stack(scores).softmax(0)
                mixed[b, i, h] = weights @ v[b, : lens[b], h]
    return layer.out(mixed.flatten(2))


def key_bias(lens: list[int], num_keys: int) -> Tensor:
    padded = torch.arange(num_keys) >= torch.tensor(lens)[:, None]
    bias = torch.zeros(padded.shape, dtype=torch.float64).masked_fill(padded, -torch.inf)
    return bias[:, None, None, :]


def test_relative_attention_equals_its_definition() -> None:
    torch.manual_seed(0)
    layer = RelativeSelfAttention(width=12, heads=3).double()
    x = torch.randn(2, 9, 12, dtype=torch.float64, requires_grad=True)
    lens = [9, 6]
    fast = layer(x, sinusoids(9, 4, like=x), key_bias(lens, 9))
    slow = naive_relative_attention(layer, x, lens)
    torch.testing.assert_close(fast, slow)
    weights = torch.randn_like(fast)
    tensors = [x, *layer.parameters()]
    for ours, theirs in zip(
        torch.autograd.grad((fast * weights).sum(), tensors),
        torch.autograd.grad((slow * weights).sum(), tensors),
        strict=True,
    ):
        torch.testing.assert_close(ours, theirs)


def test_only_distances_matter_to_position_scores() -> None:
    """Frames that are all alike attend by distance alone: the score matrix is Toeplitz."""
    d, T = 8, 20
    like = torch.empty(0, dtype=torch.float64)
    sine, cosine = sinusoids(T, d, like)
    a, b = torch.randn(2, d // 2, dtype=torch.float64)
    query = torch.cat((a * sine + b * cosine, b * sine - a * cosine), dim=-1)
    scores = query @ torch.cat((cosine, sine), dim=-1).T
    for offset in range(-T + 1, T):
        diagonal = scores.diagonal(offset)
        torch.testing.assert_close(diagonal, diagonal[:1].expand_as(diagonal))


@pytest.mark.parametrize("value_size", [8, 4])
def test_fused_attention_equals_plain_attention(value_size: int) -> None:
    torch.manual_seed(0)
    q, k = torch.randn(2, 2, 3, 7, 8, dtype=torch.float64)
    v = torch.randn(2, 3, 7, value_size, dtype=torch.float64)
    bias = key_bias([7, 4], 7)
    torch.testing.assert_close(attend_fused(q, k, v, bias), attend_plainly(q, k, v, bias))
    torch.testing.assert_close(attend_fused(q, k, v, None), attend_plainly(q, k, v, None))


def test_long_inputs_take_the_fused_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    layer = RelativeSelfAttention(width=12, heads=3).double()
    x = torch.randn(2, 9, 12, dtype=torch.float64)
    arguments = (x, sinusoids(9, 4, like=x), key_bias([9, 6], 9))
    plain = layer(*arguments)
    monkeypatch.setattr(attention, "MAX_PLAIN_KEYS", 8)
    monkeypatch.setattr(attention, "attend_plainly", None)
    torch.testing.assert_close(layer(*arguments), plain)
