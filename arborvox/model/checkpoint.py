"""Checkpoint folders: whole, readable, written in one stroke, and without any pickle.

step-000500/
  checkpoint.json      format, version, and the checksum of the weights
  model.safetensors    weights and the features' mean and deviation
  config.yaml          the resolved recipe
  tokens.json          the units
  tree.json            the code tree, where the recipe has one
  README.md            the model card
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from arborvox.config import Recipe, load_resolved_recipe, show_recipe
from arborvox.digests import checksum_file
from arborvox.errors import ArborvoxError
from arborvox.files import (
    atomic_folder,
    atomic_path,
    read_json,
    set_aside,
    write_json_atomic,
    write_text_atomic,
)
from arborvox.model.asr import ASR
from arborvox.model.model_card import model_card
from arborvox.tokens.tokenizer import Tokenizer
from arborvox.tree import CodeTree
from arborvox.tree.storage import load_tree, save_tree

FORMAT = "arborvox-checkpoint"
VERSION = 3  # also of the recipe in it, see config/migration.py

# What tensors were called in checkpoints up to a version.
RENAMED_SINCE = {
    1: {"cmvn_mean": "encoder.cmvn_mean", "cmvn_istd": "encoder.cmvn_istd"},
}

HEAD = "checkpoint.json"
WEIGHTS = "model.safetensors"
CONFIG = "config.yaml"
TOKENS = "tokens.json"
TREE = "tree.json"
CARD = "README.md"


@dataclass(frozen=True)
class LoadedModel:
    """All that a checkpoint folder holds; the network is in evaluation mode."""

    folder: Path
    model: ASR
    recipe: Recipe
    tokenizer: Tokenizer
    tree: CodeTree | None


def save_checkpoint(
    folder: Path, model: ASR, recipe: Recipe, tokenizer: Tokenizer, tree: CodeTree | None
) -> None:
    """Write a checkpoint folder; it appears whole, and replaces an older one of the same name."""
    with atomic_folder(folder.absolute()) as part:
        with atomic_path(part / WEIGHTS) as weights:
            save_file(_plain_tensors(model), weights)
        write_text_atomic(part / CONFIG, show_recipe(recipe))
        tokenizer.save(part / TOKENS)
        if tree is not None:
            save_tree(tree, part / TREE)
        write_text_atomic(part / CARD, model_card(model, recipe, tokenizer))
        head = {
            "format": FORMAT,
            "version": VERSION,
            "sha256": {WEIGHTS: checksum_file(part / WEIGHTS)},
        }
        write_json_atomic(part / HEAD, head)


def load_checkpoint(folder: Path, device: torch.device | str = "cpu") -> LoadedModel:
    """Read a checkpoint folder, or say which of its files is missing, damaged or too new."""
    folder = find_checkpoint(folder)
    version = recipe_version(folder)
    for name in (WEIGHTS, CONFIG, TOKENS):
        if not (folder / name).is_file():
            raise ArborvoxError(f"{folder} is not whole: there is no {name}; copy it again.")
    recipe = load_resolved_recipe(folder / CONFIG, version)
    tokenizer = Tokenizer.load(folder / TOKENS)
    tree = load_tree(folder / TREE, tokenizer.units) if (folder / TREE).exists() else None
    tensors = load_weights(folder, device)
    with torch.random.fork_rng(devices=[]):  # fresh weights are drawn only to be replaced
        model = ASR(recipe.model, recipe.features, len(tokenizer), tree)
    try:
        model.to(device).load_state_dict(tensors)
    except RuntimeError as error:
        first = str(error).splitlines()[1].strip().rstrip(".")
        raise ArborvoxError(
            f"{folder / WEIGHTS} does not fit {CONFIG} beside it ({first}); "
            f"use the files of one checkpoint together."
        ) from None
    return LoadedModel(folder, model.eval(), recipe, tokenizer, tree)


def load_weights(folder: Path, device: torch.device | str = "cpu") -> dict[str, Tensor]:
    """Read a checkpoint's tensors, under today's names whatever version wrote them."""
    version, checksums = _read_head(folder / HEAD)
    tensors = _read_weights(folder / WEIGHTS, checksums.get(WEIGHTS), device)
    for newest, names in RENAMED_SINCE.items():
        if version <= newest:
            tensors = {names.get(name, name): tensor for name, tensor in tensors.items()}
    return tensors


def find_checkpoint(place: Path) -> Path:
    """Return the checkpoint folder that a path stands for: itself, or the final one of a run."""
    place = place.absolute()
    for folder in (place, set_aside(place), place / "final"):
        if (folder / HEAD).is_file():
            return folder
    if not place.is_dir():
        raise ArborvoxError(f"There is no checkpoint folder {place}.")
    raise ArborvoxError(
        f"{place} is no checkpoint folder: it has no {HEAD}, nor does a folder `final` in it."
    )


def _plain_tensors(model: ASR) -> dict[str, Tensor]:
    return {name: tensor.detach().contiguous() for name, tensor in model.state_dict().items()}


def recipe_version(folder: Path) -> int:
    """Return the version in which a checkpoint's recipe, and that of its run, is written."""
    return _read_head(folder / HEAD)[0]


def _read_head(path: Path) -> tuple[int, dict[str, str]]:
    """Check the format; return version and checksums by file name."""
    head: Any = read_json(path)
    if not isinstance(head, dict) or head.get("format") != FORMAT:
        raise ArborvoxError(f'{path} is not the head of a checkpoint: "format" is not "{FORMAT}".')
    version, checksums = head.get("version"), head.get("sha256")
    if type(version) is not int or version < 1 or not isinstance(checksums, dict):
        raise ArborvoxError(f'{path} is damaged: "version" or "sha256" is missing.')
    if version > VERSION:
        raise ArborvoxError(
            f"{path}: the checkpoint has format version {version}, and this Arborvox reads up to "
            f"{VERSION}; install a newer Arborvox."
        )
    return version, checksums


def _read_weights(
    path: Path, checksum: str | None, device: torch.device | str
) -> dict[str, Tensor]:
    if checksum_file(path) != checksum:
        raise ArborvoxError(
            f"{path} is damaged: its checksum is not that of {HEAD}; copy it again."
        )
    try:
        tensors: dict[str, Tensor] = load_file(path, device=str(device))
    except SafetensorError as error:
        raise ArborvoxError(f"{path} is not a safetensors file ({error}).") from None
    return tensors
