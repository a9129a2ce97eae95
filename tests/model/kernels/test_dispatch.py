"""Every kernel can be left to torch by its name, and the network computes the same."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from arborvox.model import products
from arborvox.model.asr import ASR
from arborvox.model.kernels.dispatch import KERNELS, suits_kernel, without_kernels


def loss_and_gradients(model: ASR, batch: tuple[Tensor, ...]) -> tuple[set[str], list[Tensor]]:
    """Run a training step in bf16 up to the gradients; the same numbers are drawn each time.

    Returns the names of all steps of the backward pass, and the loss with the gradients.
    """
    features, *rest = batch
    torch.manual_seed(0)
    with torch.autocast("cpu", torch.bfloat16):
        loss = model(features.float(), *rest).total
    steps = {loss.grad_fn}
    waiting = [loss.grad_fn]
    while waiting:
        below = {step for step, _ in waiting.pop().next_functions if step is not None} - steps
        steps |= below
        waiting += below
    gradients = torch.autograd.grad(loss, list(model.parameters()))
    return {step.name() for step in steps}, [loss, *gradients]


def same_bits(ours: list[Tensor], others: list[Tensor]) -> bool:
    return all(torch.equal(a, b) for a, b in zip(ours, others, strict=True))


# The mixture is for the kept states of pretrained encoders; test_mixture.py holds the same for it.
@pytest.mark.parametrize("name", [name for name in KERNELS if name != "mixture"])
def test_torch_computes_what_a_kernel_does(
    make_model: Callable[..., ASR],
    batch: tuple[Tensor, ...],
    name: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(products, "writes_code_slowly", lambda: True)  # whatever runs the test
    model = make_model().float().train()
    steps, ours = loss_and_gradients(model, batch)
    with without_kernels(name):
        torch_steps, torchs = loss_and_gradients(model, batch)
    assert steps != torch_steps or not same_bits(ours, torchs), "nothing was switched off"
    # Where dropout is in the kernel, other elements are dropped.
    drawn = name in ("feed_forward", "dropout")
    torch.testing.assert_close(torchs[0], ours[0], rtol=0.2 if drawn else 0.01, atol=0)
    assert same_bits(loss_and_gradients(model, batch)[1], ours)


def test_kernels_are_for_their_type_on_a_cpu() -> None:
    x = torch.zeros(2, dtype=torch.bfloat16)
    assert suits_kernel("depthwise", x)
    assert not suits_kernel("depthwise", x.float())
    assert not suits_kernel("depthwise", x.to("meta"))
    assert suits_kernel("dropout", x.double(), dtype=None)
    with torch.autocast("cpu", torch.bfloat16):
        assert suits_kernel("depthwise", x.float(), cast=True)
        assert not suits_kernel("depthwise", x.float())


def test_a_kernel_that_does_not_exist_cannot_be_left_out() -> None:
    with pytest.raises(ValueError, match="no kernel 'oak'"), without_kernels("oak"):
        pass
