"""A small vocabulary, its tree, and batches for the tests of the network."""

from collections.abc import Callable, Iterator

import pytest
import torch
from torch import Tensor

from arborvox.config import FeaturesConfig, ModelConfig
from arborvox.model.asr import ASR
from arborvox.tokens.tokenizer import Tokenizer
from arborvox.tree import HuffmanTree

NUM_MELS = 16

Inputs = tuple[Tensor, Tensor, Tensor, Tensor]


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Tiny tensors gain nothing from a second thread and lose much when the machine is busy."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def tokenizer() -> Tokenizer:
    """Seven units with unequal counts."""
    units = ("<eos>", "<unk>", "a", "b", "c", "d", "e")
    return Tokenizer("char", units, {"x-x": (9, 0, 30, 4, 12, 2, 7)})


@pytest.fixture
def tree(tokenizer: Tokenizer) -> HuffmanTree:
    """The tree of these units."""
    return HuffmanTree.from_counts(tokenizer.counts["x-x"], tokenizer.units)


@pytest.fixture
def make_model(tokenizer: Tokenizer, tree: HuffmanTree) -> Callable[..., ASR]:
    """Build a tiny network in fp64 with seeded weights; keywords are keys of the recipe."""

    def make(**keys: object) -> ASR:
        torch.manual_seed(3)
        config = ModelConfig.model_validate({"size": "tiny", **keys})
        return ASR(config, FeaturesConfig(num_mels=NUM_MELS), len(tokenizer), tree).double().eval()

    return make


@pytest.fixture
def batch() -> Inputs:
    """Three utterances: long, below seven frames, and middling."""
    generator = torch.Generator().manual_seed(5)
    features = torch.randn(3, 61, NUM_MELS, dtype=torch.float64, generator=generator)
    tokens = torch.tensor([[2, 4, 4, 6], [5, -1, -1, -1], [3, 2, -1, -1]])
    return features, torch.tensor([61, 5, 38]), tokens, torch.tensor([4, 1, 2])
