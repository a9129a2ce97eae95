"""Kept states of several layers as one: the sums that torch makes, read from half precision."""

from pathlib import Path

import numpy as np
import pytest
import torch
from exact import assert_close_to_exact, assert_same_bits_on_two_threads
from torch import Tensor

from arborvox.config import FeaturesConfig, ModelConfig
from arborvox.model.asr import ASR
from arborvox.model.kernels.dispatch import without_kernels
from arborvox.model.kernels.mixture import mix_states, widen_half


def mix(states: Tensor, weights: Tensor, grad: Tensor) -> tuple[Tensor, Tensor]:
    """Return the mixture and the gradient of its weights."""
    weights = weights.clone().requires_grad_()
    mixed = mix_states(states, weights)
    (for_weights,) = torch.autograd.grad(mixed, weights, grad)
    return mixed.detach(), for_weights


def test_every_half_precision_number_is_widened_as_numpy_does() -> None:
    bits = np.arange(2**16, dtype=np.uint16)
    found = np.array([widen_half(each) for each in bits], np.float32)
    np.testing.assert_array_equal(found, bits.view(np.float16).astype(np.float32))


@pytest.mark.parametrize("shape", [(3, 50, 4, 512), (1, 1, 1, 7), (2, 400, 7, 33)])
def test_sums_and_their_gradient_are_the_exact_ones(shape: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    states, weights = torch.randn(shape).half(), torch.randn(shape[-2]).softmax(0)
    grad = torch.randn(*shape[:-2], shape[-1]).bfloat16()
    exact = torch.einsum("k,btkd->btd", weights.double(), states.double())
    for_weights = torch.einsum("btd,btkd->k", grad.double(), states.double())
    assert_close_to_exact(mix(states, weights, grad), (exact, for_weights), 3e-3)
    assert_same_bits_on_two_threads(lambda: mix(states, weights, grad))


def test_it_reads_a_view_of_states_and_keeps_what_is_no_number() -> None:
    states = torch.randn(2, 4, 3, 8).half()
    states[0, 0, 1, 2], states[1, 3, 0, 0] = float("nan"), float("inf")
    turned = states.transpose(0, 1)
    weights = torch.tensor([0.5, 0.25, 0.25])
    expected = torch.einsum("k,btkd->btd", weights, turned.float())
    torch.testing.assert_close(
        mix_states(turned, weights).float(), expected, rtol=0.01, atol=0.01, equal_nan=True
    )


def test_a_network_on_kept_states_computes_the_same_without_it(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    from tiny_pretrained import WIDTH, save_model

    settings = {"size": "tiny", "output": "softmax", "encoder": "pretrained", "layers": "mixture"}
    folder = save_model("whisper", tmp_path / "whisper")
    config = ModelConfig.model_validate({**settings, "pretrained": str(folder), "dropout": 0.0})
    model = ASR(config, FeaturesConfig(), 7, None).train()
    model.encoder.take_states()
    torch.manual_seed(0)
    states = torch.randn(2, 30, 4 * WIDTH).half()
    batch = (states, torch.tensor([30, 21]), torch.tensor([[2, 3], [4, -1]]), torch.tensor([2, 1]))

    def losses() -> tuple[Tensor, Tensor]:
        with torch.autocast("cpu", torch.bfloat16):
            loss = model(*batch).total
        return loss.detach(), torch.autograd.grad(loss, model.encoder.mixture)[0]

    ours = losses()
    with without_kernels("mixture"):
        torchs = losses()
    assert not torch.equal(ours[1], torchs[1]), "nothing was switched off"
    torch.testing.assert_close(ours, torchs, rtol=0.02, atol=0.02)
