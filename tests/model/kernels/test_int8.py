"""Products of 8-bit numbers: what stands around them rounds as it says, each row by itself."""

import pytest
import torch
from exact import assert_close_to_exact, assert_same_bits_on_two_threads
from torch import Tensor
from torch.nn import functional

from arborvox.model.kernels.int8 import Int8Rows, Int8Weight, activate, add, normalize

EPSILON = 1e-5
EITHER = pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=["bf16", "fp32"])


def numbers_of(rows: Int8Rows) -> Tensor:
    """Return what rows of whole numbers stand for."""
    return rows.numbers.double() * rows.scales.double()[:, None]


def round_rows(x: Tensor) -> Tensor:
    """Round each row to 127 steps up to its largest number."""
    steps = x.abs().amax(dim=1, keepdim=True) / 127
    return (x / steps).round() * steps


def draw(
    R: int, D: int, E: int, dtype: torch.dtype
) -> tuple[Tensor, Tensor, Tensor, Int8Weight, Int8Weight]:
    """Draw rows, a norm's gain and shift, and two weights."""
    torch.manual_seed(0)
    x = (3.0 * torch.randn(R, D) + 1.0).to(dtype)
    gain, shift = torch.rand(D) + 0.5, 0.2 * torch.randn(D)
    wide = Int8Weight.of(torch.randn(E, D) / D**0.5, 0.3 * torch.randn(E))
    return x, gain, shift, wide, Int8Weight.of(torch.randn(D, E) / E**0.5, 0.3 * torch.randn(D))


def run(x: Tensor, gain: Tensor, shift: Tensor, wide: Int8Weight, slim: Int8Weight) -> Tensor:
    """Run the second half of a layer."""
    heard = normalize(x, gain, shift, EPSILON)
    active = activate(wide.multiply(heard), heard, wide)
    return add(x, slim.multiply(active), active, slim)


@EITHER
@pytest.mark.parametrize(("R", "D", "E"), [(70, 48, 96), (1, 8, 8), (130, 512, 33)])
def test_each_part_is_the_exact_one_rounded_by_rows(
    R: int, D: int, E: int, dtype: torch.dtype
) -> None:
    x, gain, shift, wide, slim = draw(R, D, E, dtype)
    heard = normalize(x, gain, shift, EPSILON)
    normed = functional.layer_norm(x.double(), (D,), gain.double(), shift.double(), EPSILON)
    half_steps = 0.501 * heard.scales.double()[:, None]
    assert ((numbers_of(heard) - normed).abs() <= half_steps).all()
    assert (heard.numbers.abs().amax(dim=1) == 127).all()

    sums = wide.multiply(heard)
    products = heard.numbers.long() @ wide.rows.numbers.long().T
    assert torch.equal(sums.long(), products)

    active = activate(sums, heard, wide)
    exact = functional.gelu(numbers_of(heard) @ numbers_of(wide.rows).T + wide.bias.double())
    half_steps = 0.501 * active.scales.double()[:, None]
    assert ((numbers_of(active) - exact).abs() <= half_steps + 1e-5).all()

    out = add(x, slim.multiply(active), active, slim)
    exact = x.double() + numbers_of(active) @ numbers_of(slim.rows).T + slim.bias.double()
    assert out.dtype is dtype
    rtol = 2**-8 if dtype is torch.bfloat16 else 1e-6
    torch.testing.assert_close(out.double(), exact, rtol=rtol, atol=1e-5)


@EITHER
def test_rows_are_the_same_in_any_company_and_on_two_threads(dtype: torch.dtype) -> None:
    parts = draw(200, 64, 128, dtype)
    together = run(*parts)
    for row in (0, 63, 199):
        assert torch.equal(run(parts[0][row : row + 1], *parts[1:])[0], together[row])
    assert_same_bits_on_two_threads(lambda: (run(*parts),))


@EITHER
def test_the_whole_is_near_what_it_stands_for(dtype: torch.dtype) -> None:
    x, gain, shift, wide, slim = draw(150, 256, 1024, dtype)
    normed = functional.layer_norm(x.double(), (256,), gain.double(), shift.double(), EPSILON)
    inner = functional.gelu(normed @ numbers_of(wide.rows).T + wide.bias.double())
    exact = inner @ numbers_of(slim.rows).T + slim.bias.double()
    assert_close_to_exact([run(x, gain, shift, wide, slim)], [x.double() + exact], 5e-3)


def test_weights_are_rounded_by_outputs() -> None:
    weight = torch.tensor([[1.0, -2.0, 0.5], [0.0, 0.0, 0.0], [1e-4, 1e-4, -1e-4]])
    rounded = Int8Weight.of(weight, torch.zeros(3))
    torch.testing.assert_close(numbers_of(rounded.rows).float(), round_rows(weight).nan_to_num(0.0))
    assert rounded.rows.numbers.tolist()[1:] == [[0, 0, 0], [127, 127, -127]]


@EITHER
def test_rows_of_zeros_stay_so_and_what_is_no_number_is_seen(dtype: torch.dtype) -> None:
    x, gain, shift, wide, slim = draw(3, 16, 32, dtype)
    x[1], x[2, 5] = 0.0, float("nan")
    shift = torch.zeros_like(shift)
    heard = normalize(x, gain, shift, EPSILON)
    assert (heard.numbers[1] == 0).all()
    out = run(x, gain, shift, wide, slim)
    assert out[:2].isfinite().all()
    assert out[2, 5].isnan()
