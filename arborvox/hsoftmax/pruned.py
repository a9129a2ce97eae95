"""H-Softmax over an inventory: the tree without the branches that lead to no living token."""

from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from arborvox.hsoftmax.cpu.inventory import Turns
from arborvox.hsoftmax.dispatch import choose
from arborvox.hsoftmax.restricted import RestrictedLayer
from arborvox.hsoftmax.tables import DEAD, SearchTree, TreeTables
from arborvox.tree import CodeTree

if TYPE_CHECKING:
    from arborvox.hsoftmax.hierarchical import HierarchicalSoftmax


class RestrictedHierarchicalSoftmax(RestrictedLayer):
    """H-Softmax on the tree without its dead branches; only living gates are ever computed.

    A gate with one living side hands all its mass to that side, and where both live they share by
    the living mass below them. Both follow from dividing by the mass of all living leaves.
    """

    def __init__(self, layer: "HierarchicalSoftmax", ids: NDArray[np.int64]) -> None:
        super().__init__(layer, ids)
        self.kernel = layer.kernel
        pruned = prune(layer.tree, ids)
        rows = torch.from_numpy(pruned.node_rows).long()
        self.weight = nn.Parameter(layer.gate_weight().detach()[rows], requires_grad=False)
        gates = np.arange(len(rows), dtype=np.int32)  # of the weight that was picked
        self.tables = TreeTables.of_pruned(pruned._replace(node_rows=gates))
        self._turns = Turns.of_tree(pruned)

    def topk(self, h: Tensor, k: int) -> tuple[Tensor, Tensor]:
        """Return the k best log P, best first, and their tokens: (N, D) -> (N, k), (N, k)."""
        # Not self.weight: a module looks that up in 0.5 us, and a whole search takes a few.
        weight = self._parameters["weight"]
        assert weight is not None
        search = getattr(choose(self.kernel, h), "topk_living", None)
        if search is None or weight.dtype is not torch.float32:
            return super().topk(h, k)
        self._check_hidden(h)
        self._check_k(k)
        best: tuple[Tensor, Tensor] = search(h, weight, self._turns, k)
        return best

    def living_scores(self, h: Tensor) -> Tensor:
        """Return the full layer's log-probabilities of the living leaves."""
        h = h.to(self.weight.dtype)
        scores: Tensor = choose(self.kernel, h).log_probs(h, self.weight, self.tables)
        return scores


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
