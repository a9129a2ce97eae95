"""The paper's search: a beam over several levels of the tree at once, by encoded paths."""

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from arborvox.hsoftmax.reference import LARGEST_DENSE_GATES
from arborvox.hsoftmax.tables import DEAD, SearchTree, TreeTables


class Beam(NamedTuple):
    """What a beam search found, and whether it is provably what an exact search would find."""

    values: Tensor  # (N, k) log-probabilities, best first; -inf where fewer than k were found
    ids: Tensor  # (N, k)
    certain: Tensor  # (N,) bool: the k-th best is not below anything that was pruned


class PathBlocks(NamedTuple):
    """For each inner node, the paths of its descendants `layers` levels below it."""

    nodes: Tensor  # (M, E, layers) gates on the way to each of E = 2^layers ends
    signs: Tensor  # (M, E, layers) +1 left, -1 right, 0 past a leaf
    ends: Tensor  # (M, E) c >= 0: inner node; c < 0: leaf ~c; DEAD: no such end


def encode_blocks(search: SearchTree, layers: int) -> PathBlocks:
    """Write down, for every inner node, the ways through the next `layers` levels."""
    M = len(search.left)
    ends: NDArray[np.int64] = np.arange(M, dtype=np.int64)[:, None]  # (M, 1)
    nodes, signs = np.zeros((M, 1, 0), np.int64), np.zeros((M, 1, 0), np.int8)
    for _ in range(layers):
        inner = ends >= 0
        node = np.where(inner, ends, 0)
        # A leaf stays where it is as its own left child; its right child does not exist.
        left = np.where(inner, search.left[node], ends)
        right = np.where(inner, search.right[node], DEAD)
        ends = np.stack((left, right), axis=2).reshape(M, -1)
        turn = np.where(inner, 1, 0).astype(np.int8)
        turns = np.stack((turn, -turn), axis=2).reshape(M, -1, 1)
        nodes = np.concatenate(
            (np.repeat(nodes, 2, axis=1), np.repeat(node, 2, axis=1)[:, :, None]), axis=2
        )
        signs = np.concatenate((np.repeat(signs, 2, axis=1), turns), axis=2)
    return PathBlocks(torch.from_numpy(nodes), torch.from_numpy(signs), torch.from_numpy(ends))


def topk_beam(
    h: Tensor, weight: Tensor, tables: TreeTables, blocks: PathBlocks, k: int, width: int
) -> Beam:
    """Keep the `width` best inner nodes at each step, and the k best leaves met so far."""
    N = h.shape[0]
    layers = blocks.signs.shape[2]
    few = tables.num_inner <= LARGEST_DENSE_GATES
    every_gate = functional.linear(h, weight[tables.node_rows]) if few else None  # (N, M)
    front = torch.zeros(N, 1, dtype=torch.int64, device=h.device)  # inner nodes
    front_scores = weight.new_zeros(N, 1)
    values = weight.new_full((N, k), -torch.inf)
    leaves = torch.zeros(N, k, dtype=torch.int64, device=h.device)
    pruned = weight.new_full((N,), -torch.inf)  # the best score that was dropped
    for _ in range(-(-tables.depth // layers)):
        nodes, signs, ends = (table[front] for table in blocks)  # (N, B, E, layers), (N, B, E)
        gates = _gates(h, weight, tables, nodes, every_gate)
        turns = torch.where(signs == 0, 0.0, functional.logsigmoid(gates * signs))
        scores = (front_scores[:, :, None] + turns.sum(dim=3)).flatten(1)  # (N, B * E)
        ends = ends.flatten(1)

        leaf_scores = scores.masked_fill((ends >= 0) | (ends == DEAD), -torch.inf)
        values, places = torch.cat((values, leaf_scores), dim=1).topk(k, dim=1)
        leaves = torch.cat((leaves, torch.where(ends < 0, ~ends, 0)), dim=1).gather(1, places)

        inner_scores = scores.masked_fill(ends < 0, -torch.inf)
        ranked, places = inner_scores.sort(dim=1, descending=True)
        if ranked.shape[1] > width:
            pruned = torch.maximum(pruned, ranked[:, width])
        front_scores = ranked[:, :width]
        # Places that hold no inner node stay in the beam with a score of -inf.
        front = ends.gather(1, places[:, :width]).clamp(min=0)
    leaves = leaves.clamp(max=tables.num_leaves - 1)
    return Beam(values, tables.leaf_ids[leaves], values[:, -1] >= pruned)


def _gates(
    h: Tensor, weight: Tensor, tables: TreeTables, nodes: Tensor, every_gate: Tensor | None
) -> Tensor:
    """Return each row's gates at its own nodes (N, ...), picked from all if all are known."""
    if every_gate is not None:
        return every_gate.gather(1, nodes.flatten(1)).view_as(nodes)
    rows = weight[tables.node_rows[nodes.flatten(1)]]  # (N, nodes, D)
    return torch.bmm(rows, h[:, :, None]).view(nodes.shape)
