"""The same network as one would first write it: the yardstick of benchmarks/training.py.

Every class takes the place of one of ours, has the same weights and computes the same function.
"""

from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from arborvox.model.asr import ASR
from arborvox.model.attention import RelativeSelfAttention, merge_heads, split_heads
from arborvox.model.ctc import CTC
from arborvox.model.dropout import Dropout
from arborvox.model.encoders.stack import Waves
from arborvox.model.encoders.subsampling import Subsampling, subsampled_lens
from arborvox.model.layers import ConvolutionModule, Padding


class PlainDropout(Dropout):
    """Torch's dropout, and the residual sum as a step of its own."""

    def forward(self, x: Tensor) -> Tensor:
        """Drop from a tensor of any shape."""
        return functional.dropout(x, self.rate, self.training)

    def add_to(self, residual: Tensor, x: Tensor, scale: float = 1.0) -> Tensor:
        """Return residual + scale * dropout(x)."""
        return residual + scale * self.forward(x)


class PlainSubsampling(Subsampling):
    """Two convolutions, channels first."""

    def forward(self, features: Tensor, lens: Tensor) -> tuple[Tensor, Tensor]:
        """Subsample, (B, T, M), (B,) -> (B, T', D), (B,)."""
        x = torch.relu(self.first(features.unsqueeze(1)))
        x = torch.relu(self.second(x))  # (B, C, T', M')
        return self.project(x.permute(0, 2, 3, 1).flatten(2)), subsampled_lens(lens)


class PlainConvolutionModule(ConvolutionModule):
    """The depthwise convolution in one dimension, between two transpositions."""

    def forward(self, x: Tensor, padding: Padding | None) -> Tensor:
        """Mix neighboring frames, (B, T, D) -> (B, T, D)."""
        x = functional.glu(self.expand(x), dim=-1)
        if padding is not None:
            x = x.masked_fill(padding.frames, 0)
        kernel = self.depthwise.weight.squeeze(2)  # (D, 1, K)
        x = functional.conv1d(
            x.transpose(1, 2),
            kernel,
            self.depthwise.bias,
            padding=kernel.shape[-1] // 2,
            groups=len(kernel),
        )
        return cast(Tensor, self.contract(functional.silu(self.norm(x.transpose(1, 2)))))


class PlainRelativeAttention(RelativeSelfAttention):
    """Relative positions by a table over all distances, its rows shifted into place."""

    def forward(self, x: Tensor, waves: Waves, bias: Tensor | None) -> Tensor:
        """Mix frames, (B, T, D) -> (B, T, D)."""
        q, k, v = (split_heads(part, self.heads) for part in self.qkv(x).chunk(3, dim=-1))
        sine, cosine = waves  # of the distances 0..T-1; sines of the others have the other sign
        far_to_near = torch.cat((sine, cosine), dim=-1).flip(0)
        near_to_far = torch.cat((-sine, cosine), dim=-1)[1:]
        table = torch.cat((far_to_near, near_to_far))  # (2T - 1, d), distances T-1 .. 1-T
        content = (q + self.content_bias) @ k.transpose(-2, -1)
        place = (q + self.position_bias) @ (table @ self.position.transpose(1, 2)).transpose(1, 2)
        scores = (content + _shift(place)) * self.scale
        if bias is not None:
            scores = scores + bias
        return cast(Tensor, self.out(merge_heads(torch.softmax(scores, dim=-1) @ v)))


class PlainCTC(CTC):
    """The branch with torch's own loss."""

    def forward(
        self, encoded: Tensor, encoded_lens: Tensor, tokens: Tensor, token_lens: Tensor
    ) -> Tensor:
        """Return -log P(tokens) of each utterance, (B,); 0 where the frames cannot hold them."""
        return functional.ctc_loss(
            self.log_probs(encoded).transpose(0, 1),
            tokens.clamp(min=0),
            encoded_lens,
            token_lens,
            blank=self.blank,
            reduction="none",
            zero_infinity=True,
        )


def _shift(scores: Tensor) -> Tensor:
    """Move row i left by T-1-i: from distances to key positions, (.., T, 2T - 1) -> (.., T, T)."""
    B, H, T, W = scores.shape
    flat = functional.pad(scores, (1, 0)).view(B, H, W + 1, T)
    return flat[:, :, 1:].reshape(B, H, T, W)[..., :T]


PLAIN: dict[type[nn.Module], type[nn.Module]] = {
    Dropout: PlainDropout,
    Subsampling: PlainSubsampling,
    ConvolutionModule: PlainConvolutionModule,
    RelativeSelfAttention: PlainRelativeAttention,
    CTC: PlainCTC,
}


def make_plain(model: ASR) -> ASR:
    """Let the parts of a network, weights untouched, compute in the plain way."""
    for module in model.modules():
        module.__class__ = PLAIN.get(type(module), type(module))
    return model
