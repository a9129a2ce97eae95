"""The training step on a CPU: loss and input gradient in one pass, weight gradients by node."""

from typing import Any

import numpy as np

from arborvox.hsoftmax.cpu.dots import four_dots, one_dot
from arborvox.kernels.compiling import kernel
from arborvox.kernels.gate_math import gate_terms


@kernel
def first_wrong_target(targets: Any, V: int) -> int:
    """Return the first row whose target is no token, or -1."""
    for n in range(targets.shape[0]):
        if targets[n] < 0 or targets[n] >= V:
            return n
    return -1


@kernel
def place_paths(targets: Any, offsets: Any, starts: Any) -> None:
    """Lay the rows' paths one after the other: row n owns starts[n]:starts[n + 1]."""
    starts[0] = 0
    for n in range(targets.shape[0]):
        token = targets[n]
        starts[n + 1] = starts[n] + offsets[token + 1] - offsets[token]


@kernel
def add_rows(
    out: Any, place: int, rows: Any, picks: Any, scales: Any, start: int, end: int
) -> None:
    """Set out[place] to the sum over j in start..end of scales[j] * rows[picks[j]]."""
    D = out.shape[1]
    for i in range(D):
        out[place, i] = 0
    j = start
    while j + 4 <= end:
        a, b, c, d = picks[j], picks[j + 1], picks[j + 2], picks[j + 3]
        x, y, z, w = scales[j], scales[j + 1], scales[j + 2], scales[j + 3]
        for i in range(D):
            out[place, i] += (x * rows[a, i] + y * rows[b, i]) + (z * rows[c, i] + w * rows[d, i])
        j += 4
    while j < end:
        a, x = picks[j], scales[j]
        for i in range(D):
            out[place, i] += x * rows[a, i]
        j += 1


@kernel
def path_loss(
    h: Any,
    weight: Any,
    targets: Any,
    offsets: Any,
    nodes: Any,
    signs: Any,
    half_smoothing: Any,
    starts: Any,
    first: int,
    last: int,
    losses: Any,
    gate_grads: Any,
    h_grads: Any,
) -> None:
    """Losses, gate gradients and, if h_grads has rows, input gradients of rows first..last.

    With x = sign * gate a turn costs -log sigma(x); smoothed over both sides of the gate by s it
    costs -log sigma(x) + x * s / 2.
    """
    zero = h.dtype.type(0)
    for n in range(first, last):
        begin = offsets[targets[n]]
        length = offsets[targets[n] + 1] - begin
        place = starts[n]
        j = 0
        while j + 4 <= length:
            s0, s1, s2, s3 = four_dots(
                weight,
                nodes[begin + j],
                nodes[begin + j + 1],
                nodes[begin + j + 2],
                nodes[begin + j + 3],
                h,
                n,
            )
            gate_grads[place + j] = s0
            gate_grads[place + j + 1] = s1
            gate_grads[place + j + 2] = s2
            gate_grads[place + j + 3] = s3
            j += 4
        while j < length:
            gate_grads[place + j] = one_dot(weight, nodes[begin + j], h, n)
            j += 1
        loss = zero
        for j in range(length):
            sign = h.dtype.type(signs[begin + j])
            x = sign * gate_grads[place + j]
            log_term, larger, smaller = gate_terms(x)
            loss += log_term + max(-x, zero) + half_smoothing * x
            gate_grads[place + j] = sign * (half_smoothing - (smaller if x >= zero else larger))
        losses[n] = loss
        if h_grads.shape[0] > 0:
            add_rows(
                h_grads, n, weight, nodes[begin : begin + length], gate_grads[place:], 0, length
            )


@kernel
def count_nodes(targets: Any, offsets: Any, nodes: Any, counts: Any, touched: Any) -> int:
    """Count how often each node is met, and list the nodes met; returns how many those are."""
    num_touched = 0
    for n in range(targets.shape[0]):
        for j in range(offsets[targets[n]], offsets[targets[n] + 1]):
            node = nodes[j]
            if counts[node] == 0:
                touched[num_touched] = node
                num_touched += 1
            counts[node] += 1
    return num_touched


