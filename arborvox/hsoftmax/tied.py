"""H-Softmax whose gates ask questions: gates that ask the same share what they have learned."""

import math
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from arborvox.errors import ArborvoxError
from arborvox.hsoftmax.dispatch import choose
from arborvox.hsoftmax.hierarchical import HierarchicalSoftmax
from arborvox.hsoftmax.tables import TreeTables
from arborvox.hsoftmax.targets import check_target_ids
from arborvox.tree import CodeTree
from arborvox.tree.assembly import level_order

# log P in training of a unit that training leaves out; finite, so that no loss becomes infinite.
LEFT_OUT = -30.0


class TiedSoftmax(HierarchicalSoftmax):
    """H-Softmax over a tree of questions: the weight of gate n is w[question(n)] + d[n].

    A gate that asks alone has no deviation d. One of which a side was never heard has none either:
    it asks what gates elsewhere have learned, and stays out of the loss, because all it could
    learn is to say no. So `nll` and `log_probs` are those of the tree without such gates while the
    layer is in training, and of the whole tree afterwards; searches always see the whole tree.
    """

    asked: Tensor  # (V - 1,) row of `question` for each gate
    deviating: Tensor  # (V - 1,) row of `deviation`, or -1
    learning_asked: Tensor  # the same for the gates that are in the loss
    learning_deviating: Tensor
    learning_places: Tensor  # (V,) leaf of the tree in training for each token, or -1
    learning_tokens: Tensor  # (leaves in training,) and the other way round

    def __init__(
        self,
        hidden_size: int,
        tree: CodeTree,
        *,
        label_smoothing: float = 0.0,
        smoothing: str = "leaves",
        kernel: str = "auto",
    ) -> None:
        """Make a layer with fresh weights, deviations at 0."""
        if tree.questions is None:
            raise ArborvoxError(
                f"Tied gates need a tree of questions, but this is a {tree.kind} tree; build it "
                "with tree.kind: questions."
            )
        super().__init__(
            hidden_size, tree, label_smoothing=label_smoothing, smoothing=smoothing, kernel=kernel
        )
        self._kept: tuple[tuple[object, ...], Tensor] | None = None

    def _make_parameters(self) -> None:
        ties, learning = tie_gates(self.tree), leave_out_unheard(self.tree)
        self.question_names = ties.names
        self.question = nn.Parameter(torch.empty(len(ties.names), self.hidden_size))
        self.deviation = nn.Parameter(torch.empty(int(ties.slots.max()) + 1, self.hidden_size))
        # What is in the loss differs from the whole tree only if units were added to what is heard.
        self.leaves_out = learning.tree.num_leaves < self.num_tokens
        self.learning_tree = learning.tree
        self.learning_tables = TreeTables.of_tree(learning.tree) if self.leaves_out else self.tables
        places = np.full(self.num_tokens, -1, np.int64)
        places[learning.tokens] = np.arange(len(learning.tokens))
        for name, array in (
            ("asked", ties.asked),
            ("deviating", ties.slots),
            ("learning_asked", ties.asked[learning.gates]),
            ("learning_deviating", ties.slots[learning.gates]),
            ("learning_places", places),
            ("learning_tokens", learning.tokens),
        ):
            self.register_buffer(name, torch.from_numpy(array), persistent=False)

    def reset_parameters(self) -> None:
        """Draw the questions' weights anew; deviations start at 0."""
        bound = 1.0 / math.sqrt(self.hidden_size)
        nn.init.uniform_(self.question, -bound, bound)
        nn.init.zeros_(self.deviation)

    def train(self, mode: bool = True) -> "TiedSoftmax":
        """Set the mode; weights are put together anew for the next search."""
        self._kept = None
        super().train(mode)
        return self

    def held_parameters(self) -> list[nn.Parameter]:
        """Return the deviations, which a weight decay of their own holds down."""
        return [self.deviation]

    def nll(self, h: Tensor, targets: Tensor) -> Tensor:
        """Return the smoothed -log P(target) of each row: (N, D), (N,) -> (N,).

        In training a target that is left out costs nothing.
        """
        if not self._is_learning_part:
            return super().nll(h, targets)
        self._check_hidden(h)
        self._check_targets(h, targets)
        check_target_ids(targets, self.num_tokens)
        rows, weight = self._learning(h)
        places = self.learning_places[targets]
        known = places >= 0
        if bool(known.all()):
            return self._path_loss(rows, weight, places, self.learning_tables)
        losses = self._path_loss(rows[known], weight, places[known], self.learning_tables)
        return losses.new_zeros(len(h)).index_put((known,), losses)

    def log_probs(self, h: Tensor) -> Tensor:
        """Return log P of every token: (N, D) -> (N, V); exact, and differentiable."""
        if not self._is_learning_part:
            return super().log_probs(h)
        self._check_hidden(h)
        rows, weight = self._learning(h)
        learned: Tensor = choose(self.kernel, rows).log_probs(rows, weight, self.learning_tables)
        scores = learned.new_full((len(h), self.num_tokens), LEFT_OUT)
        return scores.index_copy(1, self.learning_tokens, learned)

    def log_probs_of(self, h: Tensor, ids: NDArray[np.int64]) -> Tensor:
        """Return log P of some tokens, rising `ids`: (N, D) -> (N, n), as `log_probs` has it."""
        if not self._is_learning_part:
            return super().log_probs_of(h, ids)
        self._check_hidden(h)
        rows, weight = self._learning(h)
        places = self.learning_places.cpu().numpy()[ids]
        known = np.flatnonzero(places >= 0)
        scores = weight.new_full((len(h), len(ids)), LEFT_OUT)
        if not len(known):
            return scores
        learned = self._scores_of(rows, weight, self.learning_tree, places[known])
        return scores.index_copy(1, torch.from_numpy(known).to(h.device), learned)

    def gate_weight(self) -> Tensor:
        """Return the weight of every gate, (V - 1, D)."""
        return self._tie(self.asked, self.deviating)

    @property
    def _is_learning_part(self) -> bool:
        return self.training and self.leaves_out

    def _learning(self, h: Tensor) -> tuple[Tensor, Tensor]:
        """Return rows and the weight of the gates that are in the loss, in one type."""
        self._kept = None
        return _in_one_type(h, self._tie(self.learning_asked, self.learning_deviating))

    def _tie(self, asked: Tensor, slots: Tensor) -> Tensor:
        weight: Tensor = choose(self.kernel, self.question).tie(
            self.question, self.deviation, asked, slots
        )
        return weight

    def _in_one_type(self, h: Tensor) -> tuple[Tensor, Tensor]:
        if torch.is_grad_enabled() or torch.compiler.is_compiling():
            self._kept = None
            return _in_one_type(h, self.gate_weight())
        # A search asks again and again: what cannot have changed since is not made anew. Fused
        # optimizers leave versions as they are, so whatever may come before a step ends it, too.
        state = tuple(
            mark
            for p in (self.question, self.deviation)
            for mark in (p.data_ptr(), p.dtype, p.device, -1 if p.is_inference() else p._version)
        )
        if self._kept is None or self._kept[0] != state:
            self._kept = (state, self.gate_weight().detach())
        return _in_one_type(h, self._kept[1])


