"""The usual output layer: one row of the weight for each token."""

import math

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from arborvox.hsoftmax.contract import OutputLayer
from arborvox.hsoftmax.restricted import RestrictedLayer
from arborvox.hsoftmax.targets import check_target_ids


class Softmax(OutputLayer):
    """A linear map and a softmax over V tokens, smoothed over all of them."""

    def __init__(self, hidden_size: int, num_tokens: int, *, label_smoothing: float = 0.0) -> None:
        """Make a layer with fresh weights, drawn as `nn.Linear` draws them."""
        super().__init__(hidden_size, num_tokens, label_smoothing)
        self.weight = nn.Parameter(torch.empty(num_tokens, hidden_size))
        self.bias = nn.Parameter(torch.empty(num_tokens))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the weights anew."""
        bound = 1.0 / math.sqrt(self.hidden_size)
        nn.init.uniform_(self.weight, -bound, bound)
        nn.init.uniform_(self.bias, -bound, bound)

    def nll(self, h: Tensor, targets: Tensor) -> Tensor:
        """Return the smoothed -log P(target) of each row: (N, D), (N,) -> (N,)."""
        self._check_hidden(h)
        self._check_targets(h, targets)
        check_target_ids(targets, self.num_tokens)
        return functional.cross_entropy(
            self._logits(h), targets.long(), reduction="none", label_smoothing=self.label_smoothing
        )

    def log_probs(self, h: Tensor) -> Tensor:
        """Return log P of every token: (N, D) -> (N, V)."""
        self._check_hidden(h)
        return functional.log_softmax(self._logits(h), dim=1)

    @torch.no_grad()
    def topk(self, h: Tensor, k: int) -> tuple[Tensor, Tensor]:
        """Return the k best log P, best first, and their tokens: (N, D) -> (N, k), (N, k)."""
        self._check_hidden(h)
        self._check_k(k)
        scores = self.log_probs(h)
        values, ids = scores.topk(min(k + 1, self.num_tokens), dim=1)
        # torch.topk leaves the order of ties open; the rows that have some are sorted whole.
        tied = (values[:, 1:] == values[:, :-1]).any(dim=1).nonzero().squeeze(1)
        values, ids = values[:, :k], ids[:, :k]
        if len(tied):
            ordered, places = scores[tied].sort(dim=1, descending=True, stable=True)
            values[tied], ids[tied] = ordered[:, :k], places[:, :k]
        return values, ids

    def restricted(self, ids: NDArray[np.int64]) -> "RestrictedSoftmax":
        """Return the layer on condition that the token is one of rising `ids`."""
        return RestrictedSoftmax(self, ids)

    def _logits(self, h: Tensor) -> Tensor:
        """Scores before normalizing, (N, V), in float32 or wider whatever made them."""
        if not torch.is_autocast_enabled(h.device.type):  # autocast chooses the type by itself
            h = h.to(self.weight.dtype)
        logits = functional.linear(h, self.weight, self.bias)
        return logits.float() if logits.dtype in (torch.bfloat16, torch.float16) else logits

    def extra_repr(self) -> str:
        """Name the sizes."""
        return f"{self.hidden_size}, {self.num_tokens}, label_smoothing={self.label_smoothing}"


class RestrictedSoftmax(RestrictedLayer):
    """A softmax over the rows of the living tokens."""

    def __init__(self, layer: Softmax, ids: NDArray[np.int64]) -> None:
        super().__init__(layer, ids)
        self.weight = nn.Parameter(layer.weight.detach()[self.living], requires_grad=False)
        self.bias = nn.Parameter(layer.bias.detach()[self.living], requires_grad=False)

    def living_scores(self, h: Tensor) -> Tensor:
        """Return logits."""
        return functional.linear(h.to(self.weight.dtype), self.weight, self.bias)
