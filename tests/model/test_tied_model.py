"""Networks with tied gates: what is carried over, how deviations are held, and what recipes say."""

from pathlib import Path

import pytest
import torch

from arborvox.config import Recipe, TrainConfig, validate_recipe
from arborvox.errors import ArborvoxError
from arborvox.model.asr import ASR
from arborvox.model.checkpoint import load_checkpoint, save_checkpoint
from arborvox.model.warm_start import warm_start
from arborvox.tokens.building import build_tokenizer
from arborvox.tokens.corpus import Sentence
from arborvox.tokens.tokenizer import Tokenizer
from arborvox.training.optimizer import make_optimizer
from arborvox.tree import CodeTree
from arborvox.tree.questions import question_tree

SPECIAL = ("<eos>", "<unk>")


def vocabulary(phones: str) -> tuple[Tokenizer, CodeTree]:
    units = (*SPECIAL, *sorted(phones))
    counts = (30, 0, *range(5, 5 + len(phones)))
    return Tokenizer("phone", units, {"x-x": counts}), question_tree(counts, units, SPECIAL).tree


def recipe(**keys: object) -> Recipe:
    return validate_recipe(
        {
            "tokens": {"unit": "phone"},
            "tree": {"kind": "questions"},
            "model": {"size": "tiny", "output": "tied", "ctc": "tied", **keys},
        },
        name="test",
    )


def model_over(tree: CodeTree, seed: int) -> ASR:
    torch.manual_seed(seed)
    made = recipe()
    model = ASR(made.model, made.features, tree.num_leaves, tree)
    for output in (model.output, model.ctc.output if model.ctc else None):
        torch.nn.init.normal_(output.deviation)
    return model


@pytest.fixture(scope="module")
def donor(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("donor") / "run"
    tokenizer, tree = vocabulary("aeimnptkbds")
    save_checkpoint(folder, model_over(tree, 1), recipe(), tokenizer, tree)
    return folder


def test_the_same_vocabulary_takes_everything(donor: Path) -> None:
    tokenizer, tree = vocabulary("aeimnptkbds")
    model, given = model_over(tree, 2), load_checkpoint(donor).model
    report = warm_start(model, donor, tokenizer)
    assert not report.fresh
    for name, value in given.state_dict().items():
        assert torch.equal(value, model.state_dict()[name]), name


def test_questions_follow_their_names_into_another_vocabulary(donor: Path) -> None:
    tokenizer, tree = vocabulary("aeimnptkbdsuofz")
    model, given = model_over(tree, 2), load_checkpoint(donor).model
    warm_start(model, donor, tokenizer)
    ours, theirs = model.output, given.output
    shared = [name for name in ours.question_names if name in theirs.question_names]
    named = [name for name in shared if not name.startswith("~")]
    assert len(named) > 2
    for name in named:
        rows = (layer.question_names.index(name) for layer in (ours, theirs))
        new, old = (layer.question[row] for layer, row in zip((ours, theirs), rows, strict=True))
        assert torch.equal(new, old)


def test_deviations_have_a_decay_of_their_own() -> None:
    _, tree = vocabulary("aeimnptkbds")
    model = model_over(tree, 1)
    config = TrainConfig(weight_decay=0.01, deviation_decay=0.7)
    groups = make_optimizer(model, config).param_groups
    by_decay = {group["weight_decay"]: group["params"] for group in groups}
    held = [model.output.deviation, model.ctc.output.deviation]
    assert {id(p) for p in by_decay[0.7]} == {id(p) for p in held}
    assert sum(len(group["params"]) for group in groups) == len(list(model.parameters()))


def test_tied_gates_over_another_tree_are_refused() -> None:
    with pytest.raises(ArborvoxError, match=r"tied.*tree\.kind: questions, not huffman"):
        validate_recipe({"model": {"size": "tiny", "ctc": "tied"}}, name="test")


def test_units_are_added_without_a_count() -> None:
    corpus = [Sentence("fin", "a t a"), Sentence("fin", "t")]
    tokenizer = build_tokenizer(corpus, "phone", more={"q", "t"})
    assert tokenizer.units == (*SPECIAL, "a", "q", "t")
    assert tokenizer.counts["fin"] == (2, 0, 2, 0, 2)
    with pytest.raises(ArborvoxError, match="not to BPE"):
        build_tokenizer(corpus, "bpe", more={"q"})
