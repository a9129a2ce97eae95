"""The tree as the kernels read it: plain arrays for the CPU, tensors that follow the layer."""

from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from arborvox.errors import ArborvoxError

if TYPE_CHECKING:
    from arborvox.tree import CodeTree

# A child that was pruned away. A pruned tree may have gates with one living side.
DEAD = int(np.iinfo(np.int32).min)


class SearchTree(NamedTuple):
    """A whole or pruned tree, inner nodes in level order, over rows of a weight."""

    node_rows: NDArray[np.int32]  # (M,) row of the weight that holds each gate
    left: NDArray[np.int32]  # (M,) c >= 0: inner node c; c < 0: leaf ~c; DEAD: nothing
    right: NDArray[np.int32]  # (M,)
    leaf_ids: NDArray[np.int64]  # (leaves,) token of each leaf, rising

    @property
    def num_leaves(self) -> int:
        """Number of living leaves."""
        return len(self.leaf_ids)


class TreeTables(nn.Module):
    """A tree's arrays and, as buffers outside the state dict, the same as tensors."""

    left: Tensor  # (M,) children, as in SearchTree
    right: Tensor
    node_rows: Tensor  # (M,)
    leaf_ids: Tensor  # (leaves,)
    path_offsets: Tensor  # (V + 1,) the paths as CSR, as in CodeTree.paths
    path_nodes: Tensor  # (L,)
    path_signs: Tensor  # (L,)
    leaves_on_left: Tensor  # (V - 1,)
    leaves_on_right: Tensor
    level_inner: Tensor  # places of inner nodes among the children of each level
    level_leaves: Tensor  # places of leaves among the children of each level
    leaf_places: Tensor  # (leaves,) where the walk by levels meets each leaf

    def __init__(self, search: SearchTree, tree: "CodeTree | None" = None) -> None:
        """Prepare a tree for search and, if the whole tree is given, for training."""
        super().__init__()
        self.search = search
        self.depth = 0
        self._keep("left", search.left)
        self._keep("right", search.right)
        self._keep("node_rows", search.node_rows)
        self._keep("leaf_ids", search.leaf_ids)
        self._prepare_levels()
        if tree is not None:
            self.paths = tree.paths()
            self.leaves_below = tree.leaves_below()
            self._keep("path_offsets", self.paths.offsets)
            self._keep("path_nodes", self.paths.nodes)
            self._keep("path_signs", self.paths.signs)
            self._keep("leaves_on_left", self.leaves_below[0])
            self._keep("leaves_on_right", self.leaves_below[1])

    @classmethod
    def of_tree(cls, tree: "CodeTree") -> "TreeTables":
        """Read a whole tree: gate n is row n of the weight, leaf t is token t."""
        rows = np.arange(tree.num_inner, dtype=np.int32)
        ids = np.arange(tree.num_leaves, dtype=np.int64)
        return cls(SearchTree(rows, tree.left, tree.right, ids), tree)

    @classmethod
    def of_pruned(cls, search: SearchTree) -> "TreeTables":
        """Read a pruned tree, which can be searched but not trained."""
        if not (len(search.node_rows) == len(search.left) == len(search.right) > 0):
            raise ArborvoxError("A pruned tree needs as many left as right children, at least one.")
        if np.any(np.diff(search.leaf_ids) <= 0):
            raise ArborvoxError("The tokens of a pruned tree's leaves must rise from leaf to leaf.")
        return cls(search)

    @property
    def num_leaves(self) -> int:
        """Number of leaves."""
        return self.search.num_leaves

    @property
    def num_inner(self) -> int:
        """Number of gates."""
        return len(self.search.left)

    @cached_property
    def is_whole(self) -> bool:
        """Say whether the gates are the weight's rows in order, so that none must be picked."""
        return bool(np.array_equal(self.search.node_rows, np.arange(self.num_inner)))

    def _keep(self, name: str, array: NDArray[np.generic]) -> None:
        self.register_buffer(name, torch.from_numpy(np.array(array)), persistent=False)

    def _prepare_levels(self) -> None:
        """Note where each level's children are inner nodes and where leaves."""
        inner_parts, leaf_parts = [], []
        met = []  # leaves in the order in which the levels meet them
        start, end = 0, 1
        while start < end:
            left, right = self.search.left[start:end], self.search.right[start:end]
            children = np.stack((left, right), axis=1).ravel()
            inner_parts.append(np.flatnonzero(children >= 0))
            leaf_parts.append(np.flatnonzero((children < 0) & (children != DEAD)))
            met.append(~children[leaf_parts[-1]])
            start, end = end, end + len(inner_parts[-1])
        self.depth = len(inner_parts)
        self.inner_per_level = [len(part) for part in inner_parts]
        self.leaves_per_level = [len(part) for part in leaf_parts]
        self._keep("level_inner", np.concatenate(inner_parts))
        self._keep("level_leaves", np.concatenate(leaf_parts))
        self._keep("leaf_places", np.argsort(np.concatenate(met)))
