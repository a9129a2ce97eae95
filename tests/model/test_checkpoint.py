"""Checkpoint folders: what was saved comes back; what is missing, damaged or newer is named."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

from arborvox.config import Recipe
from arborvox.digests import checksum_file
from arborvox.errors import ArborvoxError
from arborvox.features import CMVN
from arborvox.model import checkpoint
from arborvox.model.asr import ASR
from arborvox.model.checkpoint import load_checkpoint, not_finite, save_checkpoint
from arborvox.tokens.tokenizer import Tokenizer
from arborvox.tree import CodeTree
from arborvox.tree.storage import save_tree

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


def make_version_1(folder: Path) -> Path:
    """Turn a checkpoint into one of the first format, which had a checksum of the weights alone."""
    head = json.loads((folder / "checkpoint.json").read_text())
    weights = head["sha256"]["model.safetensors"]
    old = {**head, "version": 1, "sha256": {"model.safetensors": weights}}
    (folder / "checkpoint.json").write_text(json.dumps(old))
    return folder


def test_first_format_still_loads(saved: Saved) -> None:
    folder, model = saved
    text = (folder / "config.yaml").read_text()
    assert "inventories: none" in text
    old = text.replace("  inventory: null\n", "").replace("inventories: none", "inventory: both")
    (folder / "config.yaml").write_text(old)
    loaded = load_checkpoint(make_version_1(folder))
    assert loaded.recipe.decode.inventories == "both"  # the key's name then was another
    assert torch.equal(loaded.model.encoder.cmvn_mean, model.encoder.cmvn_mean)


def test_exchanged_units_are_noticed(saved: Saved) -> None:
    """The same shapes and a valid file, but other text: only the checksum can tell."""
    folder, _ = saved
    facts = json.loads((folder / "tokens.json").read_text())
    facts["units"][2], facts["units"][3] = facts["units"][3], facts["units"][2]
    (folder / "tokens.json").write_text(json.dumps(facts))
    with pytest.raises(ArborvoxError, match=r"tokens\.json is damaged or was changed"):
        load_checkpoint(folder)


def test_a_changed_setting_is_noticed(saved: Saved) -> None:
    folder, _ = saved
    text = (folder / "config.yaml").read_text()
    (folder / "config.yaml").write_text(text.replace("shift_s: 0.01", "shift_s: 0.02"))
    with pytest.raises(ArborvoxError, match=r"config\.yaml is damaged or was changed"):
        load_checkpoint(folder)


def test_the_card_may_be_edited(saved: Saved) -> None:
    folder, _ = saved
    (folder / "README.md").write_text("Our model.")
    load_checkpoint(folder)
    (folder / "README.md").unlink()
    load_checkpoint(folder)


def test_a_tree_that_came_along_is_refused(
    tmp_path: Path, make_model: Callable[..., ASR], tokenizer: Tokenizer, tree: CodeTree
) -> None:
    model = make_model(output="softmax", ctc="softmax").float()
    save_checkpoint(tmp_path / "plain", model, recipe_of(model), tokenizer, None)
    load_checkpoint(tmp_path / "plain")
    save_tree(tree, tmp_path / "plain" / "tree.json")
    with pytest.raises(ArborvoxError, match=r"tree\.json does not belong to this checkpoint"):
        load_checkpoint(tmp_path / "plain")


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_weights_that_are_no_numbers_are_refused(
    saved: Saved, tokenizer: Tokenizer, tree: CodeTree, value: float
) -> None:
    folder, model = saved
    with torch.no_grad():
        model.encoder.layers[0].first.expand.weight[1, 2] = value
    save_checkpoint(folder, model, recipe_of(model), tokenizer, tree)
    with pytest.raises(ArborvoxError, match=r"layers\.0\.\S+ holds NaN or infinite"):
        load_checkpoint(folder)


def test_large_but_finite_weights_are_no_fault() -> None:
    """Their sum overflows; they do not."""
    assert not_finite({"large": torch.full((4,), 3e38)}) is None
    assert not_finite({"good": torch.ones(2), "bad": torch.tensor([1.0, torch.nan])}) == "bad"


@pytest.mark.parametrize(
    ("found", "put"),
    [
        ("feed_forward: 64", "feed_forward: 128"),
        ("width: 32", "width: 2000000"),
        ("width: 32", "width: 2000000000000000000"),
        ("encoder_layers: 2", "encoder_layers: 1000000000"),
        ("num_mels: 16", "num_mels: 1000000000"),
        ("kernel: 7", "kernel: 1000000001"),
        ("channels: 8", "channels: 10000000000000"),
    ],
)
def test_sizes_are_compared_before_memory_is_taken(
    saved: Saved, monkeypatch: pytest.MonkeyPatch, found: str, put: str
) -> None:
    """A stranger's configuration is believed only as far as the weights beside it agree."""
    folder, _ = saved
    text = (folder / "config.yaml").read_text()
    assert found in text
    (make_version_1(folder) / "config.yaml").write_text(text.replace(found, put))
    built: list[torch.device] = []
    build = ASR.__init__

    def noted(self: ASR, *arguments: Any) -> None:
        build(self, *arguments)
        built.append(next(self.parameters()).device)

    monkeypatch.setattr(ASR, "__init__", noted)
    # The section's own bounds may refuse it even before.
    with pytest.raises(
        ArborvoxError, match=r"does not fit config\.yaml|config\.yaml.*(model|features|line)"
    ):
        load_checkpoint(folder)
    assert all(device.type == "meta" for device in built)


def test_oversized_files_are_not_read(saved: Saved) -> None:
    folder, _ = saved
    with (folder / "tokens.json").open("r+b") as file:
        file.truncate(300 << 20)  # sparse
    with pytest.raises(ArborvoxError, match=r"tokens\.json is larger than 64 MiB"):
        load_checkpoint(folder)


def test_weights_of_another_kind_are_refused(saved: Saved) -> None:
    folder, model = saved
    state = {name: tensor.to(torch.int8) for name, tensor in model.state_dict().items()}
    save_file(state, folder / "model.safetensors")
    head = json.loads((folder / "checkpoint.json").read_text())
    head["sha256"]["model.safetensors"] = checksum_file(folder / "model.safetensors")
    (folder / "checkpoint.json").write_text(json.dumps(head))
    with pytest.raises(ArborvoxError, match="holds I8, no weights"):
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
