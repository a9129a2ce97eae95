"""Checkpoint folders: whole, readable, written in one stroke, and without any pickle.

step-000500/
  checkpoint.json      format, version, and the checksums of the files below, less the card
  model.safetensors    weights and the features' mean and deviation
  frozen.safetensors   weights that training never changes, where a run's checkpoints share them
  config.yaml          the resolved recipe
  tokens.json          the units
  tree.json            the code tree, where the recipe has one
  encoder/             what a pretrained encoder is made from, where the recipe has one
  search.json          the search that `arborvox tune --apply` settled on
  lm.arpa.gz           and its language model, if it has one
  README.md            the model card
"""

import contextlib
import hashlib
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor

from arborvox.config import DecodeConfig, Recipe, load_resolved_recipe, show_recipe
from arborvox.config.decode import SEARCH_KEYS
from arborvox.digests import checksum_file
from arborvox.errors import ArborvoxError, one_line
from arborvox.files import (
    atomic_folder,
    atomic_path,
    link_or_copy,
    open_gzip_reproducible,
    open_unpacked,
    read_json,
    set_aside,
    write_json_atomic,
    write_text_atomic,
)
from arborvox.model.asr import ASR
from arborvox.model.model_card import model_card
from arborvox.model.undrawn import Undrawn
from arborvox.tokens.tokenizer import Tokenizer
from arborvox.tree import CodeTree
from arborvox.tree.storage import load_tree, save_tree

FORMAT = "arborvox-checkpoint"
# 1 had a checksum of the weights alone; also of the recipe, see config/migration.py.
# What has none of the files below is still written as 2.
VERSION = 4
OLDEST_WRITTEN = 2

# What tensors were called in checkpoints up to a version.
RENAMED_SINCE = {
    1: {"cmvn_mean": "encoder.cmvn_mean", "cmvn_istd": "encoder.cmvn_istd"},
}

HEAD = "checkpoint.json"
WEIGHTS = "model.safetensors"
FROZEN = "frozen.safetensors"
CONFIG = "config.yaml"
TOKENS = "tokens.json"
TREE = "tree.json"
ENCODER = "encoder"
SEARCH = "search.json"
SEARCH_LM = "lm.arpa.gz"
CARD = "README.md"
# What decides the result; the card is for people, who may edit it.
DECISIVE = (WEIGHTS, FROZEN, CONFIG, TOKENS, TREE, SEARCH, SEARCH_LM)
# The version since which there is a file, the newest first.
VERSIONS = {SEARCH: 4, FROZEN: 3}
LARGE = (WEIGHTS, FROZEN)
FLOAT_TYPES = {"F64", "F32", "F16", "BF16"}
# Far more than the largest that were ever written; a stranger's file is not read beyond it.
MAX_MIB = {TOKENS: 64, TREE: 256, SEARCH_LM: 1024}  # of all others: one


@dataclass(frozen=True)
class LoadedModel:
    """All that a checkpoint folder holds; the network is in evaluation mode."""

    folder: Path
    model: ASR
    recipe: Recipe
    tokenizer: Tokenizer
    tree: CodeTree | None
    checksums: Mapping[str, str]  # SHA-256 of weights, tokens and tree, by file name
    search: DecodeConfig | None = None  # what it was tuned with after training, if it was


def save_checkpoint(
    folder: Path,
    model: ASR,
    recipe: Recipe,
    tokenizer: Tokenizer,
    tree: CodeTree | None,
    *,
    frozen: Path | None = None,
) -> None:
    """Write a checkpoint folder; it appears whole, and replaces an older one of the same name.

    A search that the older one was tuned with is handed on: a run that goes on keeps it.
    frozen: what `save_frozen` made; the folder gets a link to it instead of these weights.
    """
    tensors = _plain_tensors(model)
    with atomic_folder(folder.absolute()) as part:
        if frozen is not None:
            link_or_copy(frozen, part / FROZEN)
            names = _frozen_names(model)
            tensors = {name: tensor for name, tensor in tensors.items() if name not in names}
        with atomic_path(part / WEIGHTS) as weights:
            save_file(tensors, weights)
        write_text_atomic(part / CONFIG, show_recipe(recipe))
        tokenizer.save(part / TOKENS)
        if tree is not None:
            save_tree(tree, part / TREE)
        for name, text in model.encoder.files().items():
            write_text_atomic(part / ENCODER / name, text)
        write_text_atomic(part / CARD, model_card(model, recipe, tokenizer))
        with contextlib.suppress(ArborvoxError):  # one that is damaged is of no use
            _write_search(part, read_search(folder))
        _write_head(part)


def save_search(place: Path, search: DecodeConfig) -> Path:
    """Put a search and its language model into a checkpoint, in one stroke; return its folder."""
    folder = find_checkpoint(place)
    if _check_files(folder)[0] < OLDEST_WRITTEN:
        raise ArborvoxError(
            f"{folder} is of the first checkpoint format, which holds no search; "
            f"give the options that were printed each time."
        )
    with atomic_folder(folder) as part:
        shutil.copytree(folder, part, dirs_exist_ok=True, copy_function=_second_name)
        for name in (SEARCH, SEARCH_LM):
            (part / name).unlink(missing_ok=True)
        _write_search(part, search)
        _write_head(part)
    return folder


