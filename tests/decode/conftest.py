"""Tiny models of both output layers, and speech for them to read."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from tiny_models import COUNTS, NUM_MELS, UNITS, MakeModel, Speech

from arborvox.config import FeaturesConfig, ModelConfig
from arborvox.model.asr import ASR
from arborvox.tokens.tokenizer import Tokenizer
from arborvox.tree import HuffmanTree

# The straightforward search that the benchmark compares with is the oracle here.
sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))


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
    return Tokenizer("char", UNITS, {"x-x": COUNTS})


@pytest.fixture(params=["softmax", "hierarchical"])
def layer(request: pytest.FixtureRequest) -> str:
    """Each law holds with both output layers."""
    return str(request.param)


@pytest.fixture
def make_model(layer: str) -> MakeModel:
    """Build a tiny network in fp64; weights are drawn wide, so that scores lie apart."""

    def make(**keys: object) -> ASR:
        torch.manual_seed(3)
        config = ModelConfig.model_validate(
            {"size": "tiny", "output": layer, "ctc": layer, "label_smoothing": 0.1, **keys}
        )
        tree = HuffmanTree.from_counts(COUNTS, UNITS)
        model = ASR(config, FeaturesConfig(num_mels=NUM_MELS), len(UNITS), tree).double().eval()
        for output in (model.output, model.ctc.output if model.ctc else None):
            if output is not None:
                torch.nn.init.normal_(output.weight, std=0.5)
        return model

    return make


@pytest.fixture
def speech() -> Speech:
    """Four utterances of unlike lengths, (B, T, M), (B,)."""
    generator = torch.Generator().manual_seed(5)
    features = torch.randn(4, 61, NUM_MELS, dtype=torch.float64, generator=generator)
    return features, torch.tensor([61, 9, 38, 44])
