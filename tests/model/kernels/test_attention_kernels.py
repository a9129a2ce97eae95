"""Attention in bfloat16: torch's values and gradients, with every form of bias."""

import pytest
import torch
from exact import assert_close_to_exact, assert_same_bits_on_two_threads
from torch import Tensor

from arborvox.model.attention import RelativeSelfAttention, attend_plainly, sinusoids
from arborvox.model.kernels.attention import Attention

B, H, Q, K, E = 3, 2, 21, 37, 16
HIDDEN = float("-inf")


def attend(q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None) -> Tensor:
    out: Tensor = Attention.apply(q, k, v, bias)  # type: ignore[no-untyped-call]
    return out


def make_inputs() -> tuple[Tensor, Tensor, Tensor]:
    torch.manual_seed(0)
    q, k, v = (torch.randn(B, H, rows, E).bfloat16() for rows in (Q, K, K))
    return q.requires_grad_(), k.requires_grad_(), v.requires_grad_()


def key_bias() -> Tensor:
    """Hide the last keys of some utterances."""
    bias = torch.zeros(B, 1, 1, K)
    bias[1, ..., 30:], bias[2, ..., 1:] = HIDDEN, HIDDEN
    return bias


BIASES = {
    "none": None,
    "keys": key_bias(),
    "causal": torch.full((Q, K), HIDDEN).triu(1),
    "by utterance and query": torch.full((B, 1, Q, K), HIDDEN).triu(3),
}


@pytest.mark.parametrize("kind", BIASES)
def test_values_and_gradients_are_those_of_torch(kind: str) -> None:
    inputs, bias = make_inputs(), BIASES[kind]
    grad = torch.randn(B, H, Q, E).bfloat16()
    out = attend(*inputs, None if bias is None else bias.bfloat16())
    found = (out, *torch.autograd.grad(out, inputs, grad))
    wide = [x.detach().double().requires_grad_() for x in inputs]
    exact = attend_plainly(*wide, None if bias is None else bias.double())
    wanted = (exact, *torch.autograd.grad(exact, wide, grad.double()))
    assert_close_to_exact(found, wanted, 2e-2)


def test_hidden_keys_change_no_bit() -> None:
    q, k, v = make_inputs()
    wanted = attend(q, k[:, :, :30], v[:, :, :30], None)
    k.data[:, :, 30:], v.data[:, :, 30:] = 1e4, 1e4
    bias = torch.zeros(B, 1, 1, K).bfloat16()
    bias[..., 30:] = HIDDEN
    assert torch.equal(attend(q, k, v, bias), wanted)


def test_nan_in_one_query_stays_there() -> None:
    q, k, v = make_inputs()
    q.data[1, 0, 5, 3] = float("nan")
    spoilt = attend(q, k, v, None).isnan()
    assert spoilt[1, 0, 5].all()
    assert int(spoilt.sum()) == E


def test_far_scores_stay_finite() -> None:
    q, k, v = make_inputs()
    out = attend(q * 1e4, k * 1e4, v, None)
    assert out.isfinite().all()


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
