"""Laws that every output layer keeps, and H-Softmax in each of its implementations."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional

from arborvox.hsoftmax import HierarchicalSoftmax, OutputLayer, Softmax
from arborvox.tree import CodeTree, HuffmanTree

LAWS = settings(deadline=None, derandomize=True, max_examples=25)
KERNELS = ["reference", "numba"]
DTYPES = {torch.float32: 2e-5, torch.float64: 1e-9}  # and what rounding may do

cases = st.fixed_dictionaries(
    {
        "V": st.integers(2, 120),
        "D": st.integers(1, 40),
        "N": st.integers(0, 9),
        "skew": st.sampled_from([0.0, 1.0, 5.0, 40.0]),  # from balanced to a chain
        "scale": st.sampled_from([0.1, 1.0, 10.0]),
        "dtype": st.sampled_from(list(DTYPES)),
        "seed": st.integers(0, 1000),
    }
)


def _tree(case: dict) -> CodeTree:
    counts = np.random.default_rng(case["seed"]).random(case["V"]) ** case["skew"] + 1e-12
    return HuffmanTree.from_counts(counts)


def _layer(case: dict, kernel: str, **options: object) -> HierarchicalSoftmax:
    torch.manual_seed(case["seed"])
    layer = HierarchicalSoftmax(case["D"], _tree(case), kernel=kernel, **options)
    torch.nn.init.normal_(layer.weight, std=case["scale"] / case["D"] ** 0.5)
    return layer.to(case["dtype"])


def _rows(case: dict) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(case["seed"] + 1)
    h = torch.randn(case["N"], case["D"], generator=generator, dtype=case["dtype"])
    return h, torch.randint(0, case["V"], (case["N"],), generator=generator)


def _product_of_eq_1(layer: HierarchicalSoftmax, h: Tensor) -> Tensor:
    """P of every token as the paper writes it: sigma to the left, 1 - sigma to the right."""
    index, sign, bias = (torch.from_numpy(t) for t in layer.tree.path_tables())
    gates = torch.sigmoid(h @ layer.weight.T)[:, index.long()]  # (N, V, depth)
    return (sign * gates + bias).prod(dim=2)


def _close(made: Tensor, wanted: Tensor, dtype: torch.dtype) -> None:
    torch.testing.assert_close(made, wanted, rtol=DTYPES[dtype], atol=DTYPES[dtype])


@pytest.mark.parametrize("kernel", KERNELS)
@LAWS
@given(case=cases)
def test_probabilities_sum_to_one(kernel: str, case: dict) -> None:
    totals = _layer(case, kernel).log_probs(_rows(case)[0]).logsumexp(dim=1)
    _close(totals, torch.zeros_like(totals), case["dtype"])


@pytest.mark.parametrize("kernel", KERNELS)
@LAWS
@given(case=cases)
def test_nll_is_minus_log_prob(kernel: str, case: dict) -> None:
    layer, (h, targets) = _layer(case, kernel), _rows(case)
    at_targets = layer.log_probs(h).gather(1, targets[:, None]).squeeze(1)
    _close(layer.nll(h, targets), -at_targets, case["dtype"])


@pytest.mark.parametrize("kernel", KERNELS)
@LAWS
@given(case=cases, share=st.floats(0, 1))
def test_topk_scores_are_sorted_log_probs(kernel: str, case: dict, share: float) -> None:
    layer, (h, _) = _layer(case, kernel), _rows(case)
    k = 1 + int(share * (case["V"] - 1))
    values, ids = layer.topk(h, k)
    scores = layer.log_probs(h)
    _close(values, scores.sort(dim=1, descending=True).values[:, :k], case["dtype"])
    _close(values, scores.gather(1, ids), case["dtype"])


@pytest.mark.parametrize("kernel", KERNELS)
@LAWS
@given(case=cases)
def test_leaf_smoothing_is_the_mean_over_leaves(kernel: str, case: dict) -> None:
    layer, (h, targets) = _layer(case, kernel, label_smoothing=0.2), _rows(case)
    scores = layer.log_probs(h)
    at_targets = scores.gather(1, targets[:, None]).squeeze(1)
    wanted = -0.8 * at_targets - 0.2 * scores.mean(dim=1)
    _close(layer.nll(h, targets), wanted, case["dtype"])


@pytest.mark.parametrize("kernel", KERNELS)
@LAWS
@given(case=cases)
def test_gate_smoothing_is_the_mean_over_both_sides_of_the_path(kernel: str, case: dict) -> None:
    layer, (h, targets) = _layer(case, kernel, label_smoothing=0.2, smoothing="gates"), _rows(case)
    offsets, nodes, signs = layer.tree.paths()
    gates = h @ layer.weight.T
    losses = []
    for row, target in enumerate(targets.tolist()):
        path = slice(offsets[target], offsets[target + 1])
        x = gates[row, nodes[path].tolist()] * torch.tensor(signs[path].astype(np.float64))
        taken, other = functional.logsigmoid(x), functional.logsigmoid(-x)
        losses.append(-(0.9 * taken + 0.1 * other).sum())
    wanted = torch.stack(losses).to(case["dtype"]) if losses else torch.zeros(0, dtype=h.dtype)
    _close(layer.nll(h, targets), wanted, case["dtype"])


@pytest.mark.parametrize("kernel", KERNELS)
@LAWS
@given(case=cases, smoothing=st.sampled_from([0.0, 0.1]))
def test_gradients_are_autograds_of_eq_1(kernel: str, case: dict, smoothing: float) -> None:
    case = {**case, "dtype": torch.float64, "scale": min(case["scale"], 1.0)}
    layer, (h, targets) = _layer(case, kernel, label_smoothing=smoothing), _rows(case)
    upstream = torch.linspace(-1, 1, case["N"], dtype=torch.float64)
    h.requires_grad_()

    def gradients(losses: Tensor) -> tuple[Tensor, ...]:
        return torch.autograd.grad(losses @ upstream, (h, layer.weight), retain_graph=True)

    logs = _product_of_eq_1(layer, h).log()
    at_targets = logs.gather(1, targets[:, None]).squeeze(1)
    wanted = gradients(-(1 - smoothing) * at_targets - smoothing * logs.mean(dim=1))
    for a, b in zip(gradients(layer.nll(h, targets)), wanted, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-7, atol=1e-7)
    mixed = torch.linspace(-1, 1, case["V"], dtype=torch.float64)
    for a, b in zip(gradients(layer.log_probs(h) @ mixed), gradients(logs @ mixed), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize(
    "options", [{}, {"label_smoothing": 0.1}, {"label_smoothing": 0.1, "smoothing": "gates"}]
)
def test_gradients_pass_gradcheck(kernel: str, options: dict) -> None:
    case = {"V": 11, "D": 4, "N": 5, "skew": 3.0, "scale": 1.0, "dtype": torch.float64, "seed": 3}
    layer, (h, targets) = _layer(case, kernel, **options), _rows(case)
    h.requires_grad_()

    def losses(h: Tensor, weight: Tensor) -> Tensor:
        return torch.func.functional_call(layer, {"weight": weight}, (h, targets))

    assert torch.autograd.gradcheck(losses, (h, layer.weight))
    assert torch.autograd.gradcheck(layer.log_probs, (h,))


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("skew", [0.0, 60.0])
def test_extreme_gates_give_finite_values_and_right_gradients(
    kernel: str, smoothing: float, skew: float
) -> None:
    case = {"V": 12, "D": 1, "N": 12, "skew": skew, "scale": 1.0, "dtype": torch.float32, "seed": 0}
    layer = _layer(case, kernel, label_smoothing=smoothing)
    sides = torch.where(torch.arange(11) % 3 == 0, -1e4, 1e4)
    layer.weight.data = sides[:, None]
    h, targets = torch.ones(12, 1, requires_grad=True), torch.arange(12)
    losses = layer.nll(h, targets)
    losses.sum().backward()
    exact = _layer({**case, "dtype": torch.float64}, "reference", label_smoothing=smoothing)
    exact.weight.data = sides[:, None].double()
    wide = torch.ones(12, 1, dtype=torch.float64, requires_grad=True)
    wanted = exact.nll(wide, targets)
    wanted.sum().backward()
    assert losses.isfinite().all()
    assert layer.log_probs(h).isfinite().all()
    torch.testing.assert_close(losses.double(), wanted, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(h.grad.double(), wide.grad, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(layer.weight.grad.double(), exact.weight.grad, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_tree_of_two_leaves_is_a_logistic_regression(kernel: str) -> None:
    layer = HierarchicalSoftmax(3, HuffmanTree.from_counts([1, 2]), kernel=kernel)
    h = torch.randn(4, 3, generator=torch.Generator().manual_seed(0))
    gate = (h @ layer.weight.T).squeeze(1)
    wanted = torch.stack((functional.logsigmoid(gate), functional.logsigmoid(-gate)), dim=1)
    torch.testing.assert_close(layer.log_probs(h), wanted)
    values, ids = layer.topk(h, 2)
    torch.testing.assert_close(values, wanted.gather(1, ids))


@pytest.mark.parametrize("kernel", KERNELS)
@LAWS
@given(case=cases, width=st.integers(1, 6), layers=st.integers(1, 4), k=st.integers(1, 5))
def test_beam_with_its_fallback_is_exact(
    kernel: str, case: dict, width: int, layers: int, k: int
) -> None:
    layer, (h, _) = _layer(case, kernel), _rows(case)
    k = min(k, case["V"])
    wanted = layer.topk(h, k)[0]
    values, ids, certain = layer.topk_beam(h, k, width=width, layers=layers)
    _close(values, wanted, case["dtype"])
    _close(values, layer.log_probs(h).gather(1, ids), case["dtype"])
    alone = layer._beam(h, k, width, layers)
    _close(alone.values[certain], wanted[certain], case["dtype"])


@pytest.mark.parametrize("kernel", KERNELS)
@LAWS
@given(case=cases)
def test_greedy_scores_are_log_probs_and_turns_are_the_likelier(kernel: str, case: dict) -> None:
    layer, (h, _) = _layer(case, kernel), _rows(case)
    scores, tokens = layer.greedy(h)
    _close(scores, layer.log_probs(h).gather(1, tokens[:, None]).squeeze(1), case["dtype"])
    gates = (h @ layer.weight.T).detach()
    for row, token in enumerate(tokens.tolist()):
        begin, end = layer.tree.paths().offsets[token : token + 2]
        for node, sign in zip(
            layer.tree.paths().nodes[begin:end], layer.tree.paths().signs[begin:end], strict=True
        ):
            assert float(gates[row, node]) * sign >= -1e-5


@pytest.mark.parametrize(
    "layer", [Softmax(6, 5), HierarchicalSoftmax(6, HuffmanTree.from_counts([5, 4, 3, 2, 1]))]
)
def test_both_layers_keep_the_contract(layer: OutputLayer) -> None:
    h = torch.randn(7, 6, generator=torch.Generator().manual_seed(0))
    targets = torch.arange(7) % 5
    scores = layer.log_probs(h)
    torch.testing.assert_close(scores.logsumexp(dim=1), torch.zeros(7))
    torch.testing.assert_close(layer.nll(h, targets), -scores.gather(1, targets[:, None])[:, 0])
    torch.testing.assert_close(layer(h, targets), layer.nll(h, targets))
    values, ids = layer.topk(h, 3)
    torch.testing.assert_close(values, scores.gather(1, ids))
    torch.testing.assert_close(values, scores.sort(dim=1, descending=True).values[:, :3])
    assert not values.requires_grad


def test_softmax_ties_come_by_token_id() -> None:
    layer = Softmax(2, 40)
    torch.nn.init.zeros_(layer.weight)
    torch.nn.init.zeros_(layer.bias)
    assert layer.topk(torch.ones(3, 2), 5)[1].tolist() == [[0, 1, 2, 3, 4]] * 3


def test_softmax_smoothing_is_the_mean_over_tokens() -> None:
    layer, h, targets = Softmax(4, 6, label_smoothing=0.3), torch.randn(5, 4), torch.arange(5)
    scores = layer.log_probs(h)
    wanted = -0.7 * scores.gather(1, targets[:, None])[:, 0] - 0.3 * scores.mean(dim=1)
    torch.testing.assert_close(layer.nll(h, targets), wanted)
