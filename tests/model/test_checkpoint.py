"""Checkpoint folders: what was saved comes back; what is missing, damaged or newer is named."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor

from arborvox.config import Recipe
from arborvox.errors import ArborvoxError
from arborvox.features import CMVN
from arborvox.model import checkpoint
from arborvox.model.asr import ASR
from arborvox.model.checkpoint import load_checkpoint, save_checkpoint
from arborvox.tokens.tokenizer import Tokenizer
from arborvox.tree import CodeTree

Saved = tuple[Path, ASR]


@pytest.fixture
def saved(
    tmp_path: Path, make_model: Callable[..., ASR], tokenizer: Tokenizer, tree: CodeTree
) -> Saved:
    """A checkpoint folder and the model in it."""
    model = make_model().float()
    model.encoder.set_statistics(CMVN(torch.randn(16), torch.rand(16)))
    save_checkpoint(tmp_path / "step-1", model, recipe_of(model), tokenizer, tree)
    return tmp_path / "step-1", model


def recipe_of(model: ASR) -> Recipe:
    return Recipe.model_validate(
        {"model": model.config, "features": {"num_mels": model.encoder.input.width}, "name": "test"}
    )


def test_round_trip_is_exact(
    saved: Saved, tokenizer: Tokenizer, tree: CodeTree, batch: tuple[Tensor, ...]
) -> None:
    folder, model = saved
    state = torch.get_rng_state()
    loaded = load_checkpoint(folder)
    assert torch.equal(torch.get_rng_state(), state), "loading must not draw random numbers"
    assert loaded.recipe == recipe_of(model)
    assert loaded.tokenizer == tokenizer
    assert loaded.tree == tree
    for name, tensor in model.state_dict().items():
        assert torch.equal(loaded.model.state_dict()[name], tensor), name
    inputs = (batch[0].float(), *batch[1:])
    assert torch.equal(loaded.model(*inputs).total, model(*inputs).total)


def test_run_folder_stands_for_its_final_checkpoint(
    tmp_path: Path, saved: Saved, tokenizer: Tokenizer, tree: CodeTree
) -> None:
    _, model = saved
    save_checkpoint(tmp_path / "run" / "final", model, recipe_of(model), tokenizer, tree)
    assert load_checkpoint(tmp_path / "run").folder == tmp_path / "run" / "final"


def test_saving_again_replaces_and_leaves_nothing_behind(
    saved: Saved, tokenizer: Tokenizer, tree: CodeTree
) -> None:
    folder, model = saved
    with torch.no_grad():
        model.encoder.cmvn_mean += 1
    save_checkpoint(folder, model, recipe_of(model), tokenizer, tree)
    assert torch.equal(load_checkpoint(folder).model.encoder.cmvn_mean, model.encoder.cmvn_mean)
    assert [entry.name for entry in folder.parent.iterdir()] == [folder.name]


def test_failed_save_leaves_the_old_checkpoint(
    saved: Saved, tokenizer: Tokenizer, tree: CodeTree, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, model = saved

    def fill_the_disk(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(checkpoint, "save_tree", fill_the_disk)
    with pytest.raises(OSError, match="No space left"):
        save_checkpoint(folder, model, recipe_of(model), tokenizer, tree)
    assert [entry.name for entry in folder.parent.iterdir()] == [folder.name]
    load_checkpoint(folder)


def test_kill_between_the_two_renames_loses_nothing(saved: Saved) -> None:
    folder, _ = saved
    folder.rename(folder.with_name(f".{folder.name}.previous"))
    assert load_checkpoint(folder).recipe.name == "test"


@pytest.mark.parametrize(
    "name", ["checkpoint.json", "model.safetensors", "config.yaml", "tokens.json", "tree.json"]
)
def test_missing_file_is_named(saved: Saved, name: str) -> None:
    folder, _ = saved
    (folder / name).unlink()
    with pytest.raises(ArborvoxError, match="tree" if name == "tree.json" else name):
        load_checkpoint(folder)


@pytest.mark.parametrize(
    "name", ["checkpoint.json", "model.safetensors", "config.yaml", "tokens.json", "tree.json"]
)
@pytest.mark.parametrize("damage", ["cut", "garbage", "empty"])
def test_damaged_file_is_named(saved: Saved, name: str, damage: str) -> None:
    folder, _ = saved
    whole = (folder / name).read_bytes()
    damaged = {"cut": whole[: len(whole) // 2], "garbage": b"\xff\x00" * 40, "empty": b""}[damage]
    (folder / name).write_bytes(damaged)
    if name == "config.yaml" and damage != "garbage":
        return  # half a recipe may be a recipe; the weights then say whether it fits
    with pytest.raises(ArborvoxError, match=name):
        load_checkpoint(folder)


def test_flipped_bit_in_the_weights_is_noticed(saved: Saved) -> None:
    folder, _ = saved
    path = folder / "model.safetensors"
    data = bytearray(path.read_bytes())
    data[-5] ^= 1
    path.write_bytes(data)
    with pytest.raises(ArborvoxError, match="checksum"):
        load_checkpoint(folder)


def test_newer_format_is_refused(saved: Saved) -> None:
    folder, _ = saved
    head = json.loads((folder / "checkpoint.json").read_text())
    (folder / "checkpoint.json").write_text(json.dumps({**head, "version": 99}))
    with pytest.raises(ArborvoxError, match=r"version 99.*newer Arborvox"):
        load_checkpoint(folder)


def test_config_of_another_model_is_refused(saved: Saved) -> None:
    folder, _ = saved
    text = (folder / "config.yaml").read_text()
    (folder / "config.yaml").write_text(text.replace("feed_forward: 64", "feed_forward: 128"))
    with pytest.raises(ArborvoxError, match=r"does not fit config\.yaml"):
        load_checkpoint(folder)


def test_folder_without_a_checkpoint_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ArborvoxError, match="There is no checkpoint folder"):
        load_checkpoint(tmp_path / "nowhere")
    with pytest.raises(ArborvoxError, match="is no checkpoint folder"):
        load_checkpoint(tmp_path)


def test_model_card_names_what_is_inside(saved: Saved) -> None:
    folder, model = saved
    card = (folder / "README.md").read_text()
    assert f"{sum(p.numel() for p in model.parameters()):,}" in card
    assert "hierarchical softmax" in card
    assert "x-x" in card
