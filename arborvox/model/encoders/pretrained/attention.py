"""Attention of pretrained encoders, in blocks that stay in the processor's cache.

Torch's own kernel for bf16 on a CPU takes 1.6 to 1.9 times as long for utterances of 3 to 30
seconds, and 3 to 1.4 times where something learns, the way back included. Scores are rounded to
bf16 here, which adds a seventh to what bf16 does to the states.
"""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from arborvox.model.kernels.dispatch import suits_kernel
from arborvox.model.kernels.scores import softmax_backward_in_place, softmax_in_place

IN_BLOCKS = "arborvox-in-blocks"
BLOCK_CELLS = 500_000  # scores at once
# What the library may ask for by name; nothing is dropped where nothing learns.
KNOWN = {"scaling", "dropout", "position_bias"}


def attend_in_blocks(
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    **others: Any,
) -> tuple[Tensor, Tensor | None]:
    """Attend as `transformers` asks for it, (B, H, T, D) -> (B, T, H, D) and no weights.

    Where queries have masks of their own, weights are dropped, positions learn, or more is asked
    for than is known here, its own kernel does it.
    """
    causal = getattr(module, "is_causal", True)  # as the library takes it
    biases_keys = attention_mask is None or attention_mask.shape[1:3] == (1, 1)
    asked = {name for name, value in others.items() if value is not None and value is not False}
    learns = query.requires_grad
    cannot_learn = bool(others.get("dropout")) or others.get("position_bias") is not None
    cannot_learn |= not suits_kernel("relative_attention", query)
    if not biases_keys or causal or (learns and cannot_learn) or not asked <= KNOWN:
        from transformers.integrations.sdpa_attention import sdpa_attention_forward

        found: tuple[Tensor, None] = sdpa_attention_forward(
            module, query, key, value, attention_mask, **others
        )
        return found
    scaling = others.get("scaling")
    scaling = query.shape[3] ** -0.5 if scaling is None else scaling
    queries = query if scaling == 1.0 else query * scaling
    bias, positions = attention_mask, others.get("position_bias")
    if positions is not None:
        bias = positions if bias is None else positions + bias
    return attend(queries, key, value, bias).transpose(1, 2), None


def attend(query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None) -> Tensor:
    """Attend with scaled queries, (B, H, Q, D), (B, H, T, D) twice -> (B, H, Q, D).

    The bias is added to the scores, (B, 1 or H, 1 or Q, T).
    """
    (num_queries, width), num_keys = query.shape[2:], key.shape[2]
    num_rows = query.shape[:2].numel()
    queries = query.reshape(num_rows, num_queries, width)
    keys, values = (x.reshape(num_rows, num_keys, width) for x in (key, value))
    if bias is not None:
        bias = bias.expand(*query.shape[:2], -1, -1).reshape(num_rows, 1, -1, num_keys)
    attend_rows = LearningAttention.apply if query.requires_grad else _attend_rows
    heard: Tensor = attend_rows(queries, keys, values, bias)
    return heard.view(query.shape)


class LearningAttention(Function):
    """Attend, (N, Q, D), (N, T, D) twice and a bias -> (N, Q, D); the way back weighs once more."""

    @staticmethod
    def forward(ctx: Any, query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(query, key, value, bias)
        return _attend_rows(query, key, value, bias)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
        query, key, value, bias = ctx.saved_tensors
        for_query, for_key, for_value = map(torch.empty_like, (query, key, value))
        for rows, weights in _blocks(query, key, bias):
            gradients = torch.bmm(grad[rows], value[rows].transpose(1, 2))  # of the weights
            torch.bmm(weights.transpose(1, 2), grad[rows], out=for_value[rows])
            softmax_backward_in_place(weights, gradients)  # of the scores
            torch.bmm(gradients, key[rows], out=for_query[rows])
            torch.bmm(gradients.transpose(1, 2), query[rows], out=for_key[rows])
        return for_query, for_key, for_value, None


def _attend_rows(query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None) -> Tensor:
    heard = torch.empty_like(query)
    for rows, weights in _blocks(query, key, bias):
        torch.bmm(weights, value[rows], out=heard[rows])
    return heard


def _blocks(query: Tensor, key: Tensor, bias: Tensor | None) -> Iterator[tuple[slice, Tensor]]:
    """Yield rows and their weights, softmax(query · key + bias), (n, Q, T)."""
    num_cells = query.shape[1] * key.shape[1]
    at_once = max(1, BLOCK_CELLS // num_cells)
    for start in range(0, len(query), at_once):
        rows = slice(start, start + at_once)
        scores = torch.bmm(query[rows], key[rows].transpose(1, 2))
        yield rows, _weigh(scores, None if bias is None else bias[rows])


def _weigh(scores: Tensor, bias: Tensor | None) -> Tensor:
    """Return softmax(scores + bias), (N, Q, T), (N, 1, 1 or Q, T) -> (N, Q, T)."""
    if suits_kernel("relative_attention", scores):
        softmax_in_place(scores, bias, scores.shape[1])
        return scores
    return (scores if bias is None else scores + bias.squeeze(1)).softmax(dim=-1)


def use_blocks(model: Any) -> None:
    """Let a network of `transformers` attend so from now on."""
    from transformers import AttentionInterface

    AttentionInterface.register(IN_BLOCKS, attend_in_blocks)
    model.config._attn_implementation = IN_BLOCKS
