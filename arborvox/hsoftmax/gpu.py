"""H-Softmax on a GPU by Triton programs, with their gradients: the functions of `reference`.

Weight gradients are added up by atomics, so their last bits may differ from run to run.
"""

from typing import Any

import torch
import triton
from torch import Tensor
from torch.autograd.function import Function, once_differentiable

from arborvox.errors import ArborvoxError
from arborvox.hsoftmax import reference, triton_programs
from arborvox.hsoftmax.reference import greedy, leaf_smoothed_nll, sort_scores, tie
from arborvox.hsoftmax.tables import TreeTables

__all__ = ["greedy", "leaf_smoothed_nll", "log_probs", "path_nll", "tie", "topk"]

LEAVES_PER_PROGRAM = 128


def path_nll(
    h: Tensor,
    weight: Tensor,
    targets: Tensor,
    tables: TreeTables,
    smoothing: float,
    sparse: bool,
) -> Tensor:
    """Return -log P(target), (N,), with each gate on the path smoothed over its two sides."""
    if sparse:  # atomics need a dense gradient
        return reference.path_nll(h, weight, targets, tables, smoothing, sparse)
    _check_device(h)
    loss: Tensor = _PathLoss.apply(  # type: ignore[no-untyped-call]
        h.contiguous(), weight.contiguous(), targets.long().contiguous(), tables, smoothing
    )
    return loss


def log_probs(h: Tensor, weight: Tensor, tables: TreeTables) -> Tensor:
    """Return log P of every leaf, (N, leaves); pruned trees go through the reference."""
    if not hasattr(tables, "paths"):
        return reference.log_probs(h, weight, tables)
    _check_device(h)
    gates = torch.nn.functional.linear(h, weight).to(weight.dtype)  # (N, V - 1)
    scores: Tensor = _LogProbs.apply(gates, tables)  # type: ignore[no-untyped-call]
    return scores


@torch.no_grad()
def topk(h: Tensor, weight: Tensor, tables: TreeTables, k: int) -> tuple[Tensor, Tensor]:
    """Return the k best log P, best first, and their tokens; lower ids first at ties."""
    return sort_scores(log_probs(h, weight, tables), tables.leaf_ids, k)


def _check_device(h: Tensor) -> None:
    if not h.is_cuda and not triton.knobs.runtime.interpret:
        raise ArborvoxError(
            f"The Triton kernels need a GPU, but the rows are on {h.device}; "
            f"use kernel='auto', or set TRITON_INTERPRET=1 to check them without one."
        )


class _PathLoss(Function):
    """Loss of the target's path; the input gradient is made on the way."""

    @staticmethod
    def forward(
        ctx: Any, h: Tensor, weight: Tensor, targets: Tensor, tables: TreeTables, smoothing: float
    ) -> Tensor:
        N, D = h.shape
        losses, h_grads = h.new_empty(N), torch.empty_like(h)
        gate_grads = h.new_empty(N, tables.depth)
        if N:
            triton_programs.path_loss_program[(N,)](
                h,
                weight,
                targets,
                tables.path_offsets,
                tables.path_nodes,
                tables.path_signs,
                losses,
                gate_grads,
                h_grads,
                0.5 * smoothing,
                D,
                tables.depth,
                BLOCK_D=triton.next_power_of_2(D),
            )
        ctx.save_for_backward(h, targets, gate_grads, h_grads)
        ctx.tables = tables
        return losses

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, loss_grads: Tensor) -> tuple[Tensor | None, ...]:
        h, targets, gate_grads, h_grads = ctx.saved_tensors
        N, D = h.shape
        for_weight = None
        if ctx.needs_input_grad[1]:
            for_weight = h.new_zeros(ctx.tables.num_inner, D)
            if N:
                triton_programs.path_weight_program[(N,)](
                    h,
                    targets,
                    ctx.tables.path_offsets,
                    ctx.tables.path_nodes,
                    gate_grads,
                    loss_grads.contiguous(),
                    for_weight,
                    D,
                    ctx.tables.depth,
                    BLOCK_D=triton.next_power_of_2(D),
                )
        return h_grads * loss_grads[:, None], for_weight, None, None, None


class _LogProbs(Function):
    """Log-probabilities of all leaves, given all gates."""

    @staticmethod
    def forward(ctx: Any, gates: Tensor, tables: TreeTables) -> Tensor:
        gates = gates.contiguous()
        N, V = gates.shape[0], tables.num_leaves
        scores = gates.new_empty(N, V)
        if N:
            triton_programs.log_probs_program[(N, triton.cdiv(V, LEAVES_PER_PROGRAM))](
                gates,
                tables.path_offsets,
                tables.path_nodes,
                tables.path_signs,
                scores,
                V,
                tables.depth,
                BLOCK_V=LEAVES_PER_PROGRAM,
            )
        ctx.save_for_backward(gates)
        ctx.tables = tables
        return scores

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, leaf_grads: Tensor) -> tuple[Tensor | None, ...]:
        (gates,) = ctx.saved_tensors
        N, V = leaf_grads.shape
        gate_grads = torch.zeros_like(gates)
        if N:
            triton_programs.gate_gradient_program[(N, triton.cdiv(V, LEAVES_PER_PROGRAM))](
                gates,
                ctx.tables.path_offsets,
                ctx.tables.path_nodes,
                ctx.tables.path_signs,
                leaf_grads.contiguous(),
                gate_grads,
                V,
                ctx.tables.depth,
                BLOCK_V=LEAVES_PER_PROGRAM,
            )
        return gate_grads, None
