"""What output layers refuse, and how NaN and infinity pass through them."""

import pytest
import torch

from arborvox.errors import ArborvoxError
from arborvox.hsoftmax import HierarchicalSoftmax, OutputLayer, Softmax, warm_up
from arborvox.tree import HuffmanTree

TREE = HuffmanTree.from_counts([50, 30, 12, 5, 3])
LAYERS = [
    Softmax(4, 5),
    HierarchicalSoftmax(4, TREE, kernel="numba"),
    HierarchicalSoftmax(4, TREE, kernel="reference"),
    HierarchicalSoftmax(4, TREE, kernel="numba", label_smoothing=0.1),
]
each_layer = pytest.mark.parametrize("layer", LAYERS)


@each_layer
@pytest.mark.parametrize("target", [-1, 5, 1 << 40])
def test_targets_that_are_no_token_are_named(layer: OutputLayer, target: int) -> None:
    with pytest.raises(ArborvoxError, match=rf"Target {target} in row 2 is no token.*0 to 4"):
        layer.nll(torch.zeros(3, 4), torch.tensor([0, 4, target]))


@each_layer
def test_shapes_that_do_not_fit_are_named(layer: OutputLayer) -> None:
    with pytest.raises(ArborvoxError, match=r"\(N, 4\), but they have \(3, 5\)"):
        layer.nll(torch.zeros(3, 5), torch.zeros(3, dtype=torch.long))
    with pytest.raises(ArborvoxError, match=r"\(N, 4\), but they have \(2, 3, 4\)"):
        layer.log_probs(torch.zeros(2, 3, 4))
    with pytest.raises(ArborvoxError, match="one target for each of 3 rows"):
        layer.nll(torch.zeros(3, 4), torch.zeros(2, dtype=torch.long))
    with pytest.raises(ArborvoxError, match=r"must be token ids.*float32"):
        layer.nll(torch.zeros(3, 4), torch.zeros(3))


@each_layer
@pytest.mark.parametrize("k", [0, 6, -1])
def test_k_outside_the_vocabulary_is_refused(layer: OutputLayer, k: int) -> None:
    with pytest.raises(ArborvoxError, match=rf"1\.\.5, but it is {k}"):
        layer.topk(torch.zeros(3, 4), k)


@each_layer
def test_no_rows_give_no_results(layer: OutputLayer) -> None:
    h, targets = torch.zeros(0, 4, requires_grad=True), torch.zeros(0, dtype=torch.long)
    losses = layer.nll(h, targets)
    losses.sum().backward()
    assert losses.shape == (0,)
    assert h.grad.shape == (0, 4)
    assert layer.log_probs(h).shape == (0, 5)
    assert [part.shape for part in layer.topk(h, 2)] == [(0, 2), (0, 2)]


@each_layer
@pytest.mark.parametrize("k", [1, 2, 5])
def test_nan_stays_in_its_row(layer: OutputLayer, k: int) -> None:
    h = torch.ones(3, 4)
    h[1, 2] = torch.nan
    targets = torch.tensor([0, 1, 2])
    nan_rows = [False, True, False]
    assert layer.nll(h, targets).isnan().tolist() == nan_rows
    assert layer.log_probs(h).isnan().all(dim=1).tolist() == nan_rows
    assert layer.log_probs(h).isnan().any(dim=1).tolist() == nan_rows
    values, ids = layer.topk(h, k)
    assert values.isnan().all(dim=1).tolist() == nan_rows
    assert ((ids >= 0) & (ids < 5)).all()


@pytest.mark.parametrize("kernel", ["numba", "reference"])
def test_infinite_gates_are_certain_turns(kernel: str) -> None:
    layer = HierarchicalSoftmax(1, TREE, kernel=kernel)
    torch.nn.init.ones_(layer.weight)
    scores = layer.log_probs(torch.tensor([[torch.inf]]))
    assert (scores.abs() < 1e-30).sum() == 1
    assert (scores == -torch.inf).sum() == 4
    assert layer.topk(torch.tensor([[torch.inf]]), 1)[1].item() == scores.argmax().item()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"label_smoothing": 1.0}, "below 1"),
        ({"label_smoothing": -0.1}, "at least 0"),
        ({"smoothing": "paths"}, "Unknown smoothing 'paths'"),
        ({"kernel": "fortran"}, "Unknown kernel 'fortran'"),
        ({"sparse": True, "label_smoothing": 0.1}, "cannot be sparse"),
    ],
)
def test_options_that_do_not_fit_are_refused(options: dict, message: str) -> None:
    with pytest.raises(ArborvoxError, match=message):
        HierarchicalSoftmax(4, TREE, **options)


def test_sizes_that_make_no_layer_are_refused() -> None:
    with pytest.raises(ArborvoxError, match="at least 2 tokens"):
        Softmax(4, 1)
    with pytest.raises(ArborvoxError, match="at least 1"):
        HierarchicalSoftmax(0, TREE)


def test_beam_needs_a_width() -> None:
    with pytest.raises(ArborvoxError, match="width 0"):
        LAYERS[1].topk_beam(torch.zeros(1, 4), 1, width=0)


def test_a_layer_says_what_it_is() -> None:
    text = repr(HierarchicalSoftmax(4, TREE, label_smoothing=0.1, kernel="numba"))
    for part in ("huffman", "5 leaves", "label_smoothing=0.1", "kernel='numba'"):
        assert part in text


def test_warm_up_runs_every_kernel() -> None:
    warm_up()
