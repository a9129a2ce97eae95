"""The Conformer: attention and convolution between two halves of a feed-forward step."""

from typing import cast

from torch import Tensor, nn

from arborvox.config import ModelConfig
from arborvox.model.attention import RelativeSelfAttention
from arborvox.model.dropout import Dropout
from arborvox.model.encoders.log_mel import LogMelEncoder
from arborvox.model.encoders.stack import Waves
from arborvox.model.layers import ConvolutionModule, FeedForward, Padding


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


class Conformer(LogMelEncoder):
    """Conformer layers over log-mel frames."""

    make_layer = ConformerLayer
