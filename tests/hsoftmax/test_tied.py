"""Laws of the layer whose gates ask questions, in training and afterwards."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from arborvox.errors import ArborvoxError
from arborvox.hsoftmax import HierarchicalSoftmax, TiedSoftmax
from arborvox.hsoftmax.restricted import restrict
from arborvox.tree import CodeTree, HuffmanTree

LAWS = settings(deadline=None, derandomize=True, max_examples=25)
KERNELS = ["reference", "numba"]
DTYPES = {torch.float32: 2e-5, torch.float64: 1e-9}  # and what rounding may do

cases = st.fixed_dictionaries(
    {
        "V": st.integers(2, 80),
        "D": st.integers(1, 40),
        "N": st.integers(0, 9),
        "unheard": st.sampled_from([0.0, 0.1, 0.6]),  # of the units
        "names": st.sampled_from([1, 3, 20]),
        "nameless": st.sampled_from([0.0, 0.3, 1.0]),  # of the gates
        "dtype": st.sampled_from(list(DTYPES)),
        "training": st.booleans(),
        "seed": st.integers(0, 1000),
    }
)


def _tree(case: dict) -> CodeTree:
    """Huffman's shape, with questions and units without mass by lot."""
    rng = np.random.default_rng(case["seed"])
    shape = HuffmanTree.from_counts(rng.random(case["V"]) + 0.01)
    masses = shape.probabilities * (rng.random(case["V"]) >= case["unheard"])
    masses[rng.integers(case["V"], size=2)] += 0.1
    questions = [
        None if rng.random() < case["nameless"] else f"q{rng.integers(case['names'])}"
        for _ in range(shape.num_inner)
    ]
    return CodeTree(
        shape.left, shape.right, masses / masses.sum(), None, "questions", tuple(questions)
    )


def _layer(case: dict, kernel: str, **options: object) -> TiedSoftmax:
    torch.manual_seed(case["seed"])
    layer = TiedSoftmax(case["D"], _tree(case), kernel=kernel, **options)
    torch.nn.init.normal_(layer.question)
    torch.nn.init.normal_(layer.deviation, std=0.3)
    return layer.to(case["dtype"]).train(case["training"])


def _rows(case: dict, layer: TiedSoftmax) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(case["seed"] + 1)
    h = torch.randn(case["N"], case["D"], generator=generator, dtype=case["dtype"])
    tokens = layer.learning_tokens if case["training"] else torch.arange(case["V"])
    return h, tokens[torch.randint(0, len(tokens), (case["N"],), generator=generator)]


def _close(made: Tensor, wanted: Tensor, dtype: torch.dtype) -> None:
    torch.testing.assert_close(made, wanted, rtol=DTYPES[dtype], atol=DTYPES[dtype])


@pytest.mark.parametrize("kernel", KERNELS)
@LAWS
@given(case=cases)
def test_probabilities_sum_to_one(kernel: str, case: dict) -> None:
    layer = _layer(case, kernel)
    totals = layer.log_probs(_rows(case, layer)[0]).logsumexp(dim=1)
    _close(totals, torch.zeros_like(totals), case["dtype"])


@pytest.mark.parametrize("kernel", KERNELS)
@LAWS
@given(case=cases)
def test_nll_is_minus_log_prob(kernel: str, case: dict) -> None:
    layer = _layer(case, kernel)
    h, targets = _rows(case, layer)
    at_targets = layer.log_probs(h).gather(1, targets[:, None]).squeeze(1)
    _close(layer.nll(h, targets), -at_targets, case["dtype"])


@pytest.mark.parametrize("kernel", KERNELS)
@LAWS
@given(case=cases)
def test_searches_see_the_whole_tree(kernel: str, case: dict) -> None:
    layer = _layer({**case, "training": False}, kernel)
    h, _ = _rows({**case, "training": False}, layer)
    k = min(5, case["V"])
    scores = layer.log_probs(h).detach()
    with torch.no_grad():
        values, ids = layer.train(case["training"]).topk(h, k)
    _close(values, scores.topk(k, dim=1).values, case["dtype"])
    _close(values, scores.gather(1, ids), case["dtype"])


