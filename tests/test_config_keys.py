"""Every key that a recipe may have is read by the code that it is meant for, and is bounded."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin

import pytest
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from arborvox.config import (
    CORPUS_SECTIONS,
    Recipe,
    VariantConfig,
    load_recipe,
    put_on_pretrained,
)
from arborvox.config.idle_keys import READ_BESIDE, READ_WITH
from arborvox.corpora import PREPARERS
from arborvox.errors import ArborvoxError

PACKAGE = Path(__file__).parent.parent / "arborvox"
RECIPES = PACKAGE.parent / "recipes"
# What stands before the dot where a section's key is read, beside the section's own name.
CONFIG_NAMES = {"config", "_config", "recipe"}
SECTIONS = {
    name: field.annotation
    for name, field in Recipe.model_fields.items()
    if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel)
}
# Read by the section's own checks, or by a command's option, and by nobody else.
READ_BY_CHECKS = {
    ("ucla", "unit"),  # a corpus in `more` must have the same
    ("shards", "seed"),  # mixes what `arborvox prepare --shards` packs
    ("model", "size"),  # stands for other keys
}


@cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def _reads(path: Path) -> set[tuple[str, str]]:
    """List what a module reads as (name before the dot, attribute)."""
    found = set()
    for node in ast.walk(_tree(path)):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
            owner = node.value
            name = owner.attr if isinstance(owner, ast.Attribute) else getattr(owner, "id", "")
            found.add((name, node.attr))
    return found


def _module_path(module: str) -> Path | None:
    path = PACKAGE.parent / module.replace(".", "/")
    for candidate in (path.with_suffix(".py"), path / "__init__.py"):
        if candidate.is_file():
            return candidate
    return None


def _corpus_modules(module: str) -> Iterator[Path]:
    """Yield the files of arborvox.corpora that a preparer's module leads to, itself first."""
    seen, waiting = set(), [module]
    while waiting:
        name = waiting.pop()
        path = _module_path(name)
        if path is None or path in seen or path.parent != PACKAGE / "corpora":
            continue
        seen.add(path)
        yield path
        waiting += [
            node.module
            for node in ast.walk(_tree(path))
            if isinstance(node, ast.ImportFrom) and node.module
        ]


def _unread_of_corpus(kind: str, keys: set[str]) -> set[str]:
    preparer: Any = PREPARERS[kind].prepare  # type: ignore[index]
    paths = [PACKAGE / "corpora/__init__.py", *_corpus_modules(preparer.__module__)]
    read = {key for path in paths for owner, key in _reads(path) if owner == "config"}
    return {key for key in keys - read if (kind, key) not in READ_BY_CHECKS}


def _unread_of_section(name: str, keys: set[str]) -> set[str]:
    class_name = SECTIONS[name].__name__
    read = set()
    for path in PACKAGE.rglob("*.py"):
        if path.parent == PACKAGE / "config":
            continue
        reads = _reads(path)
        takes = class_name in path.read_text(encoding="utf-8")
        near = any(attribute in (name, f"{name}_config") for _, attribute in reads)
        for owner, attribute in reads:
            its_own = owner in (name, f"{name}_config")
            if its_own or ((takes or near) and owner in CONFIG_NAMES):
                read.add(attribute)
    return {key for key in keys - read if (name, key) not in READ_BY_CHECKS}


@pytest.mark.parametrize("kind", CORPUS_SECTIONS)
def test_every_key_of_a_corpus_kind_is_read_by_its_preparer(kind: str) -> None:
    assert not _unread_of_corpus(kind, set(CORPUS_SECTIONS[kind].model_fields))


@pytest.mark.parametrize("name", SECTIONS)
def test_every_key_of_a_section_is_read_by_somebody(name: str) -> None:
    assert not _unread_of_section(name, set(SECTIONS[name].model_fields))


def test_a_key_that_nothing_reads_is_found() -> None:
    """The two tests above can fail: keys of other kinds and of nobody are told apart."""
    assert _unread_of_corpus("ucla", {"hours", "split", "dev"}) == {"hours", "split"}
    assert _unread_of_corpus("folder", {"ratio", "test_languages", "language"}) == {
        "ratio",
        "test_languages",
    }
    assert _unread_of_section("train", {"bach_s", "batch_s"}) == {"bach_s"}


def test_every_section_of_a_recipe_and_every_key_of_a_variant_is_read() -> None:
    read = {key for path in PACKAGE.rglob("*.py") for _, key in _reads(path)}
    assert not set(Recipe.model_fields) - read
    readers = ("pipeline/variants.py", "pipeline/work_plan.py")
    variant_reads = set().union(*(_reads(PACKAGE / reader) for reader in readers))
    assert not set(VariantConfig.model_fields) - {key for _, key in variant_reads}


