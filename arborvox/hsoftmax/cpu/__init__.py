"""H-Softmax on a CPU by Numba kernels, with their gradients: the functions of `reference`."""

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import Function

from arborvox.hsoftmax import reference
from arborvox.hsoftmax.cpu.functions import (
    LeafSmoothedLoss,
    LogProbs,
    PathLoss,
    TiedWeight,
    as_array,
)
from arborvox.hsoftmax.cpu.inventory import Turns, best_living
from arborvox.hsoftmax.cpu.leaves import select_best
from arborvox.hsoftmax.cpu.search import greedy_path, search
from arborvox.hsoftmax.dispatch import (
    LARGEST_INSERTED_K,
    LARGEST_QUEUED_K,
    most_opened_gates,
    reads_every_gate,
)
from arborvox.hsoftmax.reference import sort_scores
from arborvox.hsoftmax.tables import TreeTables
from arborvox.kernels.compiling import CompileNotice
from arborvox.kernels.threads import run_split

# Fewer rows than this are not worth waking a thread for.
SEARCHES_PER_THREAD = 64

_notice = CompileNotice()


def path_nll(
    h: Tensor,
    weight: Tensor,
    targets: Tensor,
    tables: TreeTables,
    smoothing: float,
    sparse: bool,
) -> Tensor:
    """Return -log P(target), (N,), with each gate on the path smoothed over its two sides."""
    loss: Tensor = _apply(PathLoss, h, weight, targets, tables, smoothing, sparse)
    return loss


def leaf_smoothed_nll(
    h: Tensor, weight: Tensor, targets: Tensor, tables: TreeTables, smoothing: float
) -> Tensor:
    """Return (1 - s) * -log P(target) + s * mean over leaves of -log P, (N,)."""
    loss: Tensor = _apply(LeafSmoothedLoss, h, weight, targets, tables, smoothing)
    return loss


def log_probs(h: Tensor, weight: Tensor, tables: TreeTables) -> Tensor:
    """Return log P of every leaf, (N, leaves), one level of the tree after the other."""
    picked = weight if tables.is_whole else weight[tables.node_rows]
    scores: Tensor = _apply(LogProbs, h, picked, tables)
    return scores


def tie(question: Tensor, deviation: Tensor, asked: Tensor, slots: Tensor) -> Tensor:
    """Return each gate's weight, its question's plus its deviation where slots >= 0, (M, D)."""
    if question.dtype not in (torch.float32, torch.float64):
        return reference.tie(question, deviation, asked, slots)
    weight: Tensor = _apply(TiedWeight, question, deviation, asked, slots)
    return weight


def topk(h: Tensor, weight: Tensor, tables: TreeTables, k: int) -> tuple[Tensor, Tensor]:
    """Return the k best log P, best first, and their tokens; lower ids first at ties."""
    N, D = h.shape
    tree = tables.search
    limit = most_opened_gates(len(tree.left))
    if reads_every_gate(k, limit) or weight.dtype is not torch.float32:
        return _topk_of_all(h, weight, tables, k)
    if not _notice.given:
        with _notice:
            return topk(h, weight, tables, k)
    if not h.is_contiguous():
        h = h.contiguous()
    if not weight.is_contiguous():
        weight = weight.contiguous()
    values, ids = np.empty((N, k), np.float32), np.empty((N, k), np.int64)
    by_queue = k <= LARGEST_QUEUED_K
    what = (by_queue, h.data_ptr(), weight.data_ptr(), values, ids, D, weight.shape[0], limit)
    if N < 2 * SEARCHES_PER_THREAD:  # a few rows take microseconds, and so does splitting them
        unfinished = search(*what, 0, N, *tree)
    else:
        shares = run_split(
            lambda first, last: search(*what, first, last, *tree),
            N,
            SEARCHES_PER_THREAD,
        )
        unfinished = sum(shares)
    best = torch.from_numpy(values), torch.from_numpy(ids)
    if unfinished:
        rows = (best[1][:, 0] < 0).nonzero().squeeze(1)
        best[0][rows], best[1][rows] = _topk_of_all(h[rows], weight, tables, k)
    return best


def _topk_of_all(h: Tensor, weight: Tensor, tables: TreeTables, k: int) -> tuple[Tensor, Tensor]:
    """Find the k best by scoring every leaf, for large k or where scores lie close together."""
    with torch.no_grad():
        scores = log_probs(h, weight, tables)
    if k > LARGEST_INSERTED_K:
        return sort_scores(scores, tables.leaf_ids, k)
    values = scores.new_empty(h.shape[0], k)
    ids = torch.empty(h.shape[0], k, dtype=torch.int64)
    select_best(scores.numpy(), tables.search.leaf_ids, values.numpy(), ids.numpy())
    return values, ids


def topk_living(h: Tensor, weight: Tensor, turns: Turns, k: int) -> tuple[Tensor, Tensor]:
    """Return the k best of a pruned tree's leaves, normalized over all of them, in float32."""
    if h.dtype is not torch.float32:
        h = h.float()
    if not h.is_contiguous():
        h = h.contiguous()
    N, D = h.shape
    values, ids = np.empty((N, k), np.float32), np.empty((N, k), np.int64)
    what = (h.data_ptr(), weight.data_ptr(), values, ids, D)
    if N < 2 * SEARCHES_PER_THREAD:
        best_living(*what, 0, N, *turns)
    else:
        run_split(
            lambda first, last: best_living(*what, first, last, *turns), N, SEARCHES_PER_THREAD
        )
    return torch.from_numpy(values), torch.from_numpy(ids)


def greedy(h: Tensor, weight: Tensor, tables: TreeTables) -> tuple[Tensor, Tensor]:
    """Follow the likelier turn from the root to a leaf; log-probabilities (N,) and tokens (N,)."""
    values, ids = h.new_empty(h.shape[0]), torch.empty(h.shape[0], dtype=torch.int64)
    greedy_path(as_array(weight), *tables.search, as_array(h), values.numpy(), ids.numpy())
    return values, ids


def warm_up(tables: TreeTables) -> None:
    """Compile, or load from disk, every kernel that float32 layers use."""
    with _notice:
        h = torch.zeros(1, 2, requires_grad=True)
        weight = torch.zeros(tables.num_inner, 2, requires_grad=True)
        targets = torch.zeros(1, dtype=torch.int64)
        for sparse in (False, True):
            path_nll(h, weight, targets, tables, 0.0, sparse).sum().backward()  # type: ignore[no-untyped-call]
        leaf_smoothed_nll(h, weight, targets, tables, 0.1).sum().backward()  # type: ignore[no-untyped-call]
        log_probs(h, weight, tables).sum().backward()  # type: ignore[no-untyped-call]
        topk(h.detach(), weight.detach(), tables, 1)
        _topk_of_all(h.detach(), weight.detach(), tables, 1)
        rows = torch.arange(tables.num_inner)
        tie(weight, weight, rows, rows).sum().backward()  # type: ignore[no-untyped-call]
        greedy(h.detach(), weight.detach(), tables)


def _apply(function: type[Function], *arguments: Any) -> Any:
    """Call an autograd function; its first call in a process may have to compile."""
    if _notice.given:
        return function.apply(*arguments)  # type: ignore[no-untyped-call]
    with _notice:
        return function.apply(*arguments)  # type: ignore[no-untyped-call]
