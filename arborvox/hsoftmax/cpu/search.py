"""Exact search in the tree on a CPU, best nodes first.

A tree is given as node_rows (row of the weight of each gate), left and right (children; c >= 0 is
an inner node, c < 0 is leaf ~c, DEAD is a side that was pruned away), and leaf_ids (tokens).

Scores only fall along a path, so no leaf below a waiting node can beat that node: the search ends
when k leaves are better than all that waits. At equal scores it goes on, because a lower token id
may be found. What costs time is not only inner products but branches that no processor can predict;
for one or two results a queue is best, for more results waves of nodes, opened four at a time.
"""

from typing import Any

import numpy as np
from numba import carray

from arborvox.hsoftmax.cpu.dots import one_dot, open_gates
from arborvox.hsoftmax.tables import DEAD
from arborvox.kernels.compiling import kernel, pointer_from_address
from arborvox.kernels.gate_math import gate_terms

HALF = np.uint64(32)
LOW_HALF = np.uint64(0xFFFFFFFF)
ZERO = np.float32(0.0)
NO_SCORE = np.float32(-np.inf)
# Gates near the root that nearly every search opens, so they are opened together.
NUM_TOP = 16
# A wave opens all nodes whose log-probability is within this of the best one that waits.
WAVE_REACH = np.float32(1.5)


@kernel
def queue_entry(score: Any, node: int) -> Any:
    """Pack a score (never above 0) and a node so that a better score is a smaller number."""
    # The bits of a non-negative float grow with its value; 0.0 - score also makes -0.0 a 0.0.
    cost_bits = np.float32(ZERO - score).view(np.uint32)
    return (np.uint64(cost_bits) << HALF) | np.uint64(node)


@kernel
def entry_score(entry: Any) -> Any:
    """Unpack the score of a queue entry."""
    return -np.uint32(entry >> HALF).view(np.float32)


@kernel
def entry_node(entry: Any) -> Any:
    """Unpack the node of a queue entry."""
    return np.int32(entry & LOW_HALF)


@kernel
def push(heap: Any, size: int, entry: Any) -> int:
    """Put an entry on the heap; returns the new size."""
    place = size
    while place > 0:
        parent = (place - 1) >> 1
        if heap[parent] <= entry:
            break
        heap[place] = heap[parent]
        place = parent
    heap[place] = entry
    return size + 1


@kernel
def pop(heap: Any, size: int) -> int:
    """Take the smallest entry, heap[0], off the heap; returns the new size."""
    size -= 1
    entry = heap[size]
    place = 0
    child = 1
    while child < size:
        if child + 1 < size and heap[child + 1] < heap[child]:
            child += 1
        if heap[child] >= entry:
            break
        heap[place] = heap[child]
        place = child
        child = 2 * place + 1
    heap[place] = entry
    return size


@kernel
def keep_leaf(values: Any, ids: Any, n: int, found: int, k: int, score: Any, token: int) -> int:
    """Insert a leaf into the row's sorted list of at most k; returns how many it holds."""
    if found == k:
        last = values[n, k - 1]
        if score < last or (score == last and token > ids[n, k - 1]):
            return found
        place = k - 1
    else:
        place = found
        found += 1
    while place > 0:
        above = values[n, place - 1]
        if above > score or (above == score and ids[n, place - 1] < token):
            break
        values[n, place] = above
        ids[n, place] = ids[n, place - 1]
        place -= 1
    values[n, place] = score
    ids[n, place] = token
    return found


@kernel
def fill_with_nan(values: Any, ids: Any, n: int, k: int, leaf_ids: Any) -> None:
    """Answer a row that has NaN: there is no order, so its ids are the first k."""
    for i in range(k):
        values[n, i] = np.nan
        ids[n, i] = leaf_ids[i]


@kernel
def search_by_queue(
    weight: Any,
    node_rows: Any,
    left: Any,
    right: Any,
    leaf_ids: Any,
    h: Any,
    first: int,
    last: int,
    limit: int,
    values: Any,
    ids: Any,
) -> int:
    """Search rows one node at a time; returns how many rows needed more than `limit` gates.

    Only inner nodes wait in the queue, and the better child of the open node may skip it. A leaf
    beside the root, as CTC's blank is, that has more than half of the mass is the best one: such a
    row costs one inner product.
    """
    k = values.shape[1]
    leaf_on_left = left[0] < 0 and left[0] != DEAD
    leaf_on_right = right[0] < 0 and right[0] != DEAD
    root_decides = k == 1 and (leaf_on_left or leaf_on_right)
    heap = np.empty(limit + 2, np.uint64)
    num_top = min(NUM_TOP, left.shape[0])
    top = np.arange(num_top)
    top_gates = np.empty(num_top, np.float32)
    top_terms = np.empty(num_top, np.float32)
    unfinished = 0
    for n in range(first, last):
        if root_decides:
            gate = one_dot(weight, node_rows[0], h, n)
            if (leaf_on_left and gate > ZERO) or (leaf_on_right and gate < ZERO):
                values[n, 0] = -gate_terms(gate)[0]
                ids[n, 0] = leaf_ids[~(left[0] if gate > ZERO else right[0])]
                continue
        open_gates(weight, node_rows, top, num_top, h, n, top_gates)
        for i in range(num_top):
            top_terms[i] = gate_terms(top_gates[i])[0]
        found, size, node = 0, 0, 0
        score = ZERO
        worst = NO_SCORE  # of the k leaves, once there are k
        done = False
        for _ in range(limit):
            if node < num_top:
                gate, log_term = top_gates[node], top_terms[node]
            else:
                gate = one_dot(weight, node_rows[node], h, n)
                log_term = gate_terms(gate)[0]
            if gate != gate:
                fill_with_nan(values, ids, n, k, leaf_ids)
                done = True
                break
            better_score = score - log_term
            worse_score = better_score - abs(gate)
            better, worse = left[node], right[node]
            if gate < ZERO:
                better, worse = worse, better
            if better < 0 and better != DEAD:
                found = keep_leaf(values, ids, n, found, k, better_score, leaf_ids[~better])
            if worse < 0 and worse != DEAD:
                found = keep_leaf(values, ids, n, found, k, worse_score, leaf_ids[~worse])
            if found == k:
                worst = values[n, k - 1]
            if worse >= 0 and worse_score >= worst:
                size = push(heap, size, queue_entry(worse_score, worse))
            if better >= 0 and better_score >= worst:
                entry = queue_entry(better_score, better)
                if size == 0 or heap[0] >= entry:
                    node, score = better, better_score
                    continue
                size = push(heap, size, entry)
            if size == 0:
                done = True
                break
            node, score = entry_node(heap[0]), entry_score(heap[0])
            size = pop(heap, size)
            if score < worst:
                done = True
                break
        if not done:
            ids[n, 0] = -1
            unfinished += 1
    return unfinished


