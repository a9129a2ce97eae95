"""The Transformer: attention, then a feed-forward step, with relative positions."""

from torch import Tensor, nn

from arborvox.config import ModelConfig
from arborvox.model.attention import RelativeSelfAttention
from arborvox.model.dropout import Dropout
from arborvox.model.encoders.log_mel import LogMelEncoder
from arborvox.model.encoders.stack import Waves
from arborvox.model.layers import FeedForward, Padding


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


class Transformer(LogMelEncoder):
    """Transformer layers over log-mel frames."""

    make_layer = TransformerLayer
