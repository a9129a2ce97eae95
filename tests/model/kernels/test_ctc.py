"""The CTC loss: torch's values and gradients, from sure models to sharp and wrong ones."""

import pytest
import torch
from exact import assert_same_bits_on_two_threads
from torch import Tensor
from torch.nn import functional

from arborvox.model.kernels.ctc import CTCLoss


def loss(logits: Tensor, tokens: Tensor, frame_lens: Tensor, token_lens: Tensor) -> Tensor:
    blank = logits.shape[2] - 1
    out: Tensor = CTCLoss.apply(logits.log_softmax(-1), tokens, frame_lens, token_lens, blank)  # type: ignore[no-untyped-call]
    return out


def exact_loss(logits: Tensor, tokens: Tensor, frame_lens: Tensor, token_lens: Tensor) -> Tensor:
    return functional.ctc_loss(
        logits.double().log_softmax(-1).transpose(0, 1),
        tokens.clamp(min=0),
        frame_lens,
        token_lens,
        blank=logits.shape[2] - 1,
        reduction="none",
        zero_infinity=True,
    )


def make_batch(
    B: int, T: int, U: int, V: int, sharpness: float
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Draw utterances of all lengths, some with more tokens than their frames can hold."""
    torch.manual_seed(0)
    logits = (sharpness * torch.randn(B, T, V + 1)).requires_grad_()
    frame_lens, token_lens = torch.randint(1, T + 1, (B,)), torch.randint(0, U + 1, (B,))
    frame_lens[0], token_lens[0] = T, U
    tokens = torch.randint(0, V, (B, U))
    tokens[torch.arange(U) >= token_lens[:, None]] = -1
    return logits, tokens, frame_lens, token_lens


@pytest.mark.parametrize("sharpness", [1.0, 30.0])
@pytest.mark.parametrize(
    ("B", "T", "U", "V"), [(9, 60, 25, 40), (12, 9, 6, 2), (3, 1, 1, 3), (2, 5, 0, 3)]
)
def test_values_and_gradients_are_those_of_torch(
    B: int, T: int, U: int, V: int, sharpness: float
) -> None:
    batch = make_batch(B, T, U, V, sharpness)
    weights = torch.rand(B)
    found, wanted = loss(*batch), exact_loss(*batch)
    torch.testing.assert_close(found.double(), wanted, rtol=1e-5, atol=1e-4)
    (have,) = torch.autograd.grad(found, batch[0], weights)
    (want,) = torch.autograd.grad(wanted, batch[0], weights.double())
    torch.testing.assert_close(have, want, rtol=1e-3, atol=1e-3)


def test_a_model_that_says_only_blank_still_learns() -> None:
    """Paths of e^-2000 are far below what a float can hold; their shares are not."""
    logits = torch.zeros(1, 300, 5)
    logits[..., 4] = 20.0
    logits.requires_grad_()
    batch = (logits, torch.arange(100)[None] % 4, torch.tensor([300]), torch.tensor([100]))
    found, wanted = loss(*batch), exact_loss(*batch)
    assert float(wanted.detach()) > 1500
    torch.testing.assert_close(found.double(), wanted, rtol=1e-5, atol=0)
    (have,), (want,) = (torch.autograd.grad(value, logits) for value in (found, wanted))
    torch.testing.assert_close(have, want, rtol=1e-2, atol=1e-3)


def test_without_a_path_loss_and_gradient_are_zero() -> None:
    logits = torch.randn(1, 2, 4, requires_grad=True)
    value = loss(logits, torch.tensor([[1, 1]]), torch.tensor([2]), torch.tensor([2]))
    assert float(value.detach()) == 0.0
    assert not torch.autograd.grad(value, logits)[0].any()


def test_nan_in_one_utterance_stays_there() -> None:
    logits, *rest = make_batch(4, 20, 5, 6, 1.0)
    logits.data[0, 3, 2] = float("nan")
    spoilt = loss(logits, *rest).isnan()
    assert spoilt.tolist() == [True, False, False, False]


def test_the_number_of_threads_changes_no_bit() -> None:
    batch = make_batch(7, 40, 12, 9, 2.0)

    def compute() -> tuple[Tensor, ...]:
        value = loss(*batch)
        return (value, *torch.autograd.grad(value.sum(), batch[0]))

    assert_same_bits_on_two_threads(compute)