def _numbers(annotation: Any, notes: list[Any]) -> Iterator[list[Any]]:
    """Yield the constraints of each number in an annotation."""
    if get_origin(annotation) is Annotated:
        inner, *more = get_args(annotation)
        flat = [
            c for note in more for c in (note.metadata if isinstance(note, FieldInfo) else [note])
        ]
        yield from _numbers(inner, [*notes, *flat])
    elif annotation in (int, float):
        yield notes
    elif get_origin(annotation) is not None or get_args(annotation):
        for part in get_args(annotation):
            yield from _numbers(part, notes if part in (int, float) else [])


ALL_SECTIONS = {**SECTIONS, **CORPUS_SECTIONS, "variants": VariantConfig}


@pytest.mark.parametrize("name", ALL_SECTIONS)
def test_every_number_has_a_lower_and_an_upper_bound(name: str) -> None:
    for key, field in ALL_SECTIONS[name].model_fields.items():
        for notes in _numbers(field.annotation, list(field.metadata)):
            bounds = {type(note).__name__ for note in notes}
            assert bounds & {"Gt", "Ge"} and bounds & {"Lt", "Le"}, f"{name}.{key} has no bounds"


@pytest.mark.parametrize("kind", CORPUS_SECTIONS)
def test_every_corpus_key_explains_itself(kind: str) -> None:
    """Its description is the help of the option of `arborvox prepare`."""
    for key, field in CORPUS_SECTIONS[kind].model_fields.items():
        assert field.description or key in ("kind", "more"), key


@pytest.mark.parametrize("key", ["model.channels=32", "features.num_mels=40"])
def test_a_pretrained_encoder_has_no_keys_that_it_does_not_read(tmp_path: Path, key: str) -> None:
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text("model: {encoder: pretrained, pretrained: folder}\n")
    with pytest.raises(ArborvoxError, match="not read with a pretrained encoder"):
        load_recipe(recipe, [key])


def test_any_recipe_can_be_put_on_a_pretrained_encoder() -> None:
    for path in sorted(RECIPES.glob("*.yaml")):
        recipe = load_recipe(path, put_on_pretrained(path, "some/name"))
        assert recipe.model.pretrained == "some/name"


def test_what_stands_on_a_pretrained_encoder_suits_it_unless_the_recipe_was_made_for_one() -> None:
    own, made_for_one = RECIPES / "own.yaml", RECIPES / "trees_trial.yaml"
    model = load_recipe(own, put_on_pretrained(own, "some/name")).model
    assert (model.layers, model.stride, model.width) == ("upper", 2, 256)
    assert load_recipe(own).train.max_epochs == 30
    assert load_recipe(own, put_on_pretrained(own, "some/name")).train.max_epochs == 12
    as_written = load_recipe(made_for_one).model
    model = load_recipe(made_for_one, put_on_pretrained(made_for_one, "some/name")).model
    assert model == as_written.model_copy(update={"pretrained": "some/name"})


@pytest.mark.parametrize(
    ("text", "key"),
    [
        (
            "tokens: {unit: char, vocab_size: 300}",
            "tokens.vocab_size is read with tokens.unit",
        ),
        ("tokens: {unit: phone, graphemes: true}", "tokens.graphemes"),
        ("train: {optimizer: adam, weight_decay: 0.1}", "train.weight_decay"),
        ("augment: {noise_share: 0.9}", "augment.noise_share is read with augment.noise_folder"),
        ("augment: {reverb_share: 0.9}", "augment.reverb_share"),
        ("train: {init_outputs: false}", "train.init_outputs is read with train.init_from"),
    ],
)
def test_a_key_that_another_key_makes_idle_is_refused(tmp_path: Path, text: str, key: str) -> None:
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(f"name: idle\n{text}\n")
    with pytest.raises(ArborvoxError, match=f"line 2: {key}"):
        load_recipe(recipe)


def test_keys_that_are_read_are_not_refused(tmp_path: Path) -> None:
    """Also where a variant alone makes use of them."""
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(
        "tokens: {unit: char, vocab_size: 300}\nvariants: [{name: bpe, set: {tokens.unit: bpe}}]\n"
    )
    assert load_recipe(recipe).tokens.vocab_size == 300
    recipe.write_text("tokens: {unit: bpe, vocab_size: 300}\ntrain: {weight_decay: 0.1}\n")
    assert load_recipe(recipe).tokens.vocab_size == 300


def test_idle_keys_are_keys_of_their_sections() -> None:
    for (section, key), (other, _) in READ_WITH.items():
        assert {key, other} <= set(SECTIONS[section].model_fields)
    for (section, key), other in READ_BESIDE.items():
        assert {key, other} <= set(SECTIONS[section].model_fields)
