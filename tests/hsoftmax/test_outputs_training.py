"""H-Softmax in training: gradients of every kind, precision, processes, and what it can fit."""

import copy
import io
import pickle
import socket
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.multiprocessing as processes
from torch import Tensor
from torch.nn import functional

from arborvox.hsoftmax import HierarchicalSoftmax, OutputLayer, Softmax
from arborvox.tree import HuffmanTree

V, D, N = 60, 16, 700
TREE = HuffmanTree.from_counts(1 / np.arange(1, V + 1))


def _rows(seed: int = 0) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    h = torch.randn(N, D, generator=generator, requires_grad=True)
    return h, torch.randint(0, V, (N,), generator=generator)


def _layer(**options: object) -> HierarchicalSoftmax:
    torch.manual_seed(0)
    return HierarchicalSoftmax(D, TREE, **options)


def test_sparse_gradients_equal_dense_ones() -> None:
    h, targets = _rows()
    targets = targets % 7  # many gates are never met
    for kernel in ("numba", "reference"):
        dense, sparse = _layer(kernel=kernel), _layer(kernel=kernel, sparse=True)
        dense.nll(h, targets).sum().backward()
        sparse.nll(h, targets).sum().backward()
        assert sparse.weight.grad.is_sparse
        torch.testing.assert_close(sparse.weight.grad.to_dense(), dense.weight.grad)


def test_sparse_gradients_touch_only_gates_that_were_met() -> None:
    layer = _layer(sparse=True)
    layer.nll(torch.ones(3, D), torch.full((3,), 5)).sum().backward()
    begin, end = TREE.paths().offsets[5:7]
    met = layer.weight.grad.coalesce().indices()[0].tolist()
    assert met == sorted(TREE.paths().nodes[begin:end].tolist())


@pytest.mark.parametrize("optimizer", [torch.optim.SparseAdam, torch.optim.SGD])
def test_sparse_gradients_train(optimizer: type) -> None:
    layer, (h, targets) = _layer(sparse=True), _rows()
    steps = optimizer(layer.parameters(), lr=0.1)
    before = layer.nll(h, targets).mean().item()
    for _ in range(20):
        steps.zero_grad()
        layer.nll(h.detach(), targets).mean().backward()
        steps.step()
    assert layer.nll(h, targets).mean().item() < before - 0.1


