"""Inner products, the innermost loops of every kernel: rows of the weight with a row of h."""

from typing import Any

from arborvox.kernels.compiling import kernel


@kernel
def one_dot(weight: Any, row: int, h: Any, n: int) -> Any:
    """Inner product of a row of the weight and a row of h."""
    total = h.dtype.type(0)
    for i in range(h.shape[1]):
        total += weight[row, i] * h[n, i]
    return total


@kernel
def four_dots(weight: Any, a: int, b: int, c: int, d: int, h: Any, n: int) -> Any:
    """Inner products of four rows of the weight with a row of h, which is read once."""
    zero = h.dtype.type(0)
    s0, s1, s2, s3 = zero, zero, zero, zero
    for i in range(h.shape[1]):
        x = h[n, i]
        s0 += weight[a, i] * x
        s1 += weight[b, i] * x
        s2 += weight[c, i] * x
        s3 += weight[d, i] * x
    return s0, s1, s2, s3


@kernel
def open_gates(
    weight: Any, node_rows: Any, nodes: Any, count: int, h: Any, n: int, gates: Any
) -> None:
    """Set gates[:count] to the inner products of row n with the gates of nodes[:count]."""
    j = 0
    while j + 4 <= count:
        gates[j], gates[j + 1], gates[j + 2], gates[j + 3] = four_dots(
            weight,
            node_rows[nodes[j]],
            node_rows[nodes[j + 1]],
            node_rows[nodes[j + 2]],
            node_rows[nodes[j + 3]],
            h,
            n,
        )
        j += 4
    while j < count:
        gates[j] = one_dot(weight, node_rows[nodes[j]], h, n)
        j += 1
