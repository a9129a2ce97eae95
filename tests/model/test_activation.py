"""SiLU and dropout in one pass: the same numbers as one after the other."""

import pytest
import torch
from torch.nn import functional

from arborvox.model.activation import silu_dropout


def test_without_dropout_it_is_silu() -> None:
    x = torch.linspace(-9, 9, 1000)
    assert torch.equal(silu_dropout(x, 0.0), functional.silu(x))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_kept_elements_and_their_gradients_are_scaled_and_others_are_zero(
    dtype: torch.dtype,
) -> None:
    torch.manual_seed(0)
    x = (3 * torch.randn(300, 401)).to(dtype).requires_grad_()
    grad = torch.randn(300, 401).to(dtype)
    y = silu_dropout(x, 0.25)
    y.backward(grad)
    assert x.grad is not None
    kept = y != 0
    exact = x.detach().double().requires_grad_()
    expected = functional.silu(exact) / 0.75
    (slopes,) = torch.autograd.grad(expected, exact, grad.double())
    error = 2e-2 if dtype is torch.bfloat16 else 1e-5
    tolerance = {"rtol": error, "atol": error}
    torch.testing.assert_close(y[kept].double(), expected[kept].detach(), **tolerance)
    torch.testing.assert_close(x.grad[kept].double(), slopes[kept], **tolerance)
    assert not x.grad[~kept].any()


def test_the_share_of_zeros_is_the_rate_and_neighbours_do_not_agree() -> None:
    torch.manual_seed(1)
    x = torch.ones(1_000_000, dtype=torch.bfloat16)
    dropped = (silu_dropout(x, 0.1) == 0).float()
    assert float(dropped.mean()) == pytest.approx(0.1, abs=0.002)
    both = dropped[1:] * dropped[:-1]
    assert float(both.mean()) == pytest.approx(0.01, abs=0.001)


def test_the_generator_decides_and_threads_do_not() -> None:
    x = torch.randn(400, 1024).bfloat16()
    threads = torch.get_num_threads()
    masks = []
    try:
        for count, seed in ((1, 7), (2, 7), (1, 8)):
            torch.set_num_threads(count)
            torch.manual_seed(seed)
            masks.append(silu_dropout(x, 0.5) == 0)
    finally:
        torch.set_num_threads(threads)
    assert torch.equal(masks[0], masks[1])
    assert not torch.equal(masks[0], masks[2])


def test_nan_stays_nan_and_extremes_stay_finite() -> None:
    torch.manual_seed(0)
    x = torch.tensor([float("nan"), 3e38, -3e38, 100.0, -100.0]).bfloat16()
    y = silu_dropout(x, 1e-6)
    assert y[0].isnan()
    assert y[2] == 0 and y[4].abs() < 1e-30
    assert y[3] == 100
