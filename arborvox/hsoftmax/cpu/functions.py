"""The differentiable functions of the CPU kernels, with their gradients written out."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.autograd.function import Function, once_differentiable

from arborvox.hsoftmax.cpu import leaves, training
from arborvox.hsoftmax.tables import TreeTables
from arborvox.hsoftmax.targets import wrong_target
from arborvox.kernels.threads import run_split

# Fewer than these are not worth waking a thread for.
PATHS_PER_THREAD = 256
WHOLE_ROWS_PER_THREAD = 32
NODES_PER_THREAD = 64
# Rows of gates start on multiples of this: a product with odd rows takes half as long again.
GATE_ALIGNMENT = 16


def as_array(tensor: Tensor) -> NDArray[Any]:
    """View a tensor as a contiguous array."""
    return tensor.detach().contiguous().numpy()


def _checked_targets(targets: Tensor, V: int) -> NDArray[np.int64]:
    array: NDArray[np.int64] = as_array(targets.to(torch.int64))
    row = training.first_wrong_target(array, V)
    if row >= 0:
        raise wrong_target(int(array[row]), row, V)
    return array


def _product(a: Tensor, b: Tensor) -> Tensor:
    """Multiply matrices in their own type, also where autocast would take a shorter one."""
    with torch.autocast("cpu", enabled=False):
        return torch.mm(a, b)


def _all_gates(h: Tensor, weight: Tensor) -> Tensor:
    """Return every gate of every row, (N, inner nodes) and some unused columns for alignment."""
    inner = weight.shape[0]
    gates = h.new_empty(h.shape[0], -(-inner // GATE_ALIGNMENT) * GATE_ALIGNMENT)
    with torch.autocast("cpu", enabled=False):
        torch.mm(h, weight.t(), out=gates[:, :inner])
    return gates


class PathLoss(Function):
    """Loss of the target's path; the input gradient is made on the way, while rows are warm."""

    @staticmethod
    def forward(
        ctx: Any,
        h: Tensor,
        weight: Tensor,
        targets: Tensor,
        tables: TreeTables,
        smoothing: float,
        sparse: bool,
    ) -> Tensor:
        (N, D), paths = h.shape, tables.paths
        h_array, weight_array = as_array(h), as_array(weight)
        target_array = _checked_targets(targets, tables.num_leaves)
        starts = np.empty(N + 1, np.int64)
        training.place_paths(target_array, paths.offsets, starts)
        losses = np.empty(N, h_array.dtype)
        gate_grads = np.empty(starts[-1], h_array.dtype)
        h_grads = np.empty((N if ctx.needs_input_grad[0] else 0, D), h_array.dtype)
        half = h_array.dtype.type(0.5 * smoothing)

        def work(first: int, last: int) -> None:
            training.path_loss(
                h_array,
                weight_array,
                target_array,
                *paths,
                half,
                starts,
                first,
                last,
                losses,
                gate_grads,
                h_grads,
            )

        run_split(work, N, PATHS_PER_THREAD)
        ctx.save_for_backward(h, torch.from_numpy(h_grads))
        ctx.targets, ctx.starts, ctx.gate_grads = target_array, starts, gate_grads
        ctx.tables, ctx.sparse = tables, sparse
        return torch.from_numpy(losses)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, loss_grads: Tensor) -> tuple[Tensor | None, ...]:
        h, h_grads = ctx.saved_tensors
        for_h = for_weight = None
        if ctx.needs_input_grad[0]:
            for_h = h_grads * loss_grads[:, None]
        if ctx.needs_input_grad[1]:
            for_weight = _path_weight_gradient(ctx, h, loss_grads)
        return for_h, for_weight, None, None, None, None


def _path_weight_gradient(ctx: Any, h: Tensor, loss_grads: Tensor) -> Tensor:
    """Sum each gate's gradient over its rows: dense (V - 1, D), or sparse over the gates met."""
    h_array, paths = as_array(h), ctx.tables.paths
    num_inner, num_entries = ctx.tables.num_inner, len(ctx.gate_grads)
    # np.zeros costs only the pages that are written, however large the vocabulary.
    counts = np.zeros(num_inner, np.int32)
    touched = np.empty(min(num_inner, num_entries), np.int64)
    num_touched = training.count_nodes(ctx.targets, paths.offsets, paths.nodes, counts, touched)
    touched = np.sort(touched[:num_touched])
    bounds = np.empty(num_touched + 1, np.int64)
    rows, scales = np.empty(num_entries, np.int32), np.empty(num_entries, h_array.dtype)
    training.group_by_node(
        ctx.targets,
        paths.offsets,
        paths.nodes,
        ctx.starts,
        ctx.gate_grads,
        as_array(loss_grads),
        touched,
        counts,
        bounds,
        rows,
        scales,
    )
    shape = (len(touched) if ctx.sparse else num_inner, h_array.shape[1])
    out = np.empty(shape, h_array.dtype) if ctx.sparse else np.zeros(shape, h_array.dtype)

    def work(first: int, last: int) -> None:
        training.weight_gradients(
            h_array,
            touched,
            bounds,
            rows,
            scales,
            ctx.sparse,
            first,
            last,
            out,
        )

    run_split(work, len(touched), NODES_PER_THREAD)
    if not ctx.sparse:
        return torch.from_numpy(out)
    return torch.sparse_coo_tensor(
        torch.from_numpy(touched)[None],
        torch.from_numpy(out),
        (num_inner, h_array.shape[1]),
        is_coalesced=True,
        check_invariants=False,
    )