@pytest.mark.parametrize("kernel", KERNELS)
@LAWS
@given(case=cases, smoothing=st.sampled_from(["leaves", "gates"]))
def test_gradients_are_those_of_an_untied_layer_summed_by_question(
    kernel: str, case: dict, smoothing: str
) -> None:
    case = {**case, "training": False, "dtype": torch.float64}
    tied = _layer(case, kernel, label_smoothing=0.1, smoothing=smoothing)
    h, targets = _rows(case, tied)
    untied = HierarchicalSoftmax(
        case["D"], tied.tree, label_smoothing=0.1, smoothing=smoothing, kernel="reference"
    ).double()
    untied.weight = torch.nn.Parameter(tied.gate_weight().detach().clone())
    tied.nll(h, targets).sum().backward()
    untied.nll(h, targets).sum().backward()
    by_question = torch.zeros_like(tied.question).index_add(0, tied.asked, untied.weight.grad)
    by_gate = untied.weight.grad[tied.deviating >= 0]
    _close(tied.question.grad, by_question, torch.float64)
    _close(tied.deviation.grad, by_gate, torch.float64)


@pytest.mark.parametrize("kernel", KERNELS)
def test_gradients_in_float32_are_near_those_in_float64(kernel: str) -> None:
    case = {"V": 60, "D": 32, "N": 40, "unheard": 0.2, "names": 6, "nameless": 0.1, "seed": 3}
    found = {}
    for dtype in DTYPES:
        layer = _layer({**case, "dtype": dtype, "training": True}, kernel)
        h, targets = _rows({**case, "dtype": torch.float64, "training": True}, layer)
        h = h.to(dtype).requires_grad_()
        layer.nll(h, targets).sum().backward()
        layer.log_probs(h).square().mean().backward()
        found[dtype] = [h.grad, layer.question.grad, layer.deviation.grad]
    for single, double in zip(found[torch.float32], found[torch.float64], strict=True):
        torch.testing.assert_close(single.double(), double, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("kernel", KERNELS)
@LAWS
@given(case=cases)
def test_a_restricted_layer_is_the_whole_one_on_condition(kernel: str, case: dict) -> None:
    case = {**case, "V": max(case["V"], 6), "training": False}
    layer = _layer(case, kernel)
    h, _ = _rows(case, layer)
    living = [1, 3, 4]
    wanted = layer.log_probs(h).detach()[:, living].log_softmax(dim=1)
    _close(restrict(layer, living).log_probs(h)[:, living], wanted, case["dtype"])


@pytest.mark.parametrize("kernel", KERNELS)
@LAWS
@given(cases)
def test_some_tokens_have_the_probabilities_and_gradients_that_they_have_among_all(
    kernel: str, case: dict
) -> None:
    layer = _layer(case, kernel)
    h, _ = _rows(case, layer)
    ids = np.flatnonzero(np.random.default_rng(case["seed"]).random(case["V"]) < 0.4)
    ids = ids if len(ids) else np.array([0])
    found = []
    for scores in (lambda x: layer.log_probs_of(x, ids), lambda x: layer.log_probs(x)[:, ids]):
        rows = h.clone().requires_grad_()
        layer.zero_grad()
        made = scores(rows)
        if made.requires_grad:
            (made * torch.arange(1.0, len(ids) + 1, dtype=made.dtype)).sum().backward()
        grads = [p.grad for p in (rows, layer.question, layer.deviation)]
        found.append([made, *(torch.zeros(1) if g is None else g.clone() for g in grads)])
    for some, among_all in zip(*found, strict=True):
        if some.numel() > 1:
            assert torch.allclose(some, among_all, atol=50 * DTYPES[case["dtype"]], rtol=1e-4)


def test_deviations_start_at_0_and_are_held() -> None:
    tree = CodeTree([1, -1, -2], [2, -3, -4], [0.25] * 4, None, "questions", ("a", "b", "b"))
    layer = TiedSoftmax(8, tree)
    assert layer.question.shape == (2, 8)
    assert layer.deviation.shape == (2, 8)  # the two gates that ask b
    assert not layer.deviation.any()
    assert layer.held_parameters() == [layer.deviation]


def test_a_gate_with_one_side_unheard_stays_out_of_the_loss_and_asks_the_shared_question() -> None:
    # Gate 2 asks b between token 2, which is heard, and token 3, which is not.
    tree = CodeTree(
        [1, -1, -3], [2, -2, -4], [0.4, 0.3, 0.3, 0], None, "questions", ("a", "b", "b")
    )
    layer = TiedSoftmax(4, tree)
    h = torch.randn(5, 4, generator=torch.Generator().manual_seed(0))
    assert layer.deviation.shape[0] == 0
    layer.nll(h, torch.full((5,), 2)).sum().backward()
    assert not layer.question.grad[1].any()
    assert layer.question.grad[0].any()
    weight = layer.gate_weight()
    assert torch.equal(weight[1], weight[2])
    scores = layer.eval().log_probs(h)
    assert torch.isfinite(scores[:, 3]).all()


def test_a_target_that_training_leaves_out_costs_nothing() -> None:
    tree = CodeTree(
        [1, -1, -3], [2, -2, -4], [0.4, 0.3, 0.3, 0], None, "questions", ("a", "b", "b")
    )
    losses = TiedSoftmax(4, tree).nll(torch.ones(3, 4), torch.tensor([0, 3, 2]))
    assert losses[1] == 0
    assert (losses[[0, 2]] > 0).all()


def test_a_unit_absent_from_training_gets_more_than_chance_by_its_questions_alone() -> None:
    """Voiced or not, labial or not, nasal or not: seven of the eight sounds are heard."""
    questions = ("voiced", *["labial"] * 2, *["nasal"] * 4)
    masses = np.array([1, 1, 1, 1, 1, 1, 1, 0]) / 7
    tree = CodeTree([1, 3, 5, -1, -3, -5, -7], [2, 4, 6, -2, -4, -6, -8], masses, None, "questions",
                    questions)  # fmt: skip
    answers = torch.tensor([[v, lab, nas] for v in (1, -1) for lab in (1, -1) for nas in (1, -1)])
    generator = torch.Generator().manual_seed(0)
    torch.manual_seed(0)
    layer = TiedSoftmax(6, tree)
    layer.deviation.requires_grad_(False)  # frozen at 0
    mixing = torch.randn(3, 6, generator=generator)
    optimizer = torch.optim.Adam([layer.question], lr=0.05)
    for _ in range(150):
        targets = torch.randint(0, 7, (64,), generator=generator)
        h = answers[targets].float() @ mixing + 0.5 * torch.randn(64, 6, generator=generator)
        optimizer.zero_grad()
        layer.nll(h, targets).mean().backward()
        optimizer.step()
    h = answers[7].float() @ mixing + 0.5 * torch.randn(500, 6, generator=generator)
    probability = layer.eval().log_probs(h)[:, 7].exp()
    assert not layer.deviation.any()
    assert probability.mean() > 0.5  # chance is 1 / 8


@pytest.mark.parametrize("unheard", [0.0, 0.6])
@pytest.mark.parametrize("changes_mode", [True, False])
def test_searches_see_what_a_fused_optimizer_did(unheard: float, changes_mode: bool) -> None:
    """It leaves the versions of parameters as they are."""
    case = {"V": 20, "D": 6, "N": 8, "unheard": unheard, "names": 3, "nameless": 0.3, "seed": 1}
    layer = _layer({**case, "dtype": torch.float32, "training": True}, "numba")
    optimizer = torch.optim.AdamW(layer.parameters(), lr=0.5, fused=True)
    h, targets = torch.randn(8, 6), layer.learning_tokens[torch.arange(8) % 2]
    for _ in range(3):
        optimizer.zero_grad()
        layer.nll(h, targets).sum().backward()
        optimizer.step()
        layer.train(not changes_mode)
        with torch.no_grad():
            found, fresh = layer.topk(h, 3), TiedSoftmax(6, layer.tree)
            fresh.load_state_dict(layer.state_dict())
            wanted = fresh.eval().topk(h, 3)
        layer.train()
        assert torch.equal(found[1], wanted[1])
        assert torch.allclose(found[0], wanted[0])


def test_what_is_kept_between_searches_follows_the_weights() -> None:
    layer = _layer({"V": 9, "D": 5, "N": 1, "unheard": 0.0, "names": 2, "nameless": 0.0,
                    "dtype": torch.float32, "training": False, "seed": 1}, "numba")  # fmt: skip
    h = torch.ones(1, 5)
    with torch.no_grad():
        before = layer.topk(h, 3)[0]
        layer.question.mul_(-2)
        after = layer.topk(h, 3)[0]
        _close(after, layer.log_probs(h).topk(3).values, torch.float32)
    assert not torch.equal(before, after)


def test_a_tree_without_questions_is_refused() -> None:
    with pytest.raises(ArborvoxError, match=r"huffman tree.*tree\.kind: questions"):
        TiedSoftmax(4, HuffmanTree.from_counts([1, 2, 3]))
