"""The encoder: front end, then Conformer or Transformer layers with relative positions."""

from typing import cast

from torch import Tensor, nn

from arborvox.config import ModelConfig
from arborvox.model.attention import RelativeSelfAttention, sinusoids
from arborvox.model.dropout import Dropout
from arborvox.model.layers import ConvolutionModule, FeedForward, Padding
from arborvox.model.subsampling import Subsampling

Waves = tuple[Tensor, Tensor]


class ConformerLayer(nn.Module):
    """Half a feed-forward step, attention, convolution, and the other half."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        D = config.width
        self.norms = nn.ModuleList(nn.LayerNorm(D) for _ in range(4))
        self.first = FeedForward(D, config.feed_forward, config.dropout)
        self.attention = RelativeSelfAttention(D, config.heads)
        self.convolution = ConvolutionModule(D, config.kernel)
        self.second = FeedForward(D, config.feed_forward, config.dropout)
        self.final_norm = nn.LayerNorm(D)
        self.dropout = Dropout(config.dropout)

    def forward(self, x: Tensor, waves: Waves, padding: Padding | None) -> Tensor:
        """Transform frames, (B, T, D) -> (B, T, D)."""
        bias = None if padding is None else padding.key_bias
        add = self.dropout.add_and_normalize
        before_first, before_attention, before_convolution, before_second = self._norms()
        x, normed = add(x, self.first(before_first(x)), before_attention, scale=0.5)
        x, normed = add(x, self.attention(normed, waves, bias), before_convolution)
        x, normed = add(x, self.convolution(normed, padding), before_second)
        return add(x, self.second(normed), self.final_norm, scale=0.5)[1]

    def _norms(self) -> list[nn.LayerNorm]:
        return cast(list[nn.LayerNorm], list(self.norms))


class TransformerLayer(nn.Module):
    """Attention, then one feed-forward step."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        D = config.width
        self.attention_norm = nn.LayerNorm(D)
        self.attention = RelativeSelfAttention(D, config.heads)
        self.feed_forward_norm = nn.LayerNorm(D)
        self.feed_forward = FeedForward(D, config.feed_forward, config.dropout)
        self.dropout = Dropout(config.dropout)

    def forward(self, x: Tensor, waves: Waves, padding: Padding | None) -> Tensor:
        """Transform frames, (B, T, D) -> (B, T, D)."""
        bias = None if padding is None else padding.key_bias
        x, normed = self.dropout.add_and_normalize(
            x, self.attention(self.attention_norm(x), waves, bias), self.feed_forward_norm
        )
        return self.dropout.add_to(x, self.feed_forward(normed))


ENCODER_LAYERS = {"conformer": ConformerLayer, "transformer": TransformerLayer}


class Encoder(nn.Module):
    """Normalised log-mel frames in, one vector for every four of them out."""

    def __init__(self, config: ModelConfig, num_mels: int) -> None:
        super().__init__()
        self.head_size = config.width // config.heads
        self.subsampling = Subsampling(num_mels, config.channels, config.width)
        self.dropout = Dropout(config.dropout)
        make_layer = ENCODER_LAYERS[config.encoder]
        self.layers = nn.ModuleList(make_layer(config) for _ in range(config.encoder_layers))
        self.final_norm = nn.LayerNorm(config.width)
        self.middle = len(self.layers) // 2 if config.middle_ctc > 0 else None

    def forward(self, features: Tensor, lens: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
        """Encode, (B, T, M), (B,) -> (B, T', D), (B,); frames beyond `lens` must be zero.

        The third are the states in the middle, where CTC looks at them as well.
        """
        x, out_lens = self.subsampling(features, lens)
        x = self.dropout(x)
        waves = sinusoids(x.shape[1], self.head_size, like=x)
        padding = Padding.of(out_lens, x.shape[1], x.dtype)
        middle = None
        for number, layer in enumerate(self.layers, start=1):
            x = layer(x, waves, padding)
            if number == self.middle:
                middle = self.final_norm(x)
        return self.final_norm(x), out_lens, middle
