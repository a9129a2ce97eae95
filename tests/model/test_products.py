import os

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from arborvox.model import products
from arborvox.model.products import (
    FilledProduct,
    Linear,
    filled_rows,
    keep_code_of_products,
    linear,
    take_over_linear_layers,
)


def with_gradients(multiply: object, x: Tensor, *parameters: Tensor) -> list[Tensor]:
    leaves = [tensor.detach().clone().requires_grad_() for tensor in (x, *parameters)]
    out = multiply(*leaves)  # type: ignore[operator]
    seed = torch.Generator().manual_seed(1)
    out.backward(torch.randn(out.shape, generator=seed).to(out.dtype))
    return [out.detach(), *(leaf.grad for leaf in leaves if leaf.grad is not None)]


@pytest.mark.parametrize("shape", [(1, 24), (3, 21, 24), (64, 24), (5, 4, 65, 24)])
@pytest.mark.parametrize("has_bias", [True, False])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_rows_of_zeros_change_neither_a_product_nor_its_gradients(
    shape: tuple[int, ...], has_bias: bool, dtype: torch.dtype
) -> None:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(shape, generator=generator).to(dtype)
    weight = torch.randn(40, 24, generator=generator).to(torch.bfloat16)
    bias = [torch.randn(40, generator=generator).to(torch.bfloat16)] if has_bias else []

    def fill(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        product: Tensor = FilledProduct.apply(x, weight, bias)  # type: ignore[no-untyped-call]
        return product

    def plain(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        return functional.linear(x.to(torch.bfloat16), weight, bias)

    found = with_gradients(fill, x, weight, *bias)
    for mine, theirs in zip(found, with_gradients(plain, x, weight, *bias), strict=True):
        assert mine.shape == theirs.shape
        assert mine.dtype is theirs.dtype
        torch.testing.assert_close(mine, theirs, rtol=2e-2, atol=2e-2 * float(theirs.abs().max()))


def test_products_have_few_sizes_and_few_rows_are_added() -> None:
    sizes = {rows: filled_rows(rows) for rows in range(1, 5000)}
    assert all(rows <= size for rows, size in sizes.items())
    assert all(size - rows < max(64, rows / 16) for rows, size in sizes.items())
    assert len(set(sizes.values())) < 70
    assert len({size for size in sizes.values() if 2048 < size <= 4096}) == 16


def test_a_learning_layer_in_bf16_is_filled_where_code_is_slow_to_write(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(products, "writes_code_slowly", lambda: True)
    layer, x = Linear(8, 6), torch.randn(3, 5, 8)

    def is_filled() -> bool:
        out = layer(x)
        return out.grad_fn is not None and "FilledProduct" in out.grad_fn.name()

    assert not is_filled()
    with torch.autocast("cpu", torch.bfloat16):
        assert is_filled()
        assert layer(x).dtype is torch.bfloat16


def test_where_code_is_quick_to_write_products_are_torchs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(products, "writes_code_slowly", lambda: False)
    x, weight = torch.randn(7, 8), torch.randn(5, 8, requires_grad=True)
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(linear(x, weight), functional.linear(x, weight))


@pytest.mark.parametrize("said", [None, "77"])
def test_code_of_more_sizes_is_kept_unless_the_user_says_of_how_many(
    monkeypatch: pytest.MonkeyPatch, said: str | None
) -> None:
    monkeypatch.setattr(products, "writes_code_slowly", lambda: True)
    monkeypatch.setenv(products.CAPACITY, said or "")
    if said is None:
        monkeypatch.delenv(products.CAPACITY)
    keep_code_of_products()
    assert os.environ[products.CAPACITY] == (said or str(products.KEPT_SIZES))


def test_layers_of_others_are_taken_over_with_their_weights() -> None:
    network = nn.Sequential(nn.Linear(4, 4), nn.Sequential(nn.Linear(4, 2, bias=False)))
    before = {name: tensor.clone() for name, tensor in network.state_dict().items()}
    take_over_linear_layers(network)
    assert [type(m) for m in network.modules() if isinstance(m, nn.Linear)] == [Linear, Linear]
    assert before.keys() == network.state_dict().keys()
    assert all(torch.equal(tensor, network.state_dict()[name]) for name, tensor in before.items())