class LeafSmoothedLoss(Function):
    """Loss smoothed over all leaves: one matrix product for all gates, then one pass over them."""

    @staticmethod
    def forward(
        ctx: Any,
        h: Tensor,
        weight: Tensor,
        targets: Tensor,
        tables: TreeTables,
        smoothing: float,
    ) -> Tensor:
        target_array = _checked_targets(targets, tables.num_leaves)
        gates = _all_gates(h, weight)  # becomes the gates' gradients
        gate_array = gates.numpy()
        kind = gate_array.dtype
        left_shares, right_shares = (
            (count / tables.num_leaves).astype(kind) for count in tables.leaves_below
        )
        losses = np.empty(len(gate_array), kind)

        def work(first: int, last: int) -> None:
            training.leaf_smoothed_loss(
                gate_array,
                target_array,
                *tables.paths,
                kind.type(smoothing),
                left_shares,
                right_shares,
                first,
                last,
                losses,
            )

        run_split(work, len(gate_array), WHOLE_ROWS_PER_THREAD)
        ctx.save_for_backward(h, weight, gates)
        return torch.from_numpy(losses)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, loss_grads: Tensor) -> tuple[Tensor | None, ...]:
        h, weight, gates = ctx.saved_tensors
        gate_grads = gates[:, : weight.shape[0]]
        # The rows' loss gradients are put on the small (N, D) factors, not on (N, V - 1).
        for_h = for_weight = None
        if ctx.needs_input_grad[0]:
            for_h = _product(gate_grads, weight).mul_(loss_grads[:, None])
        if ctx.needs_input_grad[1]:
            for_weight = _product(gate_grads.t(), h * loss_grads[:, None])
        return for_h, for_weight, None, None, None


class LogProbs(Function):
    """Log-probabilities of all leaves."""

    @staticmethod
    def forward(ctx: Any, h: Tensor, weight: Tensor, tables: TreeTables) -> Tensor:
        gates = _all_gates(h, weight)
        scores = gates.new_empty(len(gates), tables.num_leaves)
        gate_array, score_array = gates.numpy(), scores.numpy()

        def work(first: int, last: int) -> None:
            leaves.walk_leaves(
                gate_array[first:last],
                tables.search.left,
                tables.search.right,
                score_array[first:last],
            )

        run_split(work, len(gate_array), WHOLE_ROWS_PER_THREAD)
        ctx.save_for_backward(h, weight, gates)
        ctx.tables = tables
        return scores

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, leaf_grads: Tensor) -> tuple[Tensor | None, ...]:
        h, weight, gates = ctx.saved_tensors
        gate_grads = torch.empty_like(gates)
        gate_array, leaf_array, out = gates.numpy(), as_array(leaf_grads), gate_grads.numpy()

        def work(first: int, last: int) -> None:
            leaves.gate_gradients_of_leaves(
                gate_array[first:last],
                ctx.tables.search.left,
                ctx.tables.search.right,
                leaf_array[first:last],
                out[first:last],
            )

        run_split(work, len(gate_array), WHOLE_ROWS_PER_THREAD)
        gate_grads = gate_grads[:, : weight.shape[0]]
        for_h = _product(gate_grads, weight) if ctx.needs_input_grad[0] else None
        for_weight = _product(gate_grads.t(), h) if ctx.needs_input_grad[1] else None
        return for_h, for_weight, None


class TiedWeight(Function):
    """Weights of gates that share questions."""

    @staticmethod
    def forward(
        ctx: Any, question: Tensor, deviation: Tensor, asked: Tensor, slots: Tensor
    ) -> Tensor:
        out = question.new_empty(len(asked), question.shape[1])
        ctx.asked, ctx.slots = asked.numpy(), slots.numpy()
        ctx.shapes = (question.shape, deviation.shape)
        training.tie_rows(
            as_array(question), as_array(deviation), ctx.asked, ctx.slots, out.numpy()
        )
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grads: Tensor) -> tuple[Tensor | None, ...]:
        question_grads = grads.new_zeros(ctx.shapes[0])
        deviation_grads = grads.new_zeros(ctx.shapes[1])
        training.untie_gradients(
            as_array(grads), ctx.asked, ctx.slots, question_grads.numpy(), deviation_grads.numpy()
        )
        return question_grads, deviation_grads, None, None
