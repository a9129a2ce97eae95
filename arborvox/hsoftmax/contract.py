"""What every output layer offers, so that nobody else has to know which one is there."""

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from arborvox.errors import ArborvoxError

if TYPE_CHECKING:
    from arborvox.hsoftmax.restricted import RestrictedLayer


class OutputLayer(nn.Module, ABC):
    """From hidden vectors to a distribution over V tokens; N rows, D width."""

    weight: nn.Parameter

    def __init__(self, hidden_size: int, num_tokens: int, label_smoothing: float) -> None:
        """Check and note the sizes."""
        super().__init__()
        if hidden_size < 1:
            raise ArborvoxError(f"The hidden size must be at least 1, but it is {hidden_size}.")
        if num_tokens < 2:
            raise ArborvoxError(f"A layer needs at least 2 tokens, but {num_tokens} were given.")
        if not 0.0 <= label_smoothing < 1.0:
            raise ArborvoxError(
                f"Label smoothing must be at least 0 and below 1, but it is {label_smoothing}."
            )
        self.hidden_size = hidden_size
        self.num_tokens = num_tokens
        self.label_smoothing = label_smoothing

    @abstractmethod
    def nll(self, h: Tensor, targets: Tensor) -> Tensor:
        """Return the smoothed -log P(target) of each row: (N, D), (N,) -> (N,)."""

    @abstractmethod
    def log_probs(self, h: Tensor) -> Tensor:
        """Return log P of every token: (N, D) -> (N, V); exact, and differentiable."""

    @abstractmethod
    def topk(self, h: Tensor, k: int) -> tuple[Tensor, Tensor]:
        """Return the k best log P, best first, and their tokens: (N, D) -> (N, k), (N, k).

        Exact, and without gradients. Of equal scores the lower token id comes first.
        """

    @abstractmethod
    def restricted(self, ids: NDArray[np.int64]) -> "RestrictedLayer":
        """Return the layer on condition that the token is one of rising `ids`; not trainable."""

    def held_parameters(self) -> list[nn.Parameter]:
        """Return the parameters that a weight decay of their own holds near 0."""
        return []

    def forward(self, h: Tensor, targets: Tensor) -> Tensor:
        """Return `nll`, so that wrappers such as DistributedDataParallel see the training step."""
        return self.nll(h, targets)

    def _check_hidden(self, h: Tensor) -> None:
        if h.dim() != 2 or h.shape[1] != self.hidden_size:
            raise ArborvoxError(
                f"Hidden vectors must have the shape (N, {self.hidden_size}), "
                f"but they have {tuple(h.shape)}."
            )

    def _check_targets(self, h: Tensor, targets: Tensor) -> None:
        """Refuse targets of another shape, or that are no whole numbers; ids are not looked at."""
        if targets.shape != h.shape[:1]:
            raise ArborvoxError(
                f"There must be one target for each of {h.shape[0]} rows, "
                f"but the targets have the shape {tuple(targets.shape)}."
            )
        if targets.is_floating_point() or targets.is_complex() or targets.dtype is torch.bool:
            raise ArborvoxError(f"Targets must be token ids, but they are {targets.dtype}.")

    def _check_k(self, k: int) -> None:
        if not 1 <= k <= self.num_tokens:
            raise ArborvoxError(f"k must lie in 1..{self.num_tokens}, but it is {k}.")
