"""Output layers over some of the tokens: an inventory of a language's own sounds or letters.

All give the full layer's distribution on condition that the token is in the inventory:
P(token) / P(inventory). So scores of different moments stay comparable in a search.
"""

from abc import abstractmethod
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from arborvox.errors import ArborvoxError
from arborvox.hsoftmax.contract import OutputLayer
from arborvox.hsoftmax.reference import sort_scores
from arborvox.hsoftmax.targets import check_target_ids


class RestrictedLayer(OutputLayer):
    """The contract over the same V token ids, of which only the living ones have a probability."""

    living: Tensor  # (n,) rising token ids

    def __init__(self, layer: OutputLayer, ids: NDArray[np.int64]) -> None:
        super().__init__(layer.hidden_size, layer.num_tokens, label_smoothing=0.0)
        self.register_buffer("living", torch.from_numpy(ids), persistent=False)
        self.num_living = len(ids)

    @abstractmethod
    def living_scores(self, h: Tensor) -> Tensor:
        """Return scores of the living tokens, up to a constant for each row, (N, D) -> (N, n)."""

    def nll(self, h: Tensor, targets: Tensor) -> Tensor:
        """Return -log P(target) of each row, infinite outside the inventory, (N, D), (N,)."""
        self._check_targets(h, targets)
        check_target_ids(targets, self.num_tokens)
        places = torch.searchsorted(self.living, targets.long().contiguous())
        places.clamp_(max=self.num_living - 1)
        found = self.living_log_probs(h).gather(1, places[:, None]).squeeze(1)
        return -found.masked_fill(self.living[places] != targets, -torch.inf)

    def log_probs(self, h: Tensor) -> Tensor:
        """Return log P of every token, -inf outside the inventory: (N, D) -> (N, V)."""
        scores = self.living_log_probs(h)
        full = scores.new_full((h.shape[0], self.num_tokens), -torch.inf)
        return full.index_copy(1, self.living, scores)

    @torch.no_grad()
    def topk(self, h: Tensor, k: int) -> tuple[Tensor, Tensor]:
        """Return the k best log P, best first, and their tokens: (N, D) -> (N, k), (N, k)."""
        self._check_k(k)
        return sort_scores(self.living_log_probs(h), self.living, k)

    def living_log_probs(self, h: Tensor) -> Tensor:
        """Return log P of the living tokens only, (N, D) -> (N, n)."""
        self._check_hidden(h)
        return functional.log_softmax(self.living_scores(h), dim=1)

    def restricted(self, ids: NDArray[np.int64]) -> "RestrictedLayer":
        """Refuse: which tokens live was decided already."""
        raise ArborvoxError("This layer is restricted already; restrict the whole layer instead.")

    def _check_k(self, k: int) -> None:
        if not 1 <= k <= self.num_living:
            raise ArborvoxError(f"k must lie in 1..{self.num_living}, but it is {k}.")


def restrict(layer: OutputLayer, ids: Sequence[int]) -> RestrictedLayer:
    """Return the layer conditioned on the token being one of `ids`; it cannot be trained."""
    living = np.unique(np.array(list(ids), np.int64))
    if len(living) < 2:
        raise ArborvoxError("An inventory needs at least 2 tokens of the vocabulary.")
    if living[0] < 0 or living[-1] >= layer.num_tokens:
        raise ArborvoxError(f"An inventory's tokens must lie in 0..{layer.num_tokens - 1}.")
    return layer.restricted(living)


def choices(layer: OutputLayer) -> NDArray[np.int64]:
    """Return the tokens that a layer can give, rising."""
    if isinstance(layer, RestrictedLayer):
        return layer.living.cpu().numpy()
    return np.arange(layer.num_tokens)


def choice_log_probs(layer: OutputLayer, h: Tensor) -> Tensor:
    """Return log P of the tokens that a layer can give, (N, D) -> (N, choices)."""
    return layer.living_log_probs(h) if isinstance(layer, RestrictedLayer) else layer.log_probs(h)
