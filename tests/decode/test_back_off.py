"""Where a phone is unsure, the node above it that is sure is told."""

from pathlib import Path

import numpy as np
import pytest
import torch

from arborvox.config import DecodeConfig, validate_recipe
from arborvox.decode.back_off import BackOff
from arborvox.decode.engine import load_engine
from arborvox.decode.hypothesis import Hypothesis
from arborvox.decode.network import CtcScores
from arborvox.errors import ArborvoxError
from arborvox.model.asr import ASR
from arborvox.model.checkpoint import save_checkpoint
from arborvox.recognizer import load
from arborvox.tokens.tokenizer import Tokenizer
from arborvox.tree import CodeTree, HuffmanTree
from arborvox.tree.questions import question_tree

UNITS = ("<eos>", "<unk>", *"aikmpt")
COUNTS = (9, 0, 8, 7, 6, 5, 4, 3)
K, P, T = (UNITS.index(unit) for unit in "kpt")


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer("phone", UNITS, {"x-x": COUNTS})


@pytest.fixture(scope="module")
def tree() -> CodeTree:
    return question_tree(COUNTS, UNITS, UNITS[:2]).tree


def scores(masses: dict[int, float]) -> CtcScores:
    """One frame, of which the blank has half."""
    found = np.full(len(UNITS) + 1, 1e-9)
    found[-1] = 0.5
    for token, mass in masses.items():
        found[token] = mass / 2
    labels = np.arange(len(UNITS) + 1)
    return CtcScores(np.log(found, dtype=np.float32)[None, None], labels, labels)


def told(
    tree: CodeTree, tokenizer: Tokenizer, masses: dict[int, float], threshold: float
) -> object:
    found = Hypothesis((T,), 0.0, (0.3,), ((0, 1),))
    return BackOff(tree, tokenizer, threshold)(scores(masses), 0, found).unsure[0]


def test_a_phone_with_enough_of_what_is_no_blank_is_written(
    tree: CodeTree, tokenizer: Tokenizer
) -> None:
    assert told(tree, tokenizer, {T: 0.7, P: 0.3}, 0.6) is None


def test_what_stops_above_the_leaf_is_told(tree: CodeTree, tokenizer: Tokenizer) -> None:
    shared = {T: 0.4, P: 0.3, K: 0.3}
    assert told(tree, tokenizer, shared, 0.9) == "voiceless stop, place unsure"


def test_where_nothing_is_sure_that_is_told(tree: CodeTree, tokenizer: Tokenizer) -> None:
    anything = dict.fromkeys(range(2, len(UNITS)), 1 / 6)
    assert told(tree, tokenizer, anything, 0.999) == "sound unsure"


def test_a_higher_threshold_is_never_surer(tree: CodeTree, tokenizer: Tokenizer) -> None:
    rng = np.random.default_rng(0)
    lower, higher = (BackOff(tree, tokenizer, threshold) for threshold in (0.3, 0.8))
    found = Hypothesis((T,), 0.0, (0.3,), ((0, 1),))
    for _ in range(30):
        frame = scores(dict(enumerate(rng.dirichlet(np.ones(6)), start=2)))
        if higher(frame, 0, found).unsure[0] is None:
            assert lower(frame, 0, found).unsure[0] is None


def test_other_trees_and_other_units_are_refused(tree: CodeTree, tokenizer: Tokenizer) -> None:
    letters = Tokenizer("char", UNITS, {"x-x": COUNTS})
    for model in ((None, tokenizer), (HuffmanTree.from_counts(COUNTS), tokenizer), (tree, letters)):
        with pytest.raises(ArborvoxError, match="tree of questions"):
            BackOff(*model, 0.5)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, tree: CodeTree, tokenizer: Tokenizer) -> Path:
    """A tiny untrained model with tied gates in both branches."""
    folder = tmp_path_factory.mktemp("tied") / "run"
    recipe = validate_recipe(
        {
            "tokens": {"unit": "phone"},
            "tree": {"kind": "questions"},
            "model": {"size": "tiny", "output": "tied", "ctc": "tied"},
        },
        name="test",
    )
    torch.manual_seed(1)
    model = ASR(recipe.model, recipe.features, len(UNITS), tree).eval()
    assert model.ctc is not None
    torch.nn.init.normal_(model.ctc.output.question, std=1.5)
    save_checkpoint(folder, model, recipe, tokenizer, tree)
    return folder


def test_a_transcript_has_brackets_where_nothing_is_sure(run: Path) -> None:
    samples = np.random.default_rng(0).normal(size=32_000).astype(np.float32)
    plain = load(run, DecodeConfig(mode="joint")).transcribe(samples, 16_000)
    described = load(run, DecodeConfig(mode="joint", back_off=1.0)).transcribe(samples, 16_000)
    assert plain.text
    assert "[" not in plain.text
    assert described.text.count("unsure]") == len(plain.text.split())
    assert len(described.segments[0].words) == len(plain.segments[0].words)


def test_a_greedy_search_with_tied_gates_finds_the_labels_of_the_full_one(run: Path) -> None:
    engine = load_engine(run, DecodeConfig(mode="ctc-greedy", precision="fp32"))
    features = torch.randn(90, 80, generator=torch.Generator().manual_seed(2))
    with torch.inference_mode():
        encoded = engine.network.encode(features[None], torch.tensor([90]))
        values, labels = engine.network.ctc_best(encoded)
        full = engine.network.ctc_scores(encoded).log_probs
    assert (labels == full.argmax(axis=2)).all()
    np.testing.assert_allclose(values, full.max(axis=2), rtol=1e-4, atol=1e-5)