def _in_one_type(h: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    """Bring rows and weight to one type: the weight's, or float32 if it is half."""
    if weight.dtype is not torch.float32 and weight.dtype is not torch.float64:
        weight = weight.float()
    return h.to(weight.dtype), weight


class Ties(NamedTuple):
    """Which question each gate asks, and which gates may deviate from theirs."""

    names: tuple[str, ...]  # of the questions by row; ~node is one without a name
    asked: NDArray[np.int64]  # (V - 1,) row of the question
    slots: NDArray[np.int64]  # (V - 1,) row of the deviation, or -1


def tie_gates(tree: CodeTree) -> Ties:
    """Find the gates that ask the same; who asks alone, or hears one side, has no deviation."""
    assert tree.questions is not None
    names = [question or f"~{node}" for node, question in enumerate(tree.questions)]
    rows = {name: row for row, name in enumerate(dict.fromkeys(names))}
    asked = np.array([rows[name] for name in names], np.int64)
    both = np.logical_and(*tree.heard_below())
    free = both & (np.bincount(asked, weights=both, minlength=len(rows))[asked] > 1)
    return Ties(tuple(rows), asked, np.where(free, np.cumsum(free) - 1, -1))


class LearningTree(NamedTuple):
    """The part of a tree that training sees."""

    tree: CodeTree
    tokens: NDArray[np.int64]  # token of the whole tree for each of its leaves, rising
    gates: NDArray[np.int64]  # gate of the whole tree for each of its gates


def leave_out_unheard(tree: CodeTree) -> LearningTree:
    """Take out the gates that ask a shared question with one side never heard.

    A gate without a question learns like any other, also to say no. Of a branch that was never
    heard at all one leaf stands for all.
    """
    assert tree.questions is not None
    on_left, on_right = tree.heard_below()
    left, right = tree.left.tolist(), tree.right.tolist()
    stands_for = list(range(tree.num_inner))  # what is left of each inner node: a node or ~token
    for node in reversed(range(tree.num_inner)):  # children have the higher numbers
        left[node], right[node] = (
            stands_for[child] if child >= 0 else child for child in (left[node], right[node])
        )
        if on_left[node] != on_right[node] and tree.questions[node] is not None:
            stands_for[node] = left[node] if on_left[node] else right[node]
        elif not on_left[node] and not on_right[node]:
            stands_for[node] = left[node]
    gates = level_order(left, right, stands_for[0])
    tokens = np.sort([~child for node in gates for child in (left[node], right[node]) if child < 0])
    place = {gate: number for number, gate in enumerate(gates)}
    leaf = {int(token): number for number, token in enumerate(tokens)}
    children = [
        np.array([place[c] if (c := side[gate]) >= 0 else ~leaf[~c] for gate in gates], np.int32)
        for side in (left, right)
    ]
    part = CodeTree(children[0], children[1], tree.probabilities[tokens], kind=tree.kind)
    return LearningTree(part, tokens.astype(np.int64), np.array(gates, np.int64))
