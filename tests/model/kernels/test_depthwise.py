"""Depthwise convolution in bfloat16: torch's values and gradients, whatever the threads."""

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from arborvox.model.kernels.depthwise import DepthwiseConvolution


def convolve(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    out: Tensor = DepthwiseConvolution.apply(x, weight, bias)  # type: ignore[no-untyped-call]
    return out


@pytest.mark.parametrize(
    ("B", "T", "D", "K"), [(3, 40, 33, 15), (1, 1, 8, 7), (2, 3, 16, 15), (4, 9, 5, 1)]
)
def test_values_and_gradients_are_those_of_torch(B: int, T: int, D: int, K: int) -> None:
    torch.manual_seed(0)
    x = torch.randn(B, T, D).bfloat16().requires_grad_()
    weight, bias = torch.randn(D, K, requires_grad=True), torch.randn(D, requires_grad=True)
    grad = torch.randn(B, T, D).bfloat16()
    out = convolve(x, weight, bias)
    found = (out, *torch.autograd.grad(out, (x, weight, bias), grad))
    exact_x = x.detach().double().requires_grad_()
    exact = functional.conv1d(
        exact_x.transpose(1, 2), weight[:, None].double(), bias.double(), padding=K // 2, groups=D
    ).transpose(1, 2)
    wanted = (exact, *torch.autograd.grad(exact, (exact_x, weight, bias), grad.double()))
    for have, want in zip(found, wanted, strict=True):
        torch.testing.assert_close(have.double(), want.double(), rtol=1e-2, atol=2e-2)


def test_the_number_of_threads_changes_no_bit() -> None:
    torch.manual_seed(0)
    x = torch.randn(7, 50, 24).bfloat16().requires_grad_()
    weight, bias = torch.randn(24, 15, requires_grad=True), torch.randn(24, requires_grad=True)
    threads = torch.get_num_threads()
    results = []
    try:
        for count in (1, 2):
            torch.set_num_threads(count)
            out = convolve(x, weight, bias)
            results.append((out, *torch.autograd.grad(out.sum(), (x, weight, bias))))
    finally:
        torch.set_num_threads(threads)
    assert all(torch.equal(a, b) for a, b in zip(*results, strict=True))