def save_frozen(path: Path, model: ASR) -> bool:
    """Write the weights that training never changes, for checkpoints to share; say if any are."""
    names = _frozen_names(model)
    if names:
        tensors = {n: tensor for n, tensor in _plain_tensors(model).items() if n in names}
        with atomic_path(path) as part:
            save_file(tensors, part)
    return bool(names)


def load_checkpoint(folder: Path, device: torch.device | str = "cpu") -> LoadedModel:
    """Read a checkpoint folder, or say which of its files is missing, damaged or too new."""
    folder = find_checkpoint(folder)
    _check_sizes(folder)
    version, checksums = _check_files(folder)
    recipe = load_resolved_recipe(folder / CONFIG, version)
    tokenizer = Tokenizer.load(folder / TOKENS)
    tree = load_tree(folder / TREE, tokenizer.units) if (folder / TREE).exists() else None
    _compare_shapes(folder, version, recipe, len(tokenizer), tree)
    tensors = _read_weights(folder, version, device)
    with Undrawn(), torch.random.fork_rng(devices=[]):  # what is drawn would be replaced
        model = ASR(recipe.model, recipe.features, len(tokenizer), tree, folder / ENCODER)
    model.to(device).load_state_dict(tensors)
    search = read_search(folder)
    return LoadedModel(folder, model.eval(), recipe, tokenizer, tree, checksums, search)


def load_weights(folder: Path, device: torch.device | str = "cpu") -> dict[str, Tensor]:
    """Read a checkpoint's tensors, under today's names whatever version wrote them."""
    version, stated = _read_head(folder / HEAD)
    for path in _weight_files(folder):
        if checksum_file(path) != stated.get(path.name):
            raise ArborvoxError(_changed(path))
    if FROZEN in stated and not (folder / FROZEN).is_file():
        raise ArborvoxError(_lacks(folder, FROZEN))
    return _read_weights(folder, version, device)


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


def _write_search(part: Path, search: DecodeConfig | None) -> None:
    if search is None:
        return
    if search.lm is not None:
        with open_unpacked(search.lm) as read, open_gzip_reproducible(part / SEARCH_LM) as written:
            shutil.copyfileobj(read, written)
    keys = [key for key in SEARCH_KEYS if key in search.model_fields_set]
    write_json_atomic(part / SEARCH, {key: getattr(search, key) for key in keys})


def _write_head(part: Path) -> None:
    """Write what vouches for the other files, in the oldest version that knows all of them."""
    checksums = {name: checksum_file(part / name) for name in _decisive(part)}
    version = next((since for name, since in VERSIONS.items() if name in checksums), OLDEST_WRITTEN)
    write_json_atomic(part / HEAD, {"format": FORMAT, "version": version, "sha256": checksums})


def _second_name(source: str, target: str) -> None:
    link_or_copy(Path(source).resolve(), Path(target))


def read_search(folder: Path) -> DecodeConfig | None:
    """Read the search that a model was tuned with; its language model is the one beside it."""
    path, lm = folder / SEARCH, folder / SEARCH_LM
    if not path.is_file():
        return None
    values = read_json(path)
    if not isinstance(values, dict) or not {"mode"} <= set(values) <= set(SEARCH_KEYS):
        raise ArborvoxError(f"{path} is damaged: it does not hold {', '.join(SEARCH_KEYS)} alone.")
    try:
        return DecodeConfig(**values, lm=lm if lm.is_file() else None)
    except ArborvoxError as error:
        raise ArborvoxError(f"{path} is damaged: {error}") from None


def _plain_tensors(model: ASR) -> dict[str, Tensor]:
    return {name: tensor.detach().contiguous() for name, tensor in model.state_dict().items()}


def _frozen_names(model: ASR) -> set[str]:
    return {f"encoder.{name}" for name in model.encoder.frozen_names()}


def _weight_files(folder: Path) -> list[Path]:
    return [folder / WEIGHTS, *(path for path in (folder / FROZEN,) if path.is_file())]


def recipe_version(folder: Path) -> int:
    """Return the version in which a checkpoint's recipe, and that of its run, is written."""
    return _read_head(folder / HEAD)[0]


def _decisive(folder: Path) -> list[str]:
    """List the files of a checkpoint that decide its result, as far as they are there."""
    encoder = sorted(f"{ENCODER}/{path.name}" for path in (folder / ENCODER).glob("*.json"))
    return [name for name in (*DECISIVE, *encoder) if (folder / name).is_file()]


def _check_sizes(folder: Path) -> None:
    for name in (HEAD, *_decisive(folder)):
        path, limit = folder / name, MAX_MIB.get(name, 1)
        if name not in LARGE and path.is_file() and path.stat().st_size > limit << 20:
            raise ArborvoxError(f"{path} is larger than {limit} MiB, so it is none of ours.")


