"""Tiny models of both output layers, and speech for them to read."""

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch
from tiny_models import COUNTS, NUM_MELS, UNITS, MakeModel, Speech

from arborvox.config import FeaturesConfig, ModelConfig
from arborvox.manifest import Utterance, write_cuts
from arborvox.model.asr import ASR
from arborvox.tokens.tokenizer import Tokenizer
from arborvox.tree import HuffmanTree

# The straightforward search that the benchmark compares with is the oracle here.
sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))


ARPA = """
\\data\\
ngram 1=7
ngram 2=2

\\1-grams:
-2.0\t<unk>
-99\t<s>\t-0.5
-1.0\t</s>
-0.5\ta\t-0.2
-0.7\tb\t-0.4
-0.9\tc
-0.8\td

\\2-grams:
-0.1\t<s> a
-0.3\ta b

\\end\\
"""


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


@pytest.fixture
def arpa(tmp_path: Path) -> Path:
    """A language model over some of the units of the tiny checkpoints."""
    path = tmp_path / "lm.arpa"
    path.write_text(ARPA, encoding="utf-8")
    return path


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """A prepared folder with all three sets."""
    folder = tmp_path / "corpus"
    folder.mkdir()
    rng = np.random.default_rng(0)
    for split, number in (("train", 1), ("dev", 5), ("test", 2)):
        utterances = []
        for place in range(number):
            path = folder / f"{split}{place}.wav"
            samples = 0.1 * rng.normal(size=8000 + 2000 * place)
            soundfile.write(path, samples.astype(np.float32), 16000)
            utterances.append(Utterance(path.stem, str(path), "x-x", "a b", 16000, len(samples)))
        write_cuts(folder / f"cuts_{split}.jsonl.gz", utterances)
    return folder