@pytest.mark.parametrize("options", [{}, {"label_smoothing": 0.1}, {"sparse": True}])
def test_accumulated_gradients_are_those_of_the_whole_batch(options: dict) -> None:
    whole, parts, (h, targets) = _layer(**options), _layer(**options), _rows()
    (whole.nll(h, targets).sum() / N).backward()
    for rows in torch.arange(N).split(N // 4):
        (parts.nll(h[rows], targets[rows]).sum() / N).backward()
    made, wanted = (
        g.to_dense() if g.is_sparse else g for g in (parts.weight.grad, whole.weight.grad)
    )
    torch.testing.assert_close(made, wanted, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_backward_twice_gives_the_same_gradients(smoothing: float) -> None:
    layer, (h, targets) = _layer(label_smoothing=smoothing), _rows()
    loss = layer.nll(h, targets).mean() + layer.log_probs(h).mean()
    first = torch.autograd.grad(loss, (h, layer.weight), retain_graph=True)
    second = torch.autograd.grad(loss, (h, layer.weight))
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


def test_threads_change_no_bit() -> None:
    before = torch.get_num_threads()
    results = []
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            layer, (h, targets) = _layer(), _rows()
            losses = layer.nll(h, targets)
            losses.mean().backward()
            results.append((losses, h.grad, layer.weight.grad))
    finally:
        torch.set_num_threads(before)
    assert all(torch.equal(a, b) for a, b in zip(*results, strict=True))


@pytest.mark.parametrize("kernel", ["numba", "reference"])
@pytest.mark.parametrize("options", [{}, {"label_smoothing": 0.1}])
def test_autocast_changes_only_rounding(kernel: str, options: dict) -> None:
    layer, (h, targets) = _layer(kernel=kernel, **options), _rows()
    short = h.detach().bfloat16().requires_grad_()
    with torch.autocast("cpu", torch.bfloat16):
        losses = layer.nll(short, targets)
        scores = layer.log_probs(short)
    losses.mean().backward()
    assert losses.dtype == scores.dtype == torch.float32
    assert short.grad.dtype == torch.bfloat16
    torch.testing.assert_close(losses, layer.nll(h, targets), rtol=0.02, atol=0.02)
    torch.testing.assert_close(scores, layer.log_probs(h), rtol=0.02, atol=0.02)


def test_bfloat16_layers_compute_in_float32() -> None:
    layer, (h, targets) = _layer().bfloat16(), _rows()
    losses = layer.nll(h.bfloat16(), targets)
    losses.mean().backward()
    assert losses.dtype == torch.float32
    assert layer.weight.grad.dtype == torch.bfloat16
    values, ids = layer.topk(h.bfloat16(), 3)
    torch.testing.assert_close(values, layer.log_probs(h.bfloat16()).gather(1, ids))


@pytest.mark.parametrize("kernel", ["auto", "reference"])
@pytest.mark.parametrize("options", [{}, {"label_smoothing": 0.1}])
def test_compiled_layers_trace_whole_and_give_the_same(kernel: str, options: dict) -> None:
    layer, (h, targets) = _layer(kernel=kernel, **options), _rows()
    compiled = torch.compile(layer, backend="aot_eager", fullgraph=True)
    losses = compiled(h, targets)
    torch.testing.assert_close(losses, layer(h, targets))
    made = torch.autograd.grad(losses.mean(), (h, layer.weight))
    wanted = torch.autograd.grad(layer(h, targets).mean(), (h, layer.weight))
    for a, b in zip(made, wanted, strict=True):
        torch.testing.assert_close(a, b)


def test_rows_that_are_not_contiguous_give_the_same() -> None:
    layer, (h, targets) = _layer(), _rows()
    turned = h.detach().t().contiguous().t()
    assert not turned.is_contiguous()
    assert torch.equal(layer.nll(turned, targets), layer.nll(h, targets))
    assert torch.equal(layer.topk(turned, 4)[1], layer.topk(h, 4)[1])


def test_copies_and_pickles_are_the_same_layer() -> None:
    layer, (h, targets) = _layer(label_smoothing=0.1, smoothing="gates"), _rows()
    layer.topk_beam(h, 2)
    for other in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        assert torch.equal(other.nll(h, targets), layer.nll(h, targets))
        assert torch.equal(other.topk(h, 3)[1], layer.topk(h, 3)[1])


def test_the_state_is_the_weight_alone() -> None:
    layer = _layer()
    assert list(layer.state_dict()) == ["weight"]
    file = io.BytesIO()
    torch.save(layer.state_dict(), file)
    file.seek(0)
    other = HierarchicalSoftmax(D, TREE)
    other.load_state_dict(torch.load(file, weights_only=True))
    assert torch.equal(other.weight, layer.weight)


def test_ctc_reads_the_blank_as_a_leaf() -> None:
    tree = TREE.with_leaf(0.4)
    results = []
    for kernel in ("numba", "reference"):
        torch.manual_seed(0)
        layer = HierarchicalSoftmax(D, tree, kernel=kernel)
        h = torch.randn(20 * 2, D, generator=torch.Generator().manual_seed(0))
        scores = layer.log_probs(h).view(20, 2, V + 1)  # (T, B, V + 1)
        tokens = torch.tensor([[1, 2, 3, 3], [4, 5, 6, 0]])
        lens, token_lens = torch.tensor([20, 15]), torch.tensor([4, 3])
        loss = functional.ctc_loss(scores, tokens, lens, token_lens, blank=V)
        loss.backward()
        results.append((loss, layer.weight.grad))
    for a, b in zip(*results, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", ["softmax", "hierarchical"])
def test_both_layers_reach_the_entropy_of_the_data(kind: str) -> None:
    # Three contexts, each with its own distribution over 8 tokens, and one-hot hidden vectors.
    wanted = torch.tensor(np.random.default_rng(0).dirichlet(np.full(8, 0.7), size=3))
    h = torch.eye(3, dtype=torch.float64)
    layer: OutputLayer
    if kind == "softmax":
        layer = Softmax(3, 8).double()
    else:
        layer = HierarchicalSoftmax(3, HuffmanTree.from_counts(wanted.sum(0).numpy())).double()
    steps = torch.optim.LBFGS(layer.parameters(), max_iter=500, line_search_fn="strong_wolfe")
    rows, targets = h.repeat_interleave(8, dim=0), torch.arange(8).repeat(3)

    def closure() -> Tensor:
        steps.zero_grad()
        loss = (layer.nll(rows, targets) * wanted.flatten()).sum()
        loss.backward()
        return loss

    for _ in range(5):
        steps.step(closure)
    torch.testing.assert_close(layer.log_probs(h).exp(), wanted, atol=1e-4, rtol=0)


def _train_in_process(rank: int, port: int, folder: str) -> None:
    torch.set_num_threads(1)
    torch.distributed.init_process_group(
        "gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=2
    )
    layer = _layer()
    shared = torch.nn.parallel.DistributedDataParallel(layer)
    h, targets = _rows()
    half = slice(rank * N // 2, (rank + 1) * N // 2)
    shared(h[half], targets[half]).mean().backward()
    torch.save(layer.weight.grad, Path(folder) / f"{rank}.pt")
    torch.distributed.destroy_process_group()


def test_two_processes_get_the_gradient_of_the_whole_batch(tmp_path: Path) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    processes.spawn(_train_in_process, (port, str(tmp_path)), nprocs=2)
    layer, (h, targets) = _layer(), _rows()
    layer.nll(h, targets).mean().backward()
    for rank in range(2):
        made = torch.load(tmp_path / f"{rank}.pt", weights_only=True)
        torch.testing.assert_close(made, layer.weight.grad, rtol=1e-4, atol=1e-6)
