"""Triton programs of H-Softmax; with TRITON_INTERPRET=1 they also run on a CPU, slowly."""

from typing import Any

import triton
import triton.language as tl


@triton.jit  # type: ignore[untyped-decorator, unused-ignore]
def gate_terms(x: Any) -> Any:
    """Return -log sigma(x) and sigma(-x), both exact to the last place for any x."""
    e = tl.exp(-tl.abs(x))
    u = 1.0 + e
    # log(u) * e / (u - 1) takes back the rounding of 1 + e.
    log_term = tl.where(u == 1.0, e, tl.log(u) * e / tl.where(u == 1.0, 1.0, u - 1.0))
    return log_term + tl.maximum(-x, 0.0), tl.where(x >= 0.0, e, 1.0) / u


@triton.jit  # type: ignore[untyped-decorator, unused-ignore]
def path_loss_program(
    h: Any,
    weight: Any,
    targets: Any,
    offsets: Any,
    nodes: Any,
    signs: Any,
    losses: Any,
    gate_grads: Any,
    h_grads: Any,
    half_smoothing: Any,
    D: Any,
    depth: Any,
    BLOCK_D: tl.constexpr,
) -> None:
    """One row: its loss, its gates' gradients, and its input gradient, walking the path once."""
    n = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, BLOCK_D)
    inside = columns < D
    row = tl.load(h + n * D + columns, mask=inside, other=0.0)
    target = tl.load(targets + n)
    begin = tl.load(offsets + target)
    end = tl.load(offsets + target + 1)
    gathered = tl.zeros_like(row)
    loss = tl.sum(gathered, axis=0)
    for j in range(begin, end):
        node = tl.load(nodes + j).to(tl.int64)
        sign = tl.load(signs + j).to(row.dtype)
        vector = tl.load(weight + node * D + columns, mask=inside, other=0.0)
        x = sign * tl.sum(vector * row, axis=0)
        cost, falling = gate_terms(x)
        loss += cost + half_smoothing * x
        grad = sign * (half_smoothing - falling)
        tl.store(gate_grads + n * depth + (j - begin), grad)
        gathered += grad * vector
    tl.store(losses + n, loss)
    tl.store(h_grads + n * D + columns, gathered, mask=inside)


@triton.jit  # type: ignore[untyped-decorator, unused-ignore]
def path_weight_program(
    h: Any,
    targets: Any,
    offsets: Any,
    nodes: Any,
    gate_grads: Any,
    loss_grads: Any,
    weight_grads: Any,
    D: Any,
    depth: Any,
    BLOCK_D: tl.constexpr,
) -> None:
    """One row: add its share to the gradient of every gate on its path."""
    n = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, BLOCK_D)
    inside = columns < D
    row = tl.load(h + n * D + columns, mask=inside, other=0.0) * tl.load(loss_grads + n)
    target = tl.load(targets + n)
    begin = tl.load(offsets + target)
    end = tl.load(offsets + target + 1)
    for j in range(begin, end):
        node = tl.load(nodes + j).to(tl.int64)
        grad = tl.load(gate_grads + n * depth + (j - begin))
        tl.atomic_add(weight_grads + node * D + columns, grad * row, mask=inside)


@triton.jit  # type: ignore[untyped-decorator, unused-ignore]
def log_probs_program(
    gates: Any,
    offsets: Any,
    nodes: Any,
    signs: Any,
    scores: Any,
    V: Any,
    depth: Any,
    BLOCK_V: tl.constexpr,
) -> None:
    """One row and a block of leaves: add up their paths, one step of all paths at a time."""
    n = tl.program_id(0).to(tl.int64)
    leaves = tl.program_id(1) * BLOCK_V + tl.arange(0, BLOCK_V)
    inside = leaves < V
    begin = tl.load(offsets + leaves, mask=inside, other=0)
    end = tl.load(offsets + leaves + 1, mask=inside, other=0)
    total = tl.zeros_like(tl.load(gates + n * (V - 1) + leaves * 0))
    for j in range(depth):
        walking = begin + j < end
        node = tl.load(nodes + begin + j, mask=walking, other=0)
        sign = tl.load(signs + begin + j, mask=walking, other=1)
        gate = tl.load(gates + n * (V - 1) + node, mask=walking, other=0.0)
        cost, _ = gate_terms(gate * sign.to(gate.dtype))
        total -= tl.where(walking, cost, 0.0)
    tl.store(scores + n * V + leaves, total, mask=inside)


@triton.jit  # type: ignore[untyped-decorator, unused-ignore]
def gate_gradient_program(
    gates: Any,
    offsets: Any,
    nodes: Any,
    signs: Any,
    leaf_grads: Any,
    gate_grads: Any,
    V: Any,
    depth: Any,
    BLOCK_V: tl.constexpr,
) -> None:
    """One row and a block of leaves: add each leaf's gradient to the gates on its path."""
    n = tl.program_id(0).to(tl.int64)
    leaves = tl.program_id(1) * BLOCK_V + tl.arange(0, BLOCK_V)
    inside = leaves < V
    begin = tl.load(offsets + leaves, mask=inside, other=0)
    end = tl.load(offsets + leaves + 1, mask=inside, other=0)
    leaf_grad = tl.load(leaf_grads + n * V + leaves, mask=inside, other=0.0)
    for j in range(depth):
        walking = begin + j < end
        node = tl.load(nodes + begin + j, mask=walking, other=0)
        sign = tl.load(signs + begin + j, mask=walking, other=1)
        gate = tl.load(gates + n * (V - 1) + node, mask=walking, other=0.0)
        sign = sign.to(gate.dtype)
        _, falling = gate_terms(gate * sign)
        tl.atomic_add(gate_grads + n * (V - 1) + node, leaf_grad * sign * falling, mask=walking)
