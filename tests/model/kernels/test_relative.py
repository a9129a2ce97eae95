"""Relative attention in bfloat16: torch's values and gradients, with keys hidden and not."""

import pytest
import torch
from exact import assert_close_to_exact, assert_same_bits_on_two_threads
from torch import Tensor

from arborvox.model.attention import RelativeSelfAttention, sinusoids
from arborvox.model.kernels.scores import softmax_backward_in_place, softmax_in_place

B, H, Q, K = 3, 2, 21, 37
HIDDEN = float("-inf")


def softmax(scores: Tensor, bias: Tensor | None) -> Tensor:
    """Return the kernel's softmax of (B, H, Q, K); the bias has one row for each utterance."""
    rows = scores.detach().flatten(0, 1).clone()
    softmax_in_place(rows, bias, scores.shape[1] * scores.shape[2])
    return rows.view_as(scores)


def make_scores() -> Tensor:
    torch.manual_seed(0)
    return torch.randn(B, H, Q, K).bfloat16()


def key_bias() -> Tensor:
    """Hide the last keys of some utterances."""
    bias = torch.zeros(B, 1, 1, K)
    bias[1, ..., 30:], bias[2, ..., 1:] = HIDDEN, HIDDEN
    return bias.bfloat16()


@pytest.mark.parametrize("bias", [None, key_bias()], ids=["none", "keys"])
def test_softmax_and_its_gradient_are_those_of_torch(bias: Tensor | None) -> None:
    scores = make_scores()
    wide = scores.double().requires_grad_()
    exact = (wide if bias is None else wide + bias.double()).softmax(-1)
    grad = torch.randn(B, H, Q, K).bfloat16()
    [wanted] = torch.autograd.grad(exact, wide, grad.double())
    weights, gradients = softmax(scores, bias), grad.flatten(0, 1).clone()
    softmax_backward_in_place(weights.flatten(0, 1), gradients)
    assert_close_to_exact((weights, gradients.view_as(grad)), (exact, wanted), 2e-2)


def test_hidden_keys_change_no_bit() -> None:
    bias = torch.zeros(B, 1, 1, K).bfloat16()
    bias[..., 30:] = HIDDEN
    scores, others = make_scores(), make_scores()
    others[..., 30:] = 1e4
    found = softmax(scores, bias)
    assert torch.equal(found, softmax(others, bias))
    assert not found[..., 30:].any()


def test_nan_in_one_query_stays_there() -> None:
    scores = make_scores()
    scores[1, 0, 5, 3] = float("nan")
    spoilt = softmax(scores, None).isnan()
    assert spoilt[1, 0, 5].all()
    assert int(spoilt.sum()) == K


def test_far_scores_stay_finite() -> None:
    assert softmax(make_scores() * 1e8, None).isfinite().all()


@pytest.mark.parametrize("T", [1, 2, 50])
@pytest.mark.parametrize("padded", [False, True])
def test_relative_attention_equals_its_plain_form(T: int, padded: bool) -> None:
    torch.manual_seed(0)
    layer, exact_layer = RelativeSelfAttention(48, 3), RelativeSelfAttention(48, 3).double()
    exact_layer.load_state_dict(layer.state_dict())
    x = torch.randn(4, T, 48).bfloat16().requires_grad_()
    exact_x = x.detach().double().requires_grad_()
    bias = torch.zeros(4, 1, 1, T)
    bias[2:, ..., max(1, T - 7) :] = HIDDEN
    grad = torch.randn(4, T, 48).bfloat16()
    with torch.autocast("cpu", torch.bfloat16):
        out = layer(x, sinusoids(T, 16, x), bias.bfloat16() if padded else None)
    exact = exact_layer(exact_x, sinusoids(T, 16, exact_x), bias.double() if padded else None)
    # Of one frame alone, scores have no gradient.
    names = [name for name, _ in layer.named_parameters() if T > 1 or name.startswith("out")]
    found, wanted = (
        (
            seen,
            *torch.autograd.grad(
                seen, (source, *(dict(module.named_parameters())[name] for name in names)), slope
            ),
        )
        for seen, source, module, slope in (
            (out, x, layer, grad),
            (exact, exact_x, exact_layer, grad.double()),
        )
    )
    assert_close_to_exact(found, wanted, 3e-2)


def test_the_number_of_threads_changes_no_bit() -> None:
    torch.manual_seed(0)
    layer = RelativeSelfAttention(32, 2)
    x = torch.randn(7, 60, 32).bfloat16().requires_grad_()

    def compute() -> tuple[Tensor, ...]:
        with torch.autocast("cpu", torch.bfloat16):
            out = layer(x, sinusoids(60, 16, x), None)
        return (out, *torch.autograd.grad(out.float().square().sum(), (x, *layer.parameters())))

    assert_same_bits_on_two_threads(compute)
