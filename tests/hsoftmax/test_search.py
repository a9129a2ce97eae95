"""Search kernels: exact whatever the shape of the tree, and over pruned trees."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from arborvox.errors import ArborvoxError
from arborvox.hsoftmax import cpu, reference
from arborvox.hsoftmax.tables import DEAD, SearchTree, TreeTables
from arborvox.tree import CodeTree, HuffmanTree

LAWS = settings(deadline=None, derandomize=True, max_examples=60)


def _tree(V: int, skew: float, seed: int) -> CodeTree:
    """From a balanced tree (skew 0) to nearly a chain (skew 30)."""
    return HuffmanTree.from_counts(np.random.default_rng(seed).random(V) ** skew + 1e-12)


def _normal(*shape: int, seed: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@LAWS
@given(
    V=st.integers(2, 300),
    skew=st.sampled_from([0.0, 1.0, 5.0, 30.0]),
    scale=st.sampled_from([0.01, 1.0, 20.0]),
    share=st.floats(0, 1),
    seed=st.integers(0, 1000),
)
def test_topk_is_the_sorted_reference(
    V: int, skew: float, scale: float, share: float, seed: int
) -> None:
    tables = TreeTables.of_tree(_tree(V, skew, seed))
    h, weight = _normal(5, 8, seed=seed), scale * _normal(V - 1, 8, seed=seed + 1)
    k = 1 + int(share * (V - 1))
    values, ids = cpu.topk(h, weight, tables, k)
    scores = reference.log_probs(h, weight, tables)
    torch.testing.assert_close(values, scores.sort(dim=1, descending=True).values[:, :k])
    torch.testing.assert_close(values, scores.gather(1, ids))
    assert all(len(set(row)) == k for row in ids.tolist())


@pytest.mark.parametrize("k", [1, 2, 3, 10, 70, 200])
@pytest.mark.parametrize("V", [200, 3000])
def test_equal_scores_come_by_token_id(V: int, k: int) -> None:
    tree = _tree(V, 2.0, seed=0)
    tables = TreeTables.of_tree(tree)
    h, weight = torch.ones(3, 4), torch.zeros(V - 1, 4)  # every gate is one half
    expected = sorted(range(V), key=lambda token: (tree.depths()[token], token))[:k]
    assert cpu.topk(h, weight, tables, k)[1].tolist() == [expected] * 3
    assert reference.topk(h, weight, tables, k)[1].tolist() == [expected] * 3


def test_rows_that_open_too_many_gates_are_finished_another_way() -> None:
    V = 4096  # balanced and flat: every leaf is as good as the next
    tables = TreeTables.of_tree(_tree(V, 0.0, seed=0))
    h = torch.cat((torch.zeros(2, 4), _normal(2, 4, seed=0)))
    weight = 5 * _normal(V - 1, 4, seed=1)
    values, ids = cpu.topk(h, weight, tables, 3)
    expected = reference.topk(h, weight, tables, 3)
    torch.testing.assert_close(values, expected[0])
    assert torch.equal(ids, expected[1])


@pytest.mark.parametrize("k", [1, 10])
def test_threads_change_nothing(k: int) -> None:
    tables = TreeTables.of_tree(_tree(500, 3.0, seed=0))
    h, weight = _normal(300, 16, seed=0), _normal(499, 16, seed=1)
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        alone = cpu.topk(h, weight, tables, k)
        torch.set_num_threads(2)
        together = cpu.topk(h, weight, tables, k)
    finally:
        torch.set_num_threads(before)
    assert torch.equal(alone[0], together[0])
    assert torch.equal(alone[1], together[1])


# Tokens 0, 2, 3 of a tree of four; token 1 is pruned, so node 1 has one living side.
#        0
#      1   2         node 1: token 0 | dead, node 2: token 2 | token 3
PRUNED = SearchTree(
    node_rows=np.array([4, 1, 3], np.int32),
    left=np.array([1, ~0, ~1], np.int32),
    right=np.array([2, DEAD, ~2], np.int32),
    leaf_ids=np.array([0, 2, 3], np.int64),
)


@pytest.mark.parametrize("kernels", [cpu, reference])
def test_pruned_trees_keep_the_scores_of_the_living(kernels: object) -> None:
    tables = TreeTables.of_pruned(PRUNED)
    h, weight = _normal(6, 4, seed=0), _normal(5, 4, seed=1)
    root, first, second = (h @ weight[[4, 1, 3]].T).T
    log = torch.nn.functional.logsigmoid
    expected = torch.stack(
        (log(root) + log(first), log(-root) + log(second), log(-root) + log(-second)), dim=1
    )
    torch.testing.assert_close(kernels.log_probs(h, weight, tables), expected)  # type: ignore[attr-defined]
    values, ids = kernels.topk(h, weight, tables, 3)  # type: ignore[attr-defined]
    columns = torch.tensor([0, -1, 1, 2])[ids]
    torch.testing.assert_close(values, expected.gather(1, columns))
    scores, tokens = kernels.greedy(h, weight, tables)  # type: ignore[attr-defined]
    columns = torch.tensor([0, -1, 1, 2])[tokens]
    torch.testing.assert_close(scores, expected.gather(1, columns[:, None]).squeeze(1))


def test_pruned_leaves_must_rise() -> None:
    with pytest.raises(ArborvoxError, match="must rise"):
        TreeTables.of_pruned(PRUNED._replace(leaf_ids=np.array([0, 3, 2], np.int64)))
