"""Recipes from files: YAML in, bases and overrides applied, a checked `Recipe` out."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from arborvox.config.corpus import CorpusConfig
from arborvox.config.idle_keys import refuse_idle_keys
from arborvox.config.inheritance import Places, forget_below, merge_recipes
from arborvox.config.migration import migrate_recipe
from arborvox.config.mistakes import first_mistake
from arborvox.config.recipe import Recipe
from arborvox.errors import ArborvoxError, one_line
from arborvox.files import read_bounded
from arborvox.yaml12 import dump_yaml, key_lines, parse_yaml

MAX_BASES = 10
MAX_MIB = 1


def load_recipe(path: Path, overrides: Sequence[str] = ()) -> Recipe:
    """Read a recipe and its bases, apply `section.key=value` overrides, and validate the whole."""
    data, places = _read_with_bases(path, ())
    for override in overrides:
        key = _apply_override(data, override)
        forget_below(key, places)
        places[key] = told_override(override)
    recipe = validate_recipe(data, name=str(path), places=places)
    refuse_idle_keys(data, recipe, places, str(path))
    return recipe


def load_resolved_recipe(path: Path, version: int) -> Recipe:
    """Read the recipe that a checkpoint or run holds, as the given version wrote it.

    It may be a stranger's: it stands alone, without a base and without aliases.
    """
    data = _parse_sections(_read_text(path), path, aliases=False)
    return validate_recipe(migrate_recipe(data, version), name=str(path))


def told_override(override: str) -> str:
    """Return how messages call an override."""
    return f"--set {one_line(override, most=80)}"


def validate_recipe(data: dict[str, Any], name: str, places: Places | None = None) -> Recipe:
    """Check a plain mapping against the sections; the first mistake becomes one sentence."""
    try:
        # Through JSON, strict mode takes lists for tuples but still no text for numbers.
        return Recipe.model_validate_json(json.dumps(data))
    except ValidationError as error:
        raise ArborvoxError(first_mistake(error, name, places or {})) from None
    except TypeError as error:
        raise ArborvoxError(f"{name}: {error}.") from None


def make_corpus_config(data: dict[str, Any], places: Places | None = None) -> CorpusConfig:
    """Check the options of `arborvox prepare` as if they stood in a recipe's corpus section."""
    return validate_recipe({"corpus": data}, name="options", places=places).corpus


def show_recipe(recipe: Recipe) -> str:
    """Return the resolved whole as YAML that loads back to the same recipe."""
    return dump_yaml(recipe.model_dump(mode="json"))


def _read_with_bases(path: Path, above: tuple[Path, ...]) -> tuple[dict[str, Any], Places]:
    """Read a recipe over the one that it names as its base; `above` are those that led here."""
    text = _read_text(path)
    data = _parse_sections(text, path)
    places = {key: f"{path}, line {line}" for key, line in key_lines(text, str(path)).items()}
    if "base" not in data:
        return data, places
    named, place = data.pop("base"), places.pop(("base",))
    chain = (*above, path.resolve())
    base = _find_base(path, named, place)
    if base.resolve() in chain:
        raise ArborvoxError(f"{place}: {one_line(named)} is based on this recipe itself.")
    if len(chain) > MAX_BASES:
        raise ArborvoxError(f"{place}: more than {MAX_BASES} recipes are based on each other.")
    return merge_recipes(*_read_with_bases(base, chain), data, places)


def _find_base(path: Path, named: Any, place: str) -> Path:
    """Return the file that a recipe is based on: beside it, or in a folder below."""
    if not isinstance(named, str) or not named:
        raise ArborvoxError(f"{place}: base: name a recipe, such as common_voice.yaml.")
    base = path.parent / named
    try:
        near = base.resolve().is_relative_to(path.parent.resolve())
        found = base.is_file()
    except (OSError, RuntimeError) as error:  # a name that is too long, links in a circle
        raise ArborvoxError(f"{place}: base: {one_line(named)} ({one_line(str(error))}).") from None
    if not near:
        raise ArborvoxError(
            f"{place}: base: {one_line(named)} must lie beside the recipe or in a folder below."
        )
    if not found:
        raise ArborvoxError(f"{place}: base: there is no recipe {one_line(str(base))}.")
    return base


def _read_text(path: Path) -> str:
    if not path.exists():
        raise ArborvoxError(f"There is no recipe {path}.")
    return read_bounded(path, MAX_MIB)


def _parse_sections(text: str, path: Path, *, aliases: bool = True) -> dict[str, Any]:
    data = parse_yaml(text, name=str(path), aliases=aliases)
    if data is None:
        return {}
    if not isinstance(data, dict):
        raise ArborvoxError(f"{path}: a recipe is a mapping of sections, such as `train:`.")
    return data


def _apply_override(data: dict[str, Any], override: str) -> tuple[str, ...]:
    """Put one `a.b=value` into the mapping; return its key path."""
    dotted, equals, raw = override.partition("=")
    key = tuple(dotted.strip().split("."))
    if not equals or not all(key):
        raise ArborvoxError(f"{told_override(override)}: write it as section.key=value.")
    section = data
    for part in key[:-1]:
        inner = section.setdefault(part, {})
        if not isinstance(inner, dict):
            raise ArborvoxError(f"{told_override(override)}: {part} is a value, not a section.")
        section = inner
    section[key[-1]] = parse_yaml(raw, name=told_override(override))
    return key