@kernel
def group_by_node(
    targets: Any,
    offsets: Any,
    nodes: Any,
    starts: Any,
    gate_grads: Any,
    loss_grads: Any,
    touched: Any,
    counts: Any,
    bounds: Any,
    rows: Any,
    scales: Any,
) -> None:
    """Sort path entries by node (counting sort): touched[i] owns bounds[i]:bounds[i + 1].

    Nothing here is as long as the vocabulary but `counts`, of which only the met nodes are read.
    """
    bounds[0] = 0
    for i in range(touched.shape[0]):
        bounds[i + 1] = bounds[i] + counts[touched[i]]
        counts[touched[i]] = bounds[i]  # from now on: where the node's next entry goes
    for n in range(targets.shape[0]):
        begin = offsets[targets[n]]
        for j in range(offsets[targets[n] + 1] - begin):
            node = nodes[begin + j]
            entry = counts[node]
            counts[node] = entry + 1
            rows[entry] = n
            scales[entry] = gate_grads[starts[n] + j] * loss_grads[n]


@kernel
def weight_gradients(
    h: Any,
    touched: Any,
    bounds: Any,
    rows: Any,
    scales: Any,
    packed: bool,
    first: int,
    last: int,
    out: Any,
) -> None:
    """Sum scale * h over the rows of touched[first:last], into out[node], or packed in order."""
    for i in range(first, last):
        add_rows(out, i if packed else touched[i], h, rows, scales, bounds[i], bounds[i + 1])


@kernel
def leaf_smoothed_loss(
    gates: Any,
    targets: Any,
    offsets: Any,
    nodes: Any,
    signs: Any,
    smoothing: Any,
    left_shares: Any,
    right_shares: Any,
    first: int,
    last: int,
    losses: Any,
) -> None:
    """Losses smoothed over all leaves; gates (N, >= V - 1) are overwritten with their gradients.

    The mean of -log P over leaves is a sum over gates: -log sigma(g) times the share of all leaves
    on the gate's left side, plus -log sigma(-g) times the share on its right side.
    """
    inner = left_shares.shape[0]
    zero = gates.dtype.type(0)
    kept = gates.dtype.type(1) - smoothing
    path = np.empty(64, gates.dtype)
    for n in range(first, last):
        begin = offsets[targets[n]]
        length = offsets[targets[n] + 1] - begin
        if path.shape[0] < length:
            path = np.empty(length, gates.dtype)
        on_path = zero
        for j in range(length):
            sign = gates.dtype.type(signs[begin + j])
            x = sign * gates[n, nodes[begin + j]]
            log_term, larger, smaller = gate_terms(x)
            on_path += log_term + max(-x, zero)
            path[j] = -sign * kept * (smaller if x >= zero else larger)
        everywhere = zero
        for m in range(inner):
            gate = gates[n, m]
            log_term, larger, smaller = gate_terms(gate)
            left, right = left_shares[m], right_shares[m]
            everywhere += (left + right) * log_term
            everywhere += left * max(-gate, zero) + right * max(gate, zero)
            to_right = smaller if gate >= zero else larger
            to_left = larger if gate >= zero else smaller
            gates[n, m] = smoothing * (right * to_left - left * to_right)
        for j in range(length):
            gates[n, nodes[begin + j]] += path[j]
        losses[n] = kept * on_path + smoothing * everywhere


@kernel
def tie_rows(question: Any, deviation: Any, asked: Any, slots: Any, out: Any) -> None:
    """Set out (M, D) to each gate's question, plus its deviation where it has one."""
    for gate in range(asked.shape[0]):
        row, slot = asked[gate], slots[gate]
        if slot >= 0:
            for i in range(out.shape[1]):
                out[gate, i] = question[row, i] + deviation[slot, i]
        else:
            for i in range(out.shape[1]):
                out[gate, i] = question[row, i]


@kernel
def untie_gradients(
    grads: Any, asked: Any, slots: Any, question_grads: Any, deviation_grads: Any
) -> None:
    """Add the gates' gradients (M, D) to their questions', which start at 0, and deviations'."""
    for gate in range(asked.shape[0]):
        row, slot = asked[gate], slots[gate]
        if slot >= 0:
            for i in range(grads.shape[1]):
                question_grads[row, i] += grads[gate, i]
                deviation_grads[slot, i] = grads[gate, i]
        else:
            for i in range(grads.shape[1]):
                question_grads[row, i] += grads[gate, i]
