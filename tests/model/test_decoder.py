"""The decoder: steps with a cache equal whole transcripts, and beams keep their pasts apart."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from arborvox.errors import ArborvoxError
from arborvox.model.asr import ASR, shift_right


@torch.no_grad()
def states_of(model: ASR, batch: tuple[Tensor, ...], written: Tensor) -> Tensor:
    """Return the decoder's states for whole inputs, (B, U) -> (B, U, D)."""
    assert model.decoder is not None
    return model.decoder(*model.encode(*batch[:2]), written)


def test_shift_right_puts_eos_first_and_last() -> None:
    tokens = torch.tensor([[4, 5, 6], [7, -1, -1], [-1, -1, -1]])
    inputs, targets = shift_right(tokens, torch.tensor([3, 1, 0]))
    assert inputs[:, 0].tolist() == [0, 0, 0]
    assert inputs[0].tolist() == [0, 4, 5, 6]
    assert targets.tolist() == [[4, 5, 6, 0], [7, 0, -1, -1], [0, -1, -1, -1]]


@torch.no_grad()
def test_steps_equal_whole_transcripts(
    make_model: Callable[..., ASR], batch: tuple[Tensor, ...]
) -> None:
    model = make_model()
    written = torch.tensor([[0, 2, 4, 6, 3], [0, 5, 5, 1, 2], [0, 3, 2, 2, 6]])
    whole = states_of(model, batch, written)
    cache = model.start(*model.encode(*batch[:2]), num_beams=1, max_tokens=5)
    for place in range(5):
        state = model.step(written[:, place : place + 1], cache)
        torch.testing.assert_close(state[:, 0], whole[:, place])


@torch.no_grad()
def test_reordered_beams_continue_their_parents(
    make_model: Callable[..., ASR], batch: tuple[Tensor, ...]
) -> None:
    model = make_model()
    generator = torch.Generator().manual_seed(1)
    B, K, U = 3, 4, 5
    cache = model.start(*model.encode(*batch[:2]), num_beams=K, max_tokens=U)
    newest = torch.zeros(B, K, dtype=torch.int64)
    written = newest[:, :, None]
    for place in range(U):
        state = model.step(newest, cache)
        for beam in range(K):
            whole = states_of(model, batch, written[:, beam])
            torch.testing.assert_close(state[:, beam], whole[:, place])
        parents = torch.randint(0, K, (B, K), generator=generator)
        cache.reorder(parents)
        newest = torch.randint(0, 7, (B, K), generator=generator)
        written = written[torch.arange(B)[:, None], parents]
        written = torch.cat((written, newest[:, :, None]), dim=2)


def test_later_tokens_never_change_earlier_states(
    make_model: Callable[..., ASR], batch: tuple[Tensor, ...]
) -> None:
    model = make_model()
    first = states_of(model, batch, torch.tensor([[0, 2, 3], [0, 2, 3], [0, 2, 3]]))
    other = states_of(model, batch, torch.tensor([[0, 2, 6], [0, 2, 5], [0, 2, 4]]))
    assert torch.equal(first[:, :2], other[:, :2])
    assert not torch.allclose(first[:, 2], other[:, 2])


def test_model_without_a_branch_says_so(
    make_model: Callable[..., ASR], batch: tuple[Tensor, ...]
) -> None:
    ctc_only = make_model(decoder="none")
    encoded, lens = ctc_only.encode(*batch[:2])
    with pytest.raises(ArborvoxError, match="no attention decoder"):
        ctc_only.start(encoded, lens, num_beams=1, max_tokens=3)
    with pytest.raises(ArborvoxError, match="no CTC branch"):
        make_model(ctc_weight=0.0).ctc_log_probs(encoded)
