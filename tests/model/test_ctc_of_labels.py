"""CTC over a tree asks for a batch's own tokens only: the loss is that over all of them."""

import pytest
import torch

from arborvox.config import ModelConfig
from arborvox.config.choices import OutputKind
from arborvox.model import ctc as ctc_module
from arborvox.model.ctc import CTC
from arborvox.tree import HuffmanTree

VOCABULARY = 40
TOKENS = torch.tensor([[3, 3, 17, 5], [39, 0, -1, -1], [-1, -1, -1, -1]])
TOKEN_LENS = torch.tensor([4, 2, 0])
FRAME_LENS = torch.tensor([12, 9, 5])


def losses_and_gradients(branch: CTC, dtype: torch.dtype) -> list[torch.Tensor]:
    encoded = torch.randn(3, 12, 16, generator=torch.Generator().manual_seed(1)).to(dtype)
    encoded.requires_grad_()
    branch.zero_grad()
    losses = branch(encoded, FRAME_LENS, TOKENS, TOKEN_LENS)
    losses.sum().backward()
    grads = [tensor.grad for tensor in (encoded, *branch.parameters())]
    return [losses.detach(), *(grad.clone() for grad in grads if grad is not None)]


def note_whole_scores(branch: CTC, monkeypatch: pytest.MonkeyPatch) -> list[torch.Size]:
    """Return a list that grows whenever all tokens are scored."""
    asked, score = [], branch.log_probs

    def noted(encoded: torch.Tensor) -> torch.Tensor:
        asked.append(encoded.shape)
        return score(encoded)

    monkeypatch.setattr(branch, "log_probs", noted)
    return asked


@pytest.mark.parametrize("kind", ["hierarchical", "softmax"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_losses_and_gradients_are_those_over_all_tokens(
    kind: OutputKind, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A batch with a repeated token, padding, and an utterance in which nothing is said."""
    torch.manual_seed(0)
    tree = HuffmanTree.from_counts(range(1, VOCABULARY + 1))
    branch = CTC(ModelConfig(width=16, heads=2, ctc=kind), VOCABULARY, tree)
    if dtype is torch.bfloat16 and kind == "softmax":
        branch = branch.to(dtype)
    asked = note_whole_scores(branch, monkeypatch)
    some = losses_and_gradients(branch, dtype)
    assert bool(asked) == (kind == "softmax")  # a tree computes no others
    monkeypatch.setattr(ctc_module, "MOST_OF_ALL", 0.0)
    among_all = losses_and_gradients(branch, dtype)
    assert asked
    for one, other in zip(some, among_all, strict=True):
        assert torch.allclose(one.float(), other.float(), atol=1e-4, rtol=1e-3)


def test_a_batch_with_most_of_the_vocabulary_is_scored_over_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tree = HuffmanTree.from_counts(range(1, 9))
    branch = CTC(ModelConfig(width=16, heads=2, ctc="hierarchical"), 8, tree)
    asked = note_whole_scores(branch, monkeypatch)
    tokens = torch.tensor([[0, 1, 2, 3, 4]])
    branch(torch.randn(1, 12, 16), torch.tensor([12]), tokens, torch.tensor([5]))
    assert asked