def _check_files(folder: Path) -> tuple[int, dict[str, str]]:
    """Refuse a folder that lost, gained or changed a file; return version and checksums."""
    version, stated = _read_head(folder / HEAD)
    required = (WEIGHTS, CONFIG, TOKENS)
    for name in required:
        if not (folder / name).is_file():
            raise ArborvoxError(_lacks(folder, name))
    found = {name: checksum_file(folder / name) for name in _decisive(folder)}
    promised = [WEIGHTS] if version == 1 else sorted({*required, *stated, *found})
    for name in promised:
        if name not in found:
            raise ArborvoxError(_lacks(folder, name))
        if name not in stated:
            raise ArborvoxError(
                f"{folder / name} does not belong to this checkpoint: {HEAD} has no checksum of "
                f"it; copy the whole folder again."
            )
        if found[name] != stated[name]:
            raise ArborvoxError(_changed(folder / name))
    if FROZEN in found:  # the weights are those of both files
        found[WEIGHTS] = hashlib.sha256((found[WEIGHTS] + found[FROZEN]).encode()).hexdigest()
    return version, {name: checksum for name, checksum in found.items() if name != CONFIG}


def _lacks(folder: Path, name: str) -> str:
    return f"{folder} is not whole: there is no {one_line(name)}; copy it again."


def _changed(path: Path) -> str:
    return f"{path} is damaged or was changed: its checksum is not that of {HEAD}; copy it again."


def _read_head(path: Path) -> tuple[int, dict[str, str]]:
    """Check the format; return its version and the checksums by file name."""
    head: Any = read_json(path, MAX_MIB.get(HEAD, 1))
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


def _compare_shapes(
    folder: Path, version: int, recipe: Recipe, num_tokens: int, tree: CodeTree | None
) -> None:
    """Refuse a configuration that does not fit the weights, before memory is taken for either."""
    path = folder / WEIGHTS
    stored: dict[str, tuple[int, ...]] = {}
    for file in _weight_files(folder):
        stored |= {_name_today(name, version): shape for name, shape in _read_shapes(file).items()}
    config = recipe.model
    if config.encoder_layers + config.decoder_layers > len(stored):
        difference = f"it has {len(stored)} tensors, too few for so many layers"
    else:
        difference = _difference(stored, recipe, num_tokens, tree, folder / ENCODER)
    if difference:
        raise ArborvoxError(
            f"{path} does not fit {CONFIG} beside it ({difference}); "
            f"use the files of one checkpoint together."
        )


def _read_shapes(path: Path) -> dict[str, tuple[int, ...]]:
    """Read the sizes of a file's tensors, which must be weights."""
    try:
        with safe_open(path, framework="pt") as file:
            slices = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118
            shapes = {name: tuple(part.get_shape()) for name, part in slices.items()}
            types = {part.get_dtype() for part in slices.values()}
    except SafetensorError as error:
        raise ArborvoxError(f"{path} is not a safetensors file ({one_line(str(error))}).") from None
    if not types <= FLOAT_TYPES:
        raise ArborvoxError(f"{path} holds {', '.join(sorted(types - FLOAT_TYPES))}, no weights.")
    return shapes


def _difference(
    stored: Mapping[str, tuple[int, ...]],
    recipe: Recipe,
    num_tokens: int,
    tree: CodeTree | None,
    home: Path,
) -> str:
    """Say where the weights that a recipe asks for differ from those of a file; "" if nowhere."""
    try:
        with Undrawn(), torch.device("meta"):  # shapes without numbers
            model = ASR(recipe.model, recipe.features, num_tokens, tree, home)
    except (RuntimeError, OverflowError, TypeError):
        return "its sizes are beyond any memory"
    wanted = {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}
    for name in [*wanted, *stored]:
        if wanted.get(name) != stored.get(name):
            return f"{name} is {stored.get(name, 'missing')}, not {wanted.get(name, 'wanted')}"
    return ""


def _name_today(name: str, version: int) -> str:
    """Return what a tensor of a checkpoint of some version is called now."""
    for newest, names in RENAMED_SINCE.items():
        if version <= newest:
            name = names.get(name, name)
    return name


def _read_weights(folder: Path, version: int, device: torch.device | str) -> dict[str, Tensor]:
    tensors: dict[str, Tensor] = {}
    for path in _weight_files(folder):
        read = load_file(path, device=str(device))
        if broken := not_finite(read):
            raise ArborvoxError(
                f"{path} is of no use: {broken} holds NaN or infinite numbers, as a training that "
                f"diverged leaves them; take another checkpoint."
            )
        tensors |= {_name_today(name, version): tensor for name, tensor in read.items()}
    return tensors


def not_finite(tensors: Mapping[str, Tensor]) -> str | None:
    """Name the first tensor that holds NaN or infinite numbers."""
    for name, tensor in tensors.items():
        # A sum is finite only if all its terms are, and needs no memory; it may overflow, though.
        if not tensor.sum(dtype=torch.float32).isfinite() and not tensor.isfinite().all():
            return name
    return None
