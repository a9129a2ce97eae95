"""`train.compile`: compiled layers take the same training steps as eager ones."""

import shutil
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from arborvox.model.asr import ASR

has_compiler = any(shutil.which(name) for name in ("c++", "g++", "clang++"))


def losses_of_two_steps(model: ASR, batch: tuple[Tensor, ...]) -> list[float]:
    """Train on the same batch twice."""
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    losses = []
    for _ in range(2):
        with torch.autocast("cpu", torch.bfloat16):
            loss = model(*batch).total
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(float(loss.detach()))
    return losses


@pytest.mark.parametrize(
    "backend",
    [
        "aot_eager",  # traces forward and backward pass, and generates no code
        pytest.param(
            "inductor",
            marks=[
                pytest.mark.slow,
                pytest.mark.skipif(not has_compiler, reason="there is no C++ compiler"),
            ],
        ),
    ],
)
def test_compiled_layers_take_the_same_steps(
    make_model: Callable[..., ASR], batch: tuple[Tensor, ...], backend: str
) -> None:
    features, *rest = batch
    inputs = (features.float(), *rest)
    keys = {"dropout": 0.0, "encoder_layers": 1}
    eager = losses_of_two_steps(make_model(**keys).float().train(), inputs)
    compiled = make_model(**keys).float().train()
    for layer in compiled.encoder.layers:
        layer.compile(dynamic=True, backend=backend)  # as the training loop does
    # Kernels of ours and the compiler's round to bfloat16 in other places.
    assert losses_of_two_steps(compiled, inputs) == pytest.approx(eager, rel=1e-2)
    assert eager[1] < eager[0]
