"""Output layers over some of the tokens: an inventory of a language's own sounds or letters.

Both give the full layer's distribution on condition that the token is in the inventory:
P(token) / P(inventory). So scores of different moments stay comparable in a search.
"""

from abc import abstractmethod
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from arborvox.errors import ArborvoxError
from arborvox.hsoftmax.contract import OutputLayer
from arborvox.hsoftmax.cpu.inventory import Turns, best_living
from arborvox.hsoftmax.dispatch import choose
from arborvox.hsoftmax.hierarchical import HierarchicalSoftmax
from arborvox.hsoftmax.reference import sort_scores
from arborvox.hsoftmax.softmax import Softmax
from arborvox.hsoftmax.tables import DEAD, SearchTree, TreeTables
from arborvox.hsoftmax.targets import check_target_ids
from arborvox.kernels.threads import run_split
from arborvox.tree import CodeTree

# Fewer rows than this are not worth waking a thread for.
ROWS_PER_THREAD = 64


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

    def _check_k(self, k: int) -> None:
        if not 1 <= k <= self.num_living:
            raise ArborvoxError(f"k must lie in 1..{self.num_living}, but it is {k}.")


class RestrictedSoftmax(RestrictedLayer):
    """A softmax over the rows of the living tokens."""

    def __init__(self, layer: Softmax, ids: NDArray[np.int64]) -> None:
        super().__init__(layer, ids)
        self.weight = nn.Parameter(layer.weight.detach()[self.living], requires_grad=False)
        self.bias = nn.Parameter(layer.bias.detach()[self.living], requires_grad=False)

    def living_scores(self, h: Tensor) -> Tensor:
        """Return logits."""
        return functional.linear(h.to(self.weight.dtype), self.weight, self.bias)


class RestrictedHierarchicalSoftmax(RestrictedLayer):
    """H-Softmax on the tree without its dead branches; only living gates are ever computed.

    A gate with one living side hands all its mass to that side, and where both live they share by
    the living mass below them. Both follow from dividing by the mass of all living leaves.
    """

    def __init__(self, layer: HierarchicalSoftmax, ids: NDArray[np.int64]) -> None:
        super().__init__(layer, ids)
        self.kernel = layer.kernel
        pruned = prune(layer.tree, ids)
        rows = torch.from_numpy(pruned.node_rows).long()
        self.weight = nn.Parameter(layer.weight.detach()[rows], requires_grad=False)
        gates = np.arange(len(rows), dtype=np.int32)  # of the weight that was picked
        self.tables = TreeTables.of_pruned(pruned._replace(node_rows=gates))
        self._turns = Turns.of_tree(pruned)

    def topk(self, h: Tensor, k: int) -> tuple[Tensor, Tensor]:
        """Return the k best log P, best first, and their tokens: (N, D) -> (N, k), (N, k)."""
        # Not self.weight: a module looks that up in 0.5 us, and a whole search takes a few.
        weight = self._parameters["weight"]
        assert weight is not None
        if not h.is_cpu or self.kernel == "reference" or weight.dtype is not torch.float32:
            return super().topk(h, k)
        self._check_hidden(h)
        self._check_k(k)
        if h.dtype is not torch.float32:
            h = h.float()
        if not h.is_contiguous():
            h = h.contiguous()
        N, D = h.shape
        values, ids = np.empty((N, k), np.float32), np.empty((N, k), np.int64)
        what = (h.data_ptr(), weight.data_ptr(), values, ids, D)
        if N < 2 * ROWS_PER_THREAD:  # a few rows take microseconds, and so does splitting them
            best_living(*what, 0, N, *self._turns)
        else:
            run_split(
                lambda first, last: best_living(*what, first, last, *self._turns),
                N,
                ROWS_PER_THREAD,
            )
        return torch.from_numpy(values), torch.from_numpy(ids)

    def living_scores(self, h: Tensor) -> Tensor:
        """Return the full layer's log-probabilities of the living leaves."""
        h = h.to(self.weight.dtype)
        scores: Tensor = choose(self.kernel, h).log_probs(h, self.weight, self.tables)
        return scores


def restrict(layer: OutputLayer, ids: Sequence[int]) -> RestrictedLayer:
    """Return the layer conditioned on the token being one of `ids`; it cannot be trained."""
    living = np.unique(np.array(list(ids), np.int64))
    if len(living) < 2:
        raise ArborvoxError("An inventory needs at least 2 tokens of the vocabulary.")
    if living[0] < 0 or living[-1] >= layer.num_tokens:
        raise ArborvoxError(f"An inventory's tokens must lie in 0..{layer.num_tokens - 1}.")
    if isinstance(layer, HierarchicalSoftmax):
        return RestrictedHierarchicalSoftmax(layer, living)
    assert isinstance(layer, Softmax)
    return RestrictedSoftmax(layer, living)


def choices(layer: OutputLayer) -> NDArray[np.int64]:
    """Return the tokens that a layer can give, rising."""
    if isinstance(layer, RestrictedLayer):
        return layer.living.cpu().numpy()
    return np.arange(layer.num_tokens)


def choice_log_probs(layer: OutputLayer, h: Tensor) -> Tensor:
    """Return log P of the tokens that a layer can give, (N, D) -> (N, choices)."""
    return layer.living_log_probs(h) if isinstance(layer, RestrictedLayer) else layer.log_probs(h)


def prune(tree: CodeTree, ids: NDArray[np.int64]) -> SearchTree:
    """Return what is left of a tree when only the leaves of rising `ids` live."""
    alive = np.zeros(tree.num_leaves, np.int64)
    alive[ids] = 1
    on_left, on_right = tree.sums_below(alive)
    kept = np.flatnonzero(on_left + on_right)  # still in level order
    new_node = np.cumsum(on_left + on_right > 0) - 1
    new_leaf = np.cumsum(alive) - 1
    children = []
    for old, below in ((tree.left[kept], on_left[kept]), (tree.right[kept], on_right[kept])):
        new = np.where(old >= 0, new_node[np.maximum(old, 0)], ~new_leaf[~np.minimum(old, -1)])
        children.append(np.where(below > 0, new, DEAD).astype(np.int32))
    return SearchTree(kept.astype(np.int32), children[0], children[1], ids)
