"""The attention decoder: whole transcripts in training, one token at a time in search."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from arborvox.config import ModelConfig
from arborvox.model.attention import (
    CausalSelfAttention,
    CrossAttention,
    attend,
    merge_heads,
    sinusoids,
)
from arborvox.model.dropout import Dropout
from arborvox.model.layers import FeedForward, Padding

# Slots for so many tokens of each beam stand ready at the start of a search.
FIRST_SLOTS = 16
# Products see a multiple of so many slots: they have few sizes then, and a new one costs time.
SLOTS_STEP = 32


@dataclass
class DecoderCache:
    """What a search keeps between two tokens, for B utterances with K beams each.

    Every token that any beam ever wrote has a slot, and a beam knows which slots are its past. So
    beams can be reordered without moving keys and values, and share the past that they have in
    common.
    """

    cross: Sequence[tuple[Tensor, Tensor]]  # by layer: keys and values of the frames, (B, H, T, d)
    cross_bias: Tensor | None  # (B, 1, 1, T)
    own: Tensor  # (L, 2, B, H, capacity, d): keys and values of the tokens written so far
    past: Tensor  # (B, K, slots in use) 0 at the slots of a beam's own past, -inf at all others
    positions: Tensor  # (max_tokens, D)
    length: int = 0

    def reorder(self, parents: Tensor) -> None:
        """Let beam k of utterance b go on from beam parents[b, k], (B, K'); K may change."""
        utterances = torch.arange(parents.shape[0], device=parents.device)[:, None]
        self.past = self.past[utterances, parents]

    def keep(self, utterances: Tensor) -> None:
        """Go on with these utterances only, (B',)."""
        self.cross = [(keys[utterances], values[utterances]) for keys, values in self.cross]
        if self.cross_bias is not None:
            self.cross_bias = self.cross_bias[utterances]
        self.own, self.past = self.own[:, :, utterances], self.past[utterances]

    @property
    def visible(self) -> Tensor:
        """The past with some slots more that nobody sees, (B, K, slots)."""
        used = self.past.shape[2]
        slots = min(-(-used // SLOTS_STEP) * SLOTS_STEP, self.own.shape[4])
        return functional.pad(self.past, (0, slots - used), value=float("-inf"))

    def make_room(self, num_beams: int) -> None:
        """Free or add slots, so that each beam can write one more token."""
        if self.past.shape[2] + num_beams <= self.own.shape[4]:
            return
        alive = (self.past == 0).any(dim=1)  # (B, slots)
        most = int(alive.sum(dim=1).max())
        slots = alive.int().argsort(dim=1, descending=True, stable=True)[:, :most]
        L, two, B, H, capacity, d = self.own.shape
        used = self.own.gather(4, slots.view(1, 1, B, 1, most, 1).expand(L, two, B, H, most, d))
        # At least half of the slots are free from now on, so that moving them stays rare.
        capacity = max(capacity, 2 * (most + num_beams))
        self.own = self.own.new_zeros(L, two, B, H, capacity, d)
        self.own[..., :most, :] = used
        self.past = self.past.gather(2, slots[:, None, :].expand(-1, self.past.shape[1], -1))


class DecoderLayer(nn.Module):
    """Self-attention, attention to the frames, feed-forward; a norm before each."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        D = config.width
        self.own_norm = nn.LayerNorm(D)
        self.own = CausalSelfAttention(D, config.heads)
        self.cross_norm = nn.LayerNorm(D)
        self.cross = CrossAttention(D, config.heads)
        self.feed_forward_norm = nn.LayerNorm(D)
        self.feed_forward = FeedForward(D, config.feed_forward, config.dropout)
        self.dropout = Dropout(config.dropout)

    def forward(
        self, x: Tensor, own_bias: Tensor, frames: tuple[Tensor, Tensor], bias: Tensor | None
    ) -> Tensor:
        """Transform whole transcripts, (B, U, D) -> (B, U, D)."""
        mixed = self.own(self.own_norm(x), own_bias)
        return self._read_frames(x, mixed, frames, bias)

    def step(
        self,
        x: Tensor,
        own: Tensor,
        past: Tensor,
        new: slice,
        frames: tuple[Tensor, Tensor],
        bias: Tensor | None,
    ) -> Tensor:
        """Transform the newest token of each beam, (B, K, D) -> (B, K, D), and note it in `own`."""
        q, k, v = self.own.project(self.own_norm(x))  # (B, H, K, d)
        keys, values = own  # (B, H, capacity, d) each
        seen = slice(past.shape[-1])
        keys[:, :, new], values[:, :, new] = k, v
        # Keys without gaps: to turn them around, product after product, takes longer than to copy.
        mixed = attend(q * self.own.scale, keys[:, :, seen].contiguous(), values[:, :, seen], past)
        # The beams are query positions over the frames' keys and values: nothing is repeated.
        return self._read_frames(x, self.own.out(merge_heads(mixed)), frames, bias)

    def _read_frames(
        self, x: Tensor, mixed: Tensor, frames: tuple[Tensor, Tensor], bias: Tensor | None
    ) -> Tensor:
        """Add what self-attention has mixed, then read the frames, then each token on its own."""
        add = self.dropout.add_and_normalize
        x, normed = add(x, mixed, self.cross_norm)
        x, normed = add(x, self.cross(normed, *frames, bias), self.feed_forward_norm)
        return self.dropout.add_to(x, self.feed_forward(normed))


class Decoder(nn.Module):
    """A Transformer over the tokens written so far and the encoded frames."""

    def __init__(self, config: ModelConfig, num_tokens: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(num_tokens, config.width)
        nn.init.normal_(self.embedding.weight, std=config.width**-0.5)
        self.scale = math.sqrt(config.width)
        self.dropout = Dropout(config.dropout)
        self.layers = nn.ModuleList(DecoderLayer(config) for _ in range(config.decoder_layers))
        self.final_norm = nn.LayerNorm(config.width)

    def forward(self, encoded: Tensor, encoded_lens: Tensor, inputs: Tensor) -> Tensor:
        """Return the state that predicts the token after each input, (B, U) -> (B, U, D)."""
        U = inputs.shape[1]
        future = torch.full((U, U), float("-inf"), dtype=encoded.dtype, device=encoded.device)
        return self._read(
            encoded, encoded_lens, inputs, self._positions(U, encoded), future.triu(1)
        )

    def read_tree(
        self, encoded: Tensor, encoded_lens: Tensor, tokens: Tensor, depths: Tensor, past: Tensor
    ) -> Tensor:
        """Return the state that predicts what follows each node of a prefix tree, (B, Q, D).

        Nodes have a token and a depth, (B, Q); past (B, Q, Q) is true at a node's ancestors and at
        itself. Transcripts that begin alike are read once as far as they agree.
        """
        positions = self._positions(int(depths.max()) + 1, encoded)[depths]  # (B, Q, D)
        bias = torch.zeros(past.shape, dtype=encoded.dtype, device=encoded.device)
        bias = bias.masked_fill(~past, float("-inf"))[:, None]  # (B, 1, Q, Q)
        return self._read(encoded, encoded_lens, tokens, positions, bias)

    def start(
        self, encoded: Tensor, encoded_lens: Tensor, num_beams: int, max_tokens: int
    ) -> DecoderCache:
        """Return the cache of a search that has written nothing yet."""
        padding = Padding.of(encoded_lens, encoded.shape[1], encoded.dtype)
        # Laid out head by head once, or every step's products would do it again.
        cross = [
            (keys.contiguous(), values.contiguous())
            for keys, values in (layer.cross.keys_and_values(encoded) for layer in self._layers())
        ]
        keys = cross[0][0]
        B, H, _, d = keys.shape
        return DecoderCache(
            cross=cross,
            cross_bias=None if padding is None else padding.key_bias,
            own=keys.new_zeros(len(self.layers), 2, B, H, FIRST_SLOTS * num_beams, d),
            past=keys.new_zeros(B, 1, 0),
            positions=self._positions(max_tokens, keys),
        )

    def step(self, tokens: Tensor, cache: DecoderCache) -> Tensor:
        """Read the newest token of each beam, (B, K); return what predicts the next, (B, K, D)."""
        B, K = tokens.shape
        cache.make_room(K)
        itself = cache.past.new_full((K, K), float("-inf")).fill_diagonal_(0.0)
        cache.past = torch.cat((cache.past.expand(B, K, -1), itself.expand(B, K, K)), dim=2)
        x = self._embed(tokens, cache.positions[cache.length]).to(cache.own.dtype)
        visible, new = cache.visible[:, None], slice(cache.past.shape[2] - K, cache.past.shape[2])
        for layer, frames, own in zip(self._layers(), cache.cross, cache.own, strict=True):
            x = layer.step(x, own, visible, new, frames, cache.cross_bias)
        cache.length += 1
        out: Tensor = self.final_norm(x)
        return out

    def _read(
        self,
        encoded: Tensor,
        encoded_lens: Tensor,
        tokens: Tensor,
        positions: Tensor,
        own_bias: Tensor,
    ) -> Tensor:
        x = self._embed(tokens, positions).to(encoded.dtype)
        padding = Padding.of(encoded_lens, encoded.shape[1], x.dtype)
        bias = None if padding is None else padding.key_bias
        for layer in self._layers():
            x = layer(x, own_bias, layer.cross.keys_and_values(encoded), bias)
        out: Tensor = self.final_norm(x)
        return out

    def _layers(self) -> list[DecoderLayer]:
        return cast(list[DecoderLayer], list(self.layers))

    def _embed(self, tokens: Tensor, positions: Tensor) -> Tensor:
        embedded: Tensor = self.dropout(self.embedding(tokens) * self.scale + positions)
        return embedded

    def _positions(self, count: int, like: Tensor) -> Tensor:
        return torch.cat(sinusoids(count, self.embedding.embedding_dim, like), dim=-1)  # (U, D)
