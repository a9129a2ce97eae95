"""The front end's first convolution: torch's values and gradients, whatever the sizes."""

import pytest
import torch
from exact import assert_close_to_exact, assert_same_bits_on_two_threads
from torch import Tensor
from torch.nn import functional

from arborvox.model.kernels.front_end import FirstConvolution


def convolve(features: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    out: Tensor = FirstConvolution.apply(features, weight, bias)  # type: ignore[no-untyped-call]
    return out


def make_parameters(channels: int) -> tuple[Tensor, Tensor]:
    return torch.randn(channels, 9, requires_grad=True), torch.randn(channels, requires_grad=True)


@pytest.mark.parametrize(
    ("B", "T", "M", "C"), [(3, 40, 80, 17), (1, 7, 7, 64), (2, 8, 10, 1), (2, 3, 3, 5)]
)
def test_values_and_gradients_are_those_of_torch(B: int, T: int, M: int, C: int) -> None:
    torch.manual_seed(0)
    features, (weight, bias) = torch.randn(B, T, M), make_parameters(C)
    out = convolve(features, weight, bias)
    wide = [x.detach().double().requires_grad_() for x in (weight, bias)]
    exact = functional.conv2d(
        features[:, None].double(), wide[0].view(C, 1, 3, 3), wide[1], stride=2
    )
    exact = exact.relu().permute(0, 2, 3, 1)
    assert out.shape == exact.shape
    grad = torch.randn(out.shape).bfloat16()
    found = torch.autograd.grad(out, (weight, bias), grad)
    wanted = torch.autograd.grad(exact, wide, grad.double())
    assert_close_to_exact((out, *found), (exact, *wanted), 5e-3)


def test_nan_stays_nan() -> None:
    features, (weight, bias) = torch.randn(1, 7, 7), make_parameters(4)
    features[0, 0, 0] = float("nan")
    assert convolve(features, weight, bias)[0, 0, 0].isnan().all()


def test_the_number_of_threads_changes_no_bit() -> None:
    torch.manual_seed(0)
    features, (weight, bias) = torch.randn(5, 30, 40), make_parameters(24)

    def compute() -> tuple[Tensor, ...]:
        out = convolve(features, weight, bias)
        return (out, *torch.autograd.grad(out.float().square().sum(), (weight, bias)))

    assert_same_bits_on_two_threads(compute)
