"""The paper's output layer: a token is a path of left/right decisions in a tree."""

import math

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from arborvox.config.choices import Smoothing, values_of
from arborvox.errors import ArborvoxError
from arborvox.hsoftmax.beam import Beam, PathBlocks, encode_blocks, topk_beam
from arborvox.hsoftmax.contract import OutputLayer
from arborvox.hsoftmax.dispatch import check_kernel, choose
from arborvox.hsoftmax.pruned import RestrictedHierarchicalSoftmax, prune
from arborvox.hsoftmax.tables import TreeTables
from arborvox.tree import CodeTree

SMOOTHING_KINDS = values_of(Smoothing)


class HierarchicalSoftmax(OutputLayer):
    """P(token) = product over its path of sigma(+-g), gates g = W h, a row for each inner node.

    Left is sigma(g), right is sigma(-g). NaN in a hidden vector makes that row's results NaN, and
    no other's; infinite gates give log-probabilities of 0 and -inf.
    """

    def __init__(
        self,
        hidden_size: int,
        tree: CodeTree,
        *,
        label_smoothing: float = 0.0,
        smoothing: str = "leaves",
        sparse: bool = False,
        kernel: str = "auto",
    ) -> None:
        """Make a layer with fresh weights.

        smoothing: "leaves" mixes in the uniform distribution over tokens, as a softmax has it, and
        reads every gate; "gates" smooths each decision on the path and reads only the path.
        sparse: the weight's gradient holds only the gates that were met (for SparseAdam or SGD).
        """
        super().__init__(hidden_size, tree.num_leaves, label_smoothing)
        check_kernel(kernel)
        if smoothing not in SMOOTHING_KINDS:
            raise ArborvoxError(
                f"Unknown smoothing '{smoothing}'; there are: {', '.join(SMOOTHING_KINDS)}."
            )
        if sparse and label_smoothing and smoothing == "leaves":
            raise ArborvoxError(
                "Smoothing over leaves touches every gate, so gradients cannot be sparse; "
                "use smoothing='gates' or sparse=False."
            )
        self.tree = tree
        self.smoothing = smoothing
        self.sparse = sparse
        self.kernel = kernel
        self.tables = TreeTables.of_tree(tree)  # moves with the layer
        self._blocks: dict[int, PathBlocks] = {}
        self._make_parameters()
        self.reset_parameters()

    def _make_parameters(self) -> None:
        self.weight = nn.Parameter(torch.empty(self.tree.num_inner, self.hidden_size))

    def reset_parameters(self) -> None:
        """Draw the weights anew, as `nn.Linear` draws them."""
        bound = 1.0 / math.sqrt(self.hidden_size)
        nn.init.uniform_(self.weight, -bound, bound)

    def nll(self, h: Tensor, targets: Tensor) -> Tensor:
        """Return the smoothed -log P(target) of each row: (N, D), (N,) -> (N,)."""
        self._check_hidden(h)
        self._check_targets(h, targets)
        return self._path_loss(*self._in_one_type(h), targets, self.tables)

    def _path_loss(self, h: Tensor, weight: Tensor, targets: Tensor, tables: TreeTables) -> Tensor:
        kernels, smoothing = choose(self.kernel, h), self.label_smoothing
        loss: Tensor
        if smoothing and self.smoothing == "leaves":
            loss = kernels.leaf_smoothed_nll(h, weight, targets, tables, smoothing)
        else:
            loss = kernels.path_nll(h, weight, targets, tables, smoothing, self.sparse)
        return loss

    def log_probs(self, h: Tensor) -> Tensor:
        """Return log P of every token: (N, D) -> (N, V); exact, and differentiable."""
        self._check_hidden(h)
        h, weight = self._in_one_type(h)
        scores: Tensor = choose(self.kernel, h).log_probs(h, weight, self.tables)
        return scores

    def log_probs_of(self, h: Tensor, ids: NDArray[np.int64]) -> Tensor:
        """Return log P of some tokens, rising `ids`: (N, D) -> (N, n), as `log_probs` has it.

        Only the gates on their paths are computed: a tree needs no sum over all tokens.
        """
        self._check_hidden(h)
        h, weight = self._in_one_type(h)
        return self._scores_of(h, weight, self.tree, ids)

    def _scores_of(
        self, h: Tensor, weight: Tensor, tree: CodeTree, ids: NDArray[np.int64]
    ) -> Tensor:
        tables = TreeTables.of_pruned(prune(tree, ids)).to(h.device)
        scores: Tensor = choose(self.kernel, h).log_probs(h, weight, tables)
        return scores

    def topk(self, h: Tensor, k: int) -> tuple[Tensor, Tensor]:
        """Return the k best log P, best first, and their tokens: (N, D) -> (N, k), (N, k).

        Exact, and without gradients. Of equal scores the lower token id comes first.
        """
        self._check_hidden(h)
        self._check_k(k)
        h, weight = self._in_one_type(h)
        best: tuple[Tensor, Tensor] = choose(self.kernel, h).topk(
            h, weight, self._modules["tables"], k
        )
        return best

    def gate_weight(self) -> Tensor:
        """Return the weight of every gate, (V - 1, D)."""
        return self.weight

    def restricted(self, ids: NDArray[np.int64]) -> RestrictedHierarchicalSoftmax:
        """Return the layer on condition that the token is one of rising `ids`."""
        return RestrictedHierarchicalSoftmax(self, ids)

    def greedy(self, h: Tensor) -> tuple[Tensor, Tensor]:
        """Follow the likelier turn at each gate: (N, D) -> log P (N,), tokens (N,); not exact."""
        self._check_hidden(h)
        h, weight = self._in_one_type(h)
        path: tuple[Tensor, Tensor] = choose(self.kernel, h).greedy(h, weight, self.tables)
        return path

    def topk_beam(
        self, h: Tensor, k: int, *, width: int | None = None, layers: int = 2
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Search as in the paper: the `width` best nodes, `layers` levels at a time.

        Returns values (N, k), ids (N, k), and which rows the beam alone proved exact, (N,): there
        the k-th best is not below the largest pruned mass. The other rows are searched again by
        `topk`, so the scores are always exact; of tokens with equal scores any may be returned.
        """
        self._check_hidden(h)
        self._check_k(k)
        width = 2 * k if width is None else width
        if width < 1 or layers < 1:
            raise ArborvoxError(f"Beam width {width} and layers {layers} must be at least 1.")
        found = self._beam(h, k, width, layers)
        uncertain = (~found.certain).nonzero().squeeze(1)
        if len(uncertain):
            found.values[uncertain], found.ids[uncertain] = self.topk(h[uncertain], k)
        return found.values, found.ids, found.certain

    @torch.no_grad()
    def _beam(self, h: Tensor, k: int, width: int, layers: int) -> Beam:
        h, weight = self._in_one_type(h)
        if layers not in self._blocks:
            self._blocks[layers] = encode_blocks(self.tables.search, layers)
        blocks = PathBlocks(*(table.to(h.device) for table in self._blocks[layers]))
        return topk_beam(h, weight, self.tables, blocks, k, width)

    def _in_one_type(self, h: Tensor) -> tuple[Tensor, Tensor]:
        """Bring hidden vectors and weight to one type: the weight's, or float32 if it is half."""
        # Not self.weight: a module looks that up in 0.5 us, and a whole search takes a few.
        weight: Tensor | None = self._parameters["weight"]
        assert weight is not None
        if weight.dtype is not torch.float32 and weight.dtype is not torch.float64:
            weight = weight.float()
        if h.dtype is not weight.dtype:
            h = h.to(weight.dtype)
        return h, weight

    def extra_repr(self) -> str:
        """Name the sizes, the tree and what is not the default."""
        parts = [f"{self.hidden_size}, {self.tree!r}"]
        if self.label_smoothing:
            parts.append(f"label_smoothing={self.label_smoothing}, smoothing={self.smoothing!r}")
        if self.sparse:
            parts.append("sparse=True")
        if self.kernel != "auto":
            parts.append(f"kernel={self.kernel!r}")
        return ", ".join(parts)
