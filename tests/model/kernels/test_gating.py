"""The convolution module's element-wise kernels: torch's values and gradients."""

import torch
from exact import assert_close_to_exact, assert_same_bits_on_two_threads
from torch import Tensor, nn
from torch.nn import functional

from arborvox.model.kernels.gating import GatedFrames, NormalizedSilu

B, T, D = 4, 170, 21


def gate(x: Tensor, bias: Tensor, padded: Tensor | None) -> Tensor:
    out: Tensor = GatedFrames.apply(x, bias, padded)  # type: ignore[no-untyped-call]
    return out


def activate(x: Tensor, norm: nn.LayerNorm) -> Tensor:
    out: Tensor = NormalizedSilu.apply(x, norm.weight, norm.bias, norm.eps)  # type: ignore[no-untyped-call]
    return out


def make_gate_inputs() -> tuple[Tensor, Tensor, Tensor]:
    torch.manual_seed(0)
    x = torch.randn(B, T, 2 * D).bfloat16().requires_grad_()
    padded = torch.arange(T)[None, :, None] >= torch.tensor([T, 90, 1, T])[:, None, None]
    return x, torch.randn(2 * D, requires_grad=True), padded


def test_gate_is_that_of_torch_and_zero_at_padding() -> None:
    x, bias, padded = make_gate_inputs()
    grad = torch.randn(B, T, D).bfloat16()
    exact_x = x.detach().double().requires_grad_()
    exact_bias = bias.detach().double().requires_grad_()
    for mask in (padded, None):
        out = gate(x, bias, mask)
        exact = functional.glu(exact_x + exact_bias, dim=-1)
        exact = exact if mask is None else exact.masked_fill(mask, 0.0)
        wanted = torch.autograd.grad(exact, (exact_x, exact_bias), grad.double())
        found = torch.autograd.grad(out, (x, bias), grad)
        assert_close_to_exact((out, *found), (exact, *wanted), 1e-2)
    assert not gate(x, bias, padded)[padded.expand(B, T, D)].any()


def test_nan_at_padding_goes_nowhere() -> None:
    x, bias, padded = make_gate_inputs()
    x.data[padded.expand(B, T, 2 * D)] = float("nan")
    out = gate(x, bias, padded)
    assert out.isfinite().all()
    for slope in torch.autograd.grad(out, (x, bias), torch.ones_like(out)):
        assert slope.isfinite().all()


def test_normalized_silu_is_that_of_torch() -> None:
    torch.manual_seed(0)
    norm, exact_norm = nn.LayerNorm(D), nn.LayerNorm(D).double()
    nn.init.normal_(norm.weight)
    nn.init.normal_(norm.bias)
    exact_norm.load_state_dict(norm.state_dict())
    x = torch.randn(B, T, D).bfloat16().requires_grad_()
    exact_x = x.detach().double().requires_grad_()
    grad = torch.randn(B, T, D).bfloat16()
    out, exact = activate(x, norm), functional.silu(exact_norm(exact_x))
    found = torch.autograd.grad(out, (x, *norm.parameters()), grad)
    wanted = torch.autograd.grad(exact, (exact_x, *exact_norm.parameters()), grad.double())
    assert_close_to_exact((out, *found), (exact, *wanted), 1e-2)


def test_the_number_of_threads_changes_no_bit() -> None:
    x, bias, padded = make_gate_inputs()
    norm = nn.LayerNorm(D)

    def compute() -> tuple[Tensor, ...]:
        out = activate(gate(x, bias, padded), norm)
        slopes = torch.autograd.grad(out.float().square().sum(), (x, bias, *norm.parameters()))
        return (out, *slopes)

    assert_same_bits_on_two_threads(compute)
