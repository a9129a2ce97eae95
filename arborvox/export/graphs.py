"""The graphs of an export: what they take, what they give, and the modules that they are made of.

encoder: samples (B, S), lens (B,)
    -> states (B, T, D), state_lens (B,), ctc (B, T, C)
frames: states (B, T, D)
    -> cross (L, 2, B, H, T, d)
decoder: tokens (B, K), depths (B, K), past (B, K, N + K), own (L, 2, B, H, N, d), cross, state_lens
    -> scores (B, K, C), new (L, 2, B, H, K, d)

`past` is true where a token reads another: of N that were read before, then of the K themselves. So
one graph serves a beam that goes on by a token, and a prefix tree that is read at once. Scores are
log-probabilities, or the gates of a tree, whose best leaves the runtime searches for.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from arborvox.errors import ArborvoxError
from arborvox.export.inputs import InputGraph, input_graph
from arborvox.hsoftmax import HierarchicalSoftmax, OutputLayer, Softmax
from arborvox.hsoftmax.reference import log_probs
from arborvox.model.asr import ASR
from arborvox.model.attention import attend, digit_waves, merge_heads
from arborvox.model.decoder import Decoder, DecoderLayer
from arborvox.model.encoders.pretrained.encoder import PretrainedEncoder
from arborvox.model.layers import Padding


class ScoresGraph(nn.Module):
    """An output layer: hidden vectors (…, D) to log-probabilities, or to the gates of its tree."""

    gates: Tensor

    def __init__(self, layer: OutputLayer, *, leaves: bool) -> None:
        super().__init__()
        if not isinstance(layer, HierarchicalSoftmax | Softmax):
            raise ArborvoxError(f"{type(layer).__name__}: this output layer cannot be exported.")
        self.layer = layer
        self.tree = layer.tree if isinstance(layer, HierarchicalSoftmax) and not leaves else None
        if isinstance(layer, HierarchicalSoftmax):  # gates that are tied become plain ones
            self.register_buffer("gates", layer.gate_weight().detach().clone())

    def forward(self, h: Tensor) -> Tensor:
        """Score every token, or every gate."""
        if self.tree is not None:
            return functional.linear(h, self.gates)
        if isinstance(self.layer, HierarchicalSoftmax):
            rows = log_probs(h.flatten(0, 1), self.gates, self.layer.tables)
            return rows.view(h.shape[0], h.shape[1], self.layer.num_tokens)
        assert isinstance(self.layer, Softmax)
        return functional.log_softmax(functional.linear(h, self.layer.weight, self.layer.bias), -1)


class EncoderGraph(nn.Module):
    """Samples to encoder states and what CTC says of them."""

    def __init__(self, model: ASR, *, leaves: bool) -> None:
        super().__init__()
        self.input: InputGraph = input_graph(model.encoder.input)
        self.encoder = model.encoder
        self.ctc = None if model.ctc is None else ScoresGraph(model.ctc.output, leaves=leaves)

    def forward(self, samples: Tensor, lens: Tensor) -> tuple[Tensor, ...]:
        """Encode, (B, S), (B,)."""
        states, state_lens, _ = self.encoder(*self.input(samples, lens))
        if self.ctc is None:
            return states, state_lens
        return states, state_lens, self.ctc(states)


class FramesGraph(nn.Module):
    """Keys and values of the frames, once for a whole search."""

    def __init__(self, decoder: Decoder) -> None:
        super().__init__()
        self.decoder = decoder

    def forward(self, states: Tensor) -> Tensor:
        """Project, (B, T, D) -> (L, 2, B, H, T, d)."""
        pairs = [layer.cross.keys_and_values(states) for layer in self.decoder._layers()]
        return torch.stack([torch.stack(pair) for pair in pairs])


class DecoderGraph(nn.Module):
    """One step of a search, or a prefix tree, by the decoder and its output layer."""

    def __init__(self, decoder: Decoder, output: OutputLayer, *, leaves: bool) -> None:
        super().__init__()
        self.decoder = decoder
        self.output = ScoresGraph(output, leaves=leaves)

    def forward(
        self,
        tokens: Tensor,
        depths: Tensor,
        past: Tensor,
        own: Tensor,
        cross: Tensor,
        state_lens: Tensor,
    ) -> tuple[Tensor, Tensor]:
        """Read tokens after those that were read before."""
        decoder = self.decoder
        x = decoder._embed(tokens, self._positions(depths))
        bias = torch.zeros_like(past, dtype=x.dtype).masked_fill(~past, float("-inf"))[:, None]
        padding = Padding.of(state_lens, cross.shape[4], x.dtype)
        assert padding is not None
        new = []
        for number, layer in enumerate(decoder._layers()):
            x, pair = _read(
                layer, x, bias, own[number], (cross[number, 0], cross[number, 1]), padding.key_bias
            )
            new.append(pair)
        return self.output(decoder.final_norm(x)), torch.stack(new)

    def _positions(self, depths: Tensor) -> Tensor:
        """Return sines and cosines of places in a transcript, (B, K) -> (B, K, D)."""
        return torch.cat(digit_waves(depths, self.decoder.embedding.embedding_dim), dim=-1)


def _read(
    layer: DecoderLayer,
    x: Tensor,
    bias: Tensor,
    own: Tensor,
    frames: tuple[Tensor, Tensor],
    frames_bias: Tensor,
) -> tuple[Tensor, Tensor]:
    """Run a layer on new tokens; return it with their keys and values, (2, B, H, K, d)."""
    q, k, v = layer.own.project(layer.own_norm(x))
    keys, values = torch.cat((own[0], k), dim=2), torch.cat((own[1], v), dim=2)
    mixed = attend(q * layer.own.scale, keys, values, bias)
    out = layer._read_frames(x, layer.own.out(merge_heads(mixed)), frames, frames_bias)
    return out, torch.stack((k, v))


def longest_s(model: ASR) -> float:
    """Return how many seconds the encoder can hear at once; infinite for most."""
    encoder = model.encoder
    if isinstance(encoder, PretrainedEncoder) and encoder.network.max_frames is not None:
        return encoder.network.max_frames * encoder.input.frame_s
    return float("inf")


@dataclass(frozen=True)
class Graph:
    """A module to export, with inputs that show it, and which of their sizes are free."""

    module: nn.Module
    inputs: Mapping[str, Tensor]
    outputs: tuple[str, ...]
    free: Mapping[str, Mapping[int, str]]  # by input and axis


def make_graphs(model: ASR, *, leaves: bool = False) -> dict[str, Graph]:
    """Return the graphs of a model by name; `leaves`: log-probabilities also where a tree is."""
    batch, length, time = "batch", "length", "time"
    encoder = EncoderGraph(model, leaves=leaves).eval()
    num_samples = int(min(2.01, 0.8 * longest_s(model)) * model.encoder.input.sampling_rate)
    noise = torch.Generator().manual_seed(0)
    samples = 0.1 * torch.randn(3, num_samples, generator=noise)
    lens = torch.tensor([num_samples, num_samples - 999, num_samples // 2])
    graphs = {
        "encoder": Graph(
            encoder,
            {"samples": samples, "lens": lens},
            ("states", "state_lens", *(("ctc",) if model.ctc is not None else ())),
            {"samples": {0: batch, 1: length}, "lens": {0: batch}},
        )
    }
    decoder, output = model.decoder, model.output
    if decoder is None or output is None:
        return graphs
    first = decoder._layers()[0].own
    L, H, d = len(decoder.layers), first.heads, model.config.width // first.heads
    B, T, K, N = 3, 11, 4, 5
    graphs["frames"] = Graph(
        FramesGraph(decoder).eval(),
        {"states": torch.randn(B, T, model.config.width, generator=noise)},
        ("cross",),
        {"states": {0: batch, 1: time}},
    )
    beams, slots, both = "beams", "slots", "slots_and_beams"
    graphs["decoder"] = Graph(
        DecoderGraph(decoder, output, leaves=leaves).eval(),
        {
            "tokens": torch.zeros(B, K, dtype=torch.int64),
            "depths": torch.ones(B, K, dtype=torch.int64),
            "past": torch.ones(B, K, N + K, dtype=torch.bool),
            "own": torch.randn(L, 2, B, H, N, d, generator=noise),
            "cross": torch.randn(L, 2, B, H, T, d, generator=noise),
            "state_lens": torch.tensor([T, T - 2, T - 5]),
        },
        ("scores", "new"),
        {
            "tokens": {0: batch, 1: beams},
            "depths": {0: batch, 1: beams},
            "past": {0: batch, 1: beams, 2: both},
            "own": {2: batch, 4: slots},
            "cross": {2: batch, 4: time},
            "state_lens": {0: batch},
        },
    )
    return graphs
