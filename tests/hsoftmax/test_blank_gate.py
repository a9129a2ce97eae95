"""A leaf beside the root that has more than half of the mass is found by one gate, exactly."""

import numpy as np
import pytest
import torch

from arborvox.hsoftmax import HierarchicalSoftmax
from arborvox.tree import HuffmanTree


@pytest.mark.parametrize("blank_mass", [0.5, 0.9])  # on the left, and on the right
@pytest.mark.parametrize("V", [2, 5, 300])
@pytest.mark.parametrize("scale", [0.3, 5.0])
def test_the_best_label_is_that_of_the_full_search(V: int, blank_mass: float, scale: float) -> None:
    torch.manual_seed(V)
    tree = HuffmanTree.from_counts(np.random.default_rng(V).random(V) + 0.01).with_leaf(blank_mass)
    layer = HierarchicalSoftmax(24, tree, kernel="numba")
    torch.nn.init.normal_(layer.weight, std=scale / 24**0.5)
    h = torch.randn(400, 24)
    with torch.no_grad():
        values, ids = layer.topk(h, 1)
        full = layer.log_probs(h)
    assert torch.equal(ids[:, 0], full.argmax(dim=1))
    torch.testing.assert_close(values[:, 0], full.max(dim=1).values, rtol=2e-5, atol=2e-5)
    if scale > 1:  # else the blank is always the best
        assert 0 < (ids == V).float().mean() < 1


def test_rows_with_nan_and_infinite_gates_keep_their_meaning() -> None:
    layer = HierarchicalSoftmax(2, HuffmanTree.from_counts([3, 2, 1]).with_leaf(0.5))
    h = torch.tensor([[torch.nan, 0.0], [1.0, 1.0]])
    with torch.no_grad():
        layer.weight[0] = torch.tensor([torch.inf, 1.0])
        values, ids = layer.topk(h, 1)
    assert values[0].isnan().all()
    assert ids[1] == 3
    assert values[1] == pytest.approx(0.0, abs=1e-30)
