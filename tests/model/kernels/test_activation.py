"""Bias, SiLU and dropout in one pass: the same numbers as one after the other."""

import pytest
import torch
from torch.nn import functional

from arborvox.model.kernels.activation import silu_dropout


def test_kept_elements_and_their_gradients_are_scaled_and_others_are_zero() -> None:
    torch.manual_seed(0)
    x = (3 * torch.randn(700, 401)).bfloat16().requires_grad_()
    bias = torch.randn(401, requires_grad=True)
    grad = torch.randn(700, 401).bfloat16()
    y = silu_dropout(x, bias, 0.25)
    for_x, for_bias = torch.autograd.grad(y, (x, bias), grad)
    kept = y != 0
    exact = x.detach().double().requires_grad_()
    expected = functional.silu(exact + bias.detach().double()) / 0.75
    (slopes,) = torch.autograd.grad(expected, exact, grad.double() * kept)
    error = 2e-2
    torch.testing.assert_close(y[kept].double(), expected[kept].detach(), rtol=error, atol=error)
    torch.testing.assert_close(for_x.double(), slopes, rtol=error, atol=error)
    torch.testing.assert_close(for_bias.double(), slopes.sum(0), rtol=error, atol=20 * error)
    assert not for_x[~kept].any()


def test_the_share_of_zeros_is_the_rate_and_neighbors_do_not_agree() -> None:
    torch.manual_seed(1)
    x = torch.ones(1000, 1024, dtype=torch.bfloat16)
    dropped = (silu_dropout(x, torch.zeros(1024), 0.1) == 0).float()
    assert float(dropped.mean()) == pytest.approx(0.1, abs=0.002)
    beside, below = dropped[:, 1:] * dropped[:, :-1], dropped[1:] * dropped[:-1]
    assert float(beside.mean()) == pytest.approx(0.01, abs=0.001)
    assert float(below.mean()) == pytest.approx(0.01, abs=0.001)


def test_the_generator_decides_and_threads_do_not() -> None:
    x = torch.randn(400, 1024).bfloat16()
    threads = torch.get_num_threads()
    masks = []
    try:
        for count, seed in ((1, 7), (2, 7), (1, 8)):
            torch.set_num_threads(count)
            torch.manual_seed(seed)
            masks.append(silu_dropout(x, torch.zeros(1024), 0.5) == 0)
    finally:
        torch.set_num_threads(threads)
    assert torch.equal(masks[0], masks[1])
    assert not torch.equal(masks[0], masks[2])


def test_nan_stays_nan_and_extremes_stay_finite() -> None:
    torch.manual_seed(0)
    x = torch.tensor([float("nan"), 3e38, -3e38, 100.0, -100.0]).bfloat16()
    y = silu_dropout(x, torch.zeros(5), 1e-6)
    assert y[0].isnan()
    assert y[2] == 0 and y[4].abs() < 1e-30
    assert y[3] == 100
