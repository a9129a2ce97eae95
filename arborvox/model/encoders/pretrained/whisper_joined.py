"""Whisper's layers and convolutions for an encoder that does not learn: fewer, larger products."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.nn import functional

from arborvox.model.encoders.pretrained.attention import attend
from arborvox.model.kernels import int8

# What products and softmax are fastest for; and a product of a new size costs time and memory.
ROWS_STEP = 32
KEYS_STEP = 8
LEAST_GAIN = 1e-3


@dataclass(frozen=True)
class JoinedRows:
    """Utterances one behind the other, as rows of the same products; each hears itself alone."""

    lens: tuple[int, ...]
    biases: tuple[Tensor, ...]  # of each one's keys, (1, 1, 1, T), T a multiple of KEYS_STEP

    @classmethod
    def of(cls, parts: Sequence[Tensor], biases: Sequence[Tensor | None]) -> tuple[Tensor, Self]:
        """Join rows of utterances, (T, D) each -> (R, D), and hide what fills up their keys."""
        filled = []
        for part, bias in zip(parts, biases, strict=True):
            bias = part.new_zeros(1, 1, 1, len(part)) if bias is None else bias
            filled.append(functional.pad(bias, (0, -len(part) % KEYS_STEP), value=-torch.inf))
        return join_rows(parts), cls(tuple(map(len, parts)), tuple(filled))

    def part(self, x: Tensor) -> tuple[Tensor, ...]:
        """Take utterances apart again, (R, …) -> (T, …) each."""
        return torch.split(x[: sum(self.lens)], list(self.lens))

    def cut(self, left_out: int) -> Self:
        """Describe the utterances without their last rows."""
        return replace(self, lens=tuple(length - left_out for length in self.lens))


def join_rows(parts: Sequence[Tensor]) -> Tensor:
    """Put rows one behind the other and fill them up, (T, D) each -> (R, D)."""
    more = -sum(map(len, parts)) % ROWS_STEP
    return torch.cat((*parts, parts[0].new_zeros(more, *parts[0].shape[1:])))


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
        self.feed_forward: nn.Module = WhisperFeedForward(layer)

    def forward(self, x: Tensor, bias: Tensor | None, num_read: int | None = None) -> Tensor:
        """Run the layer, (B, T, D), (B, 1, 1, T) -> (B, T, D), or of the first `num_read` alone."""
        B, T, _ = x.shape
        joined = self.project(self.attention_norm(x)).view(B, T, 3, self.num_heads, -1)
        query, key, value = joined.permute(2, 0, 3, 1, 4).contiguous()  # (B, H, T, D / H) each
        if num_read is not None:
            x, query = x[:, :num_read], query[:, :, :num_read]
        heard = attend(query, key, value, bias).transpose(1, 2).reshape(x.shape)
        return self._finish(x, heard)

    def run_rows(self, x: Tensor, rows: JoinedRows, left_out: int = 0) -> Tensor:
        """Run the layer on joined utterances, (R, D) -> (R', D), or without each one's last rows.

        A row's numbers are those that it would have alone: products and norms are by rows.
        """
        joined = self.project(self.attention_norm(x)).view(len(x), 3, self.num_heads, -1)
        heard = [
            self._hear_itself(part, bias)[: len(part) - left_out]
            for part, bias in zip(rows.part(joined), rows.biases, strict=True)
        ]
        if left_out:
            x = join_rows([part[: len(part) - left_out] for part in rows.part(x)])
        return self._finish(x, join_rows(heard))

    def _hear_itself(self, joined: Tensor, bias: Tensor) -> Tensor:
        """Attend in one utterance, (T, 3, H, D / H), (1, 1, 1, T') -> (T, D)."""
        T, _, H, width = joined.shape
        filled = joined.new_zeros(3, 1, H, bias.shape[-1], width)
        filled[:, 0, :, :T] = joined.permute(1, 2, 0, 3)
        query, key, value = filled
        return attend(query, key, value, bias)[0, :, :T].transpose(0, 1).reshape(T, H * width)

    def quantize(self) -> None:
        """Multiply 8-bit numbers between here and the next layer; before weights are packed."""
        assert isinstance(self.feed_forward, WhisperFeedForward)
        self.feed_forward = Int8FeedForward(self.feed_forward)

    def _finish(self, x: Tensor, heard: Tensor) -> Tensor:
        out: Tensor = self.feed_forward(x + self.output(heard))
        return out


class WhisperFeedForward(nn.Module):
    """The second half of a layer: a norm, a linear layer, GELU, another one, and the sum."""

    def __init__(self, layer: Any) -> None:
        super().__init__()
        self.norm = layer.final_layer_norm
        self.activation = layer.activation_fn
        self.widen, self.narrow = layer.fc1, layer.fc2

    def forward(self, x: Tensor) -> Tensor:
        """Add what two linear layers make of it, (..., D) -> (..., D)."""
        out: Tensor = x + self.narrow(self.activation(self.widen(self.norm(x))))
        return out


class Int8FeedForward(nn.Module):
    """The same by products of 8-bit numbers: half the time of bf16's, a third of fp32's.

    Weights are rounded by outputs, and what they multiply by rows, each time.
    """

    def __init__(self, exact: WhisperFeedForward) -> None:
        super().__init__()
        norm, widen = exact.norm, exact.widen
        # A norm's gains differ by orders, and the largest decides a row's steps: half of that is
        # moved into the weights, whose steps bear it better.
        gain = norm.weight.detach().float()
        moved = gain.abs().clamp(min=LEAST_GAIN).sqrt()
        self.gain, self.shift = gain / moved, norm.bias.detach().float() / moved
        self.epsilon = norm.eps
        self.widen = int8.Int8Weight.of(widen.weight.detach().float() * moved, widen.bias.detach())
        self.narrow = int8.Int8Weight.of(exact.narrow.weight.detach(), exact.narrow.bias.detach())

    def forward(self, x: Tensor) -> Tensor:
        """Add what two linear layers make of it, (..., D) -> (..., D), in its type."""
        rows = x.reshape(-1, x.shape[-1])
        heard = int8.normalize(rows, self.gain, self.shift, self.epsilon)
        active = int8.activate(self.widen.multiply(heard), heard, self.widen)
        return int8.add(rows, self.narrow.multiply(active), active, self.narrow).view(x.shape)


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
