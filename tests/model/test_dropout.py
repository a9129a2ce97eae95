"""Dropout: right share, right mean, repeatable, and a gradient that sees the same mask."""

import pytest
import torch

from arborvox.model.dropout import Dropout, dropout_mask

TYPES = [torch.bfloat16, torch.float16, torch.float32, torch.float64]


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("rate", [0.1, 0.5])
def test_mask_drops_the_rate_and_keeps_the_mean(dtype: torch.dtype, rate: float) -> None:
    torch.manual_seed(0)
    mask = dropout_mask(torch.empty(1001, 257, dtype=dtype), rate).double()
    assert mask.unique().numel() == 2
    # 257,000 draws: five standard deviations of the share are 0.005; bf16 moves the rate by 0.0014.
    assert abs(float((mask == 0).double().mean()) - rate) < 0.007
    assert abs(float(mask.mean()) - 1.0) < 0.01


def test_scaled_mask_has_the_scale_as_its_mean() -> None:
    torch.manual_seed(0)
    mask = dropout_mask(torch.empty(500_000, dtype=torch.bfloat16), 0.1, scale=0.5)
    assert abs(float(mask.double().mean()) - 0.5) < 0.002


def test_neighboring_elements_are_dropped_independently() -> None:
    torch.manual_seed(0)
    dropped = (dropout_mask(torch.empty(1_000_000, dtype=torch.bfloat16), 0.5) == 0).double()
    centered = dropped - dropped.mean()
    for distance in (1, 2, 3, 4, 5, 8, 64, 256):
        correlation = float((centered[distance:] * centered[:-distance]).mean()) / 0.25
        assert abs(correlation) < 0.005, distance


def test_torch_seed_decides_the_mask() -> None:
    like = torch.empty(33, 7)
    torch.manual_seed(1)
    first, second = dropout_mask(like, 0.3), dropout_mask(like, 0.3)
    torch.manual_seed(1)
    assert torch.equal(dropout_mask(like, 0.3), first)
    assert torch.equal(dropout_mask(like, 0.3), second)
    assert not torch.equal(first, second)


def test_residual_form_equals_plain_form() -> None:
    dropout = Dropout(0.2)
    residual, x = torch.randn(5, 9, dtype=torch.float64), torch.randn(5, 9, dtype=torch.float64)
    torch.manual_seed(2)
    plain = residual + 0.5 * dropout(x)
    torch.manual_seed(2)
    torch.testing.assert_close(dropout.add_to(residual, x, scale=0.5), plain)


def test_gradient_sees_the_mask_of_the_forward_pass() -> None:
    x = torch.ones(1000, requires_grad=True)
    y = Dropout(0.4)(x)
    y.sum().backward()
    assert torch.equal(x.grad, y.detach())


def test_nothing_is_dropped_in_evaluation() -> None:
    x = torch.randn(100)
    assert torch.equal(Dropout(0.9).eval()(x), x)
    assert torch.equal(Dropout(0.0)(x), x)