@kernel
def search_by_waves(
    weight: Any,
    node_rows: Any,
    left: Any,
    right: Any,
    leaf_ids: Any,
    h: Any,
    first: int,
    last: int,
    limit: int,
    values: Any,
    ids: Any,
) -> int:
    """Search rows in waves of the best nodes; returns how many needed more than `limit` gates.

    Lists are filled without branches: an entry is always written, and kept by moving the end.
    """
    k = values.shape[1]
    room = left.shape[0] + 2
    waiting, waiting_scores = np.empty(room, np.int32), np.empty(room, np.float32)
    wave, wave_scores = np.empty(room, np.int32), np.empty(room, np.float32)
    gates, terms = np.empty(room, np.float32), np.empty(room, np.float32)
    unfinished = 0
    for n in range(first, last):
        found, opened = 0, 0
        worst = NO_SCORE  # of the k leaves, once there are k
        waiting[0], waiting_scores[0], num_waiting = 0, ZERO, 1
        best = ZERO  # of all that waits
        nan_seen = False
        while num_waiting > 0 and best >= worst and opened <= limit and not nan_seen:
            least = max(best - WAVE_REACH, worst)
            width, stay = 0, 0
            best = NO_SCORE
            for j in range(num_waiting):
                node, score = waiting[j], waiting_scores[j]
                goes = score >= least
                wave[width], wave_scores[width] = node, score
                width += goes
                waiting[stay], waiting_scores[stay] = node, score
                stays = (not goes) & (score >= worst)
                stay += stays
                best = score if stays & (score > best) else best
            num_waiting = stay
            opened += width
            open_gates(weight, node_rows, wave, width, h, n, gates)
            for j in range(width):
                terms[j] = gate_terms(gates[j])[0]
            for j in range(width):
                gate = gates[j]
                nan_seen |= gate != gate
                base = wave_scores[j] - terms[j]
                for side in range(2):
                    child = left[wave[j]] if side == 0 else right[wave[j]]
                    score = base - max(-gate if side == 0 else gate, ZERO)
                    good = score >= worst
                    inner = (child >= 0) & good
                    waiting[num_waiting], waiting_scores[num_waiting] = child, score
                    num_waiting += inner
                    best = score if inner & (score > best) else best
                    if (child < 0) & good & (child != DEAD):
                        found = keep_leaf(values, ids, n, found, k, score, leaf_ids[~child])
                        if found == k:
                            worst = values[n, k - 1]
        if nan_seen:
            fill_with_nan(values, ids, n, k, leaf_ids)
        elif num_waiting > 0 and best >= worst:
            ids[n, 0] = -1
            unfinished += 1
    return unfinished


@kernel
def search(
    by_queue: bool,
    h_address: int,
    weight_address: int,
    values: Any,
    ids: Any,
    D: int,
    weight_rows: int,
    limit: int,
    first: int,
    last: int,
    node_rows: Any,
    left: Any,
    right: Any,
    leaf_ids: Any,
) -> int:
    """Fill values (N, k) and ids (N, k) of rows first..last; the first id is -1 where it gave up.

    Addresses instead of arrays, because an array made of a tensor costs as much as searching a
    row; the caller vouches for contiguous float32 memory and the shapes.
    """
    h = carray(pointer_from_address(h_address), (values.shape[0], D), np.float32)
    weight = carray(pointer_from_address(weight_address), (weight_rows, D), np.float32)
    if by_queue:
        return search_by_queue(
            weight, node_rows, left, right, leaf_ids, h, first, last, limit, values, ids
        )
    return search_by_waves(
        weight, node_rows, left, right, leaf_ids, h, first, last, limit, values, ids
    )


@kernel
def greedy_path(
    weight: Any, node_rows: Any, left: Any, right: Any, leaf_ids: Any, h: Any, values: Any, ids: Any
) -> None:
    """Follow the likelier turn from the root to a leaf, for each row; values (N,), ids (N,)."""
    for n in range(h.shape[0]):
        score = h.dtype.type(0)
        node = 0
        while node >= 0:
            gate = one_dot(weight, node_rows[node], h, n)
            to_left = not gate < 0 if right[node] != DEAD else True
            to_left = to_left and left[node] != DEAD
            turn = gate if to_left else -gate
            score -= gate_terms(gate)[0] + max(-turn, h.dtype.type(0))
            node = left[node] if to_left else right[node]
        values[n] = score
        ids[n] = leaf_ids[~node]
