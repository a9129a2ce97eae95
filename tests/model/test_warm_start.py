"""Warm start: what fits is taken, by unit and by gate, and the report says what was not."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from arborvox.config import FeaturesConfig, ModelConfig, Recipe
from arborvox.model.asr import ASR
from arborvox.model.checkpoint import save_checkpoint
from arborvox.model.warm_start import OUTPUTS, match_gates, match_units, warm_start
from arborvox.tokens.tokenizer import Tokenizer
from arborvox.tree import CodeTree, HuffmanTree

# `d` is gone, `z` is new, and the new one stands before an old one.
NEW_UNITS = ("<eos>", "<unk>", "a", "b", "c", "e", "z")


@pytest.fixture
def new_tokenizer() -> Tokenizer:
    """A vocabulary that shares most units with the old one."""
    return Tokenizer("char", NEW_UNITS, {"yy": (9, 0, 30, 4, 12, 7, 2)})


def save(folder: Path, model: ASR, tokenizer: Tokenizer, tree: CodeTree | None) -> Path:
    recipe = Recipe.model_validate(
        {"model": model.config, "features": {"num_mels": model.encoder.input.width}}
    )
    save_checkpoint(folder, model, recipe, tokenizer, tree)
    return folder


def new_model(tokenizer: Tokenizer, tree: CodeTree, **keys: object) -> ASR:
    torch.manual_seed(77)
    config = ModelConfig.model_validate({"size": "tiny", **keys})
    return ASR(config, FeaturesConfig(num_mels=16), len(tokenizer), tree).eval()


@pytest.mark.parametrize("output", ["softmax", "hierarchical"])
def test_same_recipe_takes_everything(
    tmp_path: Path,
    make_model: Callable[..., ASR],
    tokenizer: Tokenizer,
    tree: CodeTree,
    batch: tuple[Tensor, ...],
    output: str,
) -> None:
    donor = make_model(output=output, ctc=output).float()
    model = new_model(tokenizer, tree, output=output, ctc=output)
    report = warm_start(model, save(tmp_path / "donor", donor, tokenizer, tree), tokenizer)
    assert report.fresh == ()
    assert all(taken == total for taken, total in report.rows.values())
    inputs = (batch[0].float(), *batch[1:])
    assert torch.equal(model(*inputs).total, donor(*inputs).total)


def test_rows_follow_their_units(
    tmp_path: Path,
    make_model: Callable[..., ASR],
    tokenizer: Tokenizer,
    tree: CodeTree,
    new_tokenizer: Tokenizer,
) -> None:
    donor = make_model(output="softmax").float()
    new_tree = HuffmanTree.from_counts(new_tokenizer.counts["yy"], NEW_UNITS)
    model = new_model(new_tokenizer, new_tree, output="softmax")
    fresh = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    report = warm_start(model, save(tmp_path / "donor", donor, tokenizer, tree), new_tokenizer)
    assert report.rows["output.weight"] == (6, 7)
    assert report.rows["ctc.output.bias"] == (7, 8)  # the blank goes along
    for name, extra in (("decoder.embedding.weight", ()), ("ctc.output.weight", ("<blank>",))):
        ours, theirs = model.state_dict()[name], donor.state_dict()[name]
        old_units = (*tokenizer.units, *extra)
        for row, unit in enumerate((*NEW_UNITS, *extra)):
            expected = theirs[old_units.index(unit)] if unit != "z" else fresh[name][row]
            assert torch.equal(ours[row], expected), (name, unit)
    assert "decoder.embedding.weight: 6 of 7 rows" in str(report)


def test_gates_follow_the_sets_they_part() -> None:
    # old: ((a b) (c d)); new: ((e (b a)) (c d)), the pair a, b with its sides swapped
    units, new_units = ("a", "b", "c", "d"), ("a", "b", "c", "d", "e")
    old = CodeTree(np.array([1, ~0, ~2]), np.array([2, ~1, ~3]), np.full(4, 0.25))
    new = CodeTree(np.array([1, ~4, ~2, ~1]), np.array([2, 3, ~3, ~0]), np.full(5, 0.2))
    match = match_gates(new, new_units, old, units)
    rows = dict(zip(match.new.tolist(), match.old.tolist(), strict=True))
    signs = dict(zip(match.new.tolist(), match.signs.tolist(), strict=True))
    assert rows == {2: 2, 3: 1}
    assert signs == {2: 1, 3: -1}


def test_no_shared_unit_matches_no_row() -> None:
    assert len(match_units(("a", "b"), ("c", "d")).new) == 0


def test_parts_that_do_not_fit_stay_fresh(
    tmp_path: Path, make_model: Callable[..., ASR], tokenizer: Tokenizer, tree: CodeTree
) -> None:
    donor = make_model(output="softmax", feed_forward=96).float()
    model = new_model(tokenizer, tree, output="hierarchical")
    fresh = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    report = warm_start(model, save(tmp_path / "donor", donor, tokenizer, tree), tokenizer)
    assert "output.weight" in report.fresh
    assert any("first.expand" in name for name in report.fresh)
    assert "encoder.subsampling.first.weight" in report.whole
    assert "encoder.cmvn_mean" in report.whole
    for name in report.fresh:
        assert torch.equal(model.state_dict()[name], fresh[name]), name
    assert "left fresh" in str(report)


def test_output_layers_begin_anew_where_asked(
    tmp_path: Path, make_model: Callable[..., ASR], tokenizer: Tokenizer, tree: CodeTree
) -> None:
    donor = make_model(output="softmax", ctc="softmax").float()
    model = new_model(tokenizer, tree, output="softmax", ctc="softmax")
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    saved = save(tmp_path / "donor", donor, tokenizer, tree)
    report = warm_start(model, saved, tokenizer, outputs=False)
    assert {*report.fresh} == {f"{part}{n}" for part in OUTPUTS for n in ("weight", "bias")}
    for name in report.fresh:
        assert torch.equal(model.state_dict()[name], before[name]), name
    taken = model.state_dict()["decoder.embedding.weight"]
    assert torch.equal(taken, donor.state_dict()["decoder.embedding.weight"])


def test_report_names_every_tensor_once(
    tmp_path: Path, make_model: Callable[..., ASR], tokenizer: Tokenizer, tree: CodeTree
) -> None:
    donor = make_model(decoder="none").float()
    model = new_model(tokenizer, tree)
    report = warm_start(model, save(tmp_path / "donor", donor, tokenizer, tree), tokenizer)
    names = [*report.whole, *report.rows, *report.fresh]
    assert sorted(names) == sorted(model.state_dict())
