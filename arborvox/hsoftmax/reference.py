"""H-Softmax in plain PyTorch: any device, traceable by torch.compile, and what the others equal."""

import torch
from torch import Tensor
from torch.nn import functional

from arborvox.hsoftmax.tables import DEAD, TreeTables
from arborvox.hsoftmax.targets import check_target_ids

# Up to this many gates one matrix product for all is cheaper than picking rows of the weight.
LARGEST_DENSE_GATES = 1024


def path_nll(
    h: Tensor,
    weight: Tensor,
    targets: Tensor,
    tables: TreeTables,
    smoothing: float,
    sparse: bool,
) -> Tensor:
    """Return -log P(target), (N,), with each gate on the path smoothed over its two sides."""
    check_target_ids(targets, tables.num_leaves)
    starts = tables.path_offsets[targets]  # (N,)
    lengths = tables.path_offsets[targets + 1] - starts
    steps = torch.arange(tables.depth, device=h.device)
    used = steps < lengths[:, None]  # (N, depth)
    places = torch.where(used, starts[:, None] + steps, 0)
    nodes = tables.path_nodes[places].long()
    if tables.num_inner <= LARGEST_DENSE_GATES and not sparse:
        gates = functional.linear(h, weight).gather(1, nodes)  # (N, V - 1) -> (N, depth)
    else:
        rows = functional.embedding(nodes, weight, sparse=sparse)  # (N, depth, D)
        gates = torch.bmm(rows, h.to(rows.dtype)[:, :, None]).squeeze(2)
    turns = gates.to(weight.dtype) * tables.path_signs[places]
    costs = -functional.logsigmoid(turns) + (0.5 * smoothing) * turns
    return torch.where(used, costs, 0.0).sum(dim=1)


def leaf_smoothed_nll(
    h: Tensor, weight: Tensor, targets: Tensor, tables: TreeTables, smoothing: float
) -> Tensor:
    """Return (1 - s) * -log P(target) + s * mean over leaves of -log P, (N,)."""
    gates = functional.linear(h, weight).to(weight.dtype)  # (N, V - 1)
    on_left = tables.leaves_on_left.to(gates.dtype) / tables.num_leaves
    on_right = tables.leaves_on_right.to(gates.dtype) / tables.num_leaves
    mean = functional.logsigmoid(gates) @ on_left + functional.logsigmoid(-gates) @ on_right
    on_path = path_nll(h, weight, targets, tables, 0.0, False)
    return (1.0 - smoothing) * on_path - smoothing * mean


def log_probs(h: Tensor, weight: Tensor, tables: TreeTables) -> Tensor:
    """Return log P of every leaf, (N, leaves), one level of the tree after the other."""
    picked = weight if tables.is_whole else weight[tables.node_rows]
    gates = functional.linear(h, picked).to(weight.dtype)  # (N, inner nodes)
    turns = torch.stack(
        (functional.logsigmoid(gates), functional.logsigmoid(-gates)), dim=2
    )  # left, right
    scores = turns.new_zeros(h.shape[0], 1)  # of the inner nodes of one level
    met = []
    node, inner_start, leaf_start = 0, 0, 0
    for num_inner, num_leaves in zip(tables.inner_per_level, tables.leaves_per_level, strict=True):
        width = scores.shape[1]
        children = (scores[:, :, None] + turns[:, node : node + width]).flatten(1)  # (N, 2 width)
        leaves = tables.level_leaves[leaf_start : leaf_start + num_leaves]
        inner = tables.level_inner[inner_start : inner_start + num_inner]
        met.append(children[:, leaves])
        scores = children[:, inner]
        node, inner_start, leaf_start = (
            node + width,
            inner_start + num_inner,
            leaf_start + num_leaves,
        )
    return torch.cat(met, dim=1)[:, tables.leaf_places]


@torch.no_grad()
def topk(h: Tensor, weight: Tensor, tables: TreeTables, k: int) -> tuple[Tensor, Tensor]:
    """Return the k best log P, best first, and their tokens; lower ids first at ties."""
    return sort_scores(log_probs(h, weight, tables), tables.leaf_ids, k)


def sort_scores(scores: Tensor, leaf_ids: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Return the k best of scores (N, leaves), best first, and their tokens."""
    values, places = scores.sort(dim=1, descending=True, stable=True)
    # A row with NaN has no order: its values are NaN and its ids the first k.
    lost = scores.isnan().any(dim=1, keepdim=True)
    places = torch.where(lost, torch.arange(k, device=scores.device), places[:, :k])
    return values[:, :k].masked_fill(lost, torch.nan), leaf_ids[places]


@torch.no_grad()
def greedy(h: Tensor, weight: Tensor, tables: TreeTables) -> tuple[Tensor, Tensor]:
    """Follow the likelier turn from the root to a leaf; log-probabilities (N,) and tokens (N,)."""
    scores = torch.zeros(h.shape[0], dtype=weight.dtype, device=h.device)
    places = torch.zeros(h.shape[0], dtype=torch.long, device=h.device)  # < 0: a leaf is reached
    for _ in range(tables.depth):
        walking = places >= 0
        node = places.clamp(min=0)
        gates = (weight[tables.node_rows[node]] * h).sum(dim=1)  # (N,)
        left, right = tables.left[node].long(), tables.right[node].long()
        to_left = ~(gates < 0)
        to_left = (to_left | (right == DEAD)) & (left != DEAD)
        turns = torch.where(to_left, gates, -gates)
        scores = torch.where(walking, scores + functional.logsigmoid(turns), scores)
        places = torch.where(walking, torch.where(to_left, left, right), places)
    return scores, tables.leaf_ids[~places]


def tie(question: Tensor, deviation: Tensor, asked: Tensor, slots: Tensor) -> Tensor:
    """Return each gate's weight, its question's plus its deviation where slots >= 0, (M, D)."""
    free = (slots >= 0).nonzero().squeeze(1)
    return question.index_select(0, asked).index_add(0, free, deviation[slots[free]])
