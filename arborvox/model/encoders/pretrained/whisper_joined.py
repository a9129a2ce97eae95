"""Whisper's layers and convolutions for an encoder that does not learn: fewer, larger products."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from arborvox.model.encoders.pretrained.attention import attend


class JoinedLayer(nn.Module):
    """A layer of Whisper's with queries, keys and values by one product.

    It takes the weights of the layer that it stands for, and gives the same but for rounding.
    """

    def __init__(self, layer: Any) -> None:
        super().__init__()
        attention = layer.self_attn
        self.num_heads = attention.num_heads
        query, key, value = attention.q_proj, attention.k_proj, attention.v_proj
        weights = (query.weight * attention.scaling, key.weight, value.weight)
        # Keys have no bias: it would add the same to all scores of a query.
        biases = (query.bias * attention.scaling, torch.zeros_like(query.bias), value.bias)
        self.project = make_linear(torch.cat(weights), torch.cat(biases))
        self.attention_norm = layer.self_attn_layer_norm
        self.output = attention.out_proj
        self.norm = layer.final_layer_norm
        self.activation = layer.activation_fn
        self.widen, self.narrow = layer.fc1, layer.fc2

    def forward(self, x: Tensor, bias: Tensor | None, num_read: int | None = None) -> Tensor:
        """Run the layer, (B, T, D), (B, 1, 1, T) -> (B, T, D), or of the first `num_read` alone."""
        B, T, _ = x.shape
        joined = self.project(self.attention_norm(x)).view(B, T, 3, self.num_heads, -1)
        query, key, value = joined.permute(2, 0, 3, 1, 4).contiguous()  # (B, H, T, D / H) each
        if num_read is not None:
            x, query = x[:, :num_read], query[:, :, :num_read]
        heard = attend(query, key, value, bias).transpose(1, 2).reshape(x.shape)
        x = x + self.output(heard)
        out: Tensor = x + self.narrow(self.activation(self.widen(self.norm(x))))
        return out


class RowConvolution(nn.Module):
    """A convolution over time as one product with overlapping rows of its input."""

    def __init__(self, convolution: nn.Conv1d) -> None:
        super().__init__()
        (self.size,), (self.stride,) = convolution.kernel_size, convolution.stride
        (self.padding,) = (int(side) for side in convolution.padding)
        weight = convolution.weight.transpose(1, 2).flatten(1)  # (E, size * D)
        assert convolution.bias is not None
        self.project = make_linear(weight, convolution.bias)

    def forward(self, x: Tensor) -> Tensor:
        """Convolve, (B, T, D) -> (B, T', E)."""
        x = functional.pad(x, (0, 0, self.padding, self.padding))
        B, T, D = x.shape
        count = (T - self.size) // self.stride + 1
        rows = x.as_strided((B, count, self.size * D), (T * D, self.stride * D, 1))
        out: Tensor = self.project(rows)
        return out


def make_linear(weight: Tensor, bias: Tensor) -> nn.Linear:
    """Return a layer with these weights, (E, D) and (E,)."""
    layer = nn.Linear(weight.shape[1], weight.shape[0], device="meta")
    layer.weight, layer.bias = nn.Parameter(weight.detach()), nn.Parameter(bias.detach())
    return layer.requires_grad_(False)
