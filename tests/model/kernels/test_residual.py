"""Dropout, residual sum and norm in one pass: the same numbers as one after the other."""

import pytest
import torch
from exact import assert_close_to_exact, assert_same_bits_on_two_threads
from torch import Tensor, nn

from arborvox.model.dropout import Dropout

SHAPE = (3, 250, 33)


def make_norm() -> nn.LayerNorm:
    norm = nn.LayerNorm(SHAPE[-1])
    nn.init.normal_(norm.weight)
    nn.init.normal_(norm.bias)
    return norm


@pytest.mark.parametrize("sum_is_read", [True, False])
def test_values_and_gradients_are_those_of_torch(sum_is_read: bool) -> None:
    torch.manual_seed(0)
    norm, dropout = make_norm(), Dropout(0.2)
    residual, x = (torch.randn(SHAPE).bfloat16().requires_grad_() for _ in range(2))
    grads = [torch.randn(SHAPE).bfloat16() for _ in range(2)]
    parameters = (norm.weight, norm.bias)
    outputs = dropout.add_and_normalize(residual, x, norm, scale=0.5)
    used = slice(0 if sum_is_read else 1, None)
    slopes = torch.autograd.grad(outputs[used], (residual, x, *parameters), grads[used])
    kept = slopes[1] != 0
    assert abs(float(kept.double().mean()) - 0.8) < 0.02
    exact_norm = nn.LayerNorm(SHAPE[-1]).double()
    exact_norm.load_state_dict(norm.state_dict())
    wide = [y.detach().double().requires_grad_() for y in (residual, x)]
    total = wide[0] + 0.5 / 0.8 * kept * wide[1]
    exact = (total, exact_norm(total))
    wanted = torch.autograd.grad(
        exact[used], (*wide, *exact_norm.parameters()), [grad.double() for grad in grads[used]]
    )
    assert_close_to_exact((*outputs, *slopes), (*exact, *wanted), 1e-2)


def test_the_number_of_threads_changes_no_bit() -> None:
    torch.manual_seed(0)
    norm, dropout = make_norm(), Dropout(0.2)
    residual, x = (torch.randn(9, 250, 33).bfloat16().requires_grad_() for _ in range(2))

    def compute() -> tuple[Tensor, ...]:
        total, normed = dropout.add_and_normalize(residual, x, norm)
        loss = (total * normed).float().sum()
        return (total, normed, *torch.autograd.grad(loss, (residual, x, norm.weight, norm.bias)))

    assert_same_bits_on_two_threads(compute)


def test_in_other_types_it_is_the_sum_and_its_norm() -> None:
    torch.manual_seed(0)
    norm, dropout = make_norm(), Dropout(0.2)
    residual, x = torch.randn(SHAPE), torch.randn(SHAPE)
    torch.manual_seed(1)
    total, normed = dropout.add_and_normalize(residual, x, norm, scale=0.5)
    torch.manual_seed(1)
    assert torch.equal(total, dropout.add_to(residual, x, scale=0.5))
    assert torch.equal(normed, norm(total))
