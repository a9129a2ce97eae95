"""Recipes from files: YAML in, overrides applied, a checked `Recipe` out."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from arborvox.config.corpus import CorpusConfig
from arborvox.config.decode import migrate_decode
from arborvox.config.mistakes import first_mistake
from arborvox.config.recipe import Recipe
from arborvox.errors import ArborvoxError
from arborvox.yaml12 import dump_yaml, key_lines, parse_yaml


def load_recipe(path: Path, overrides: Sequence[str] = (), *, saved: bool = False) -> Recipe:
    """Read a recipe, apply `section.key=value` overrides, and validate the whole.

    saved: Arborvox wrote it itself, so keys of earlier versions are translated, not refused.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise ArborvoxError(f"There is no recipe {path}.") from None
    except UnicodeDecodeError:
        raise ArborvoxError(f"{path} is not UTF-8 text.") from None
    data = parse_yaml(text, name=str(path))
    if data is None:
        data = {}
    if not isinstance(data, dict):
        raise ArborvoxError(f"{path}: a recipe is a mapping of sections, such as `train:`.")
    if saved and isinstance(data.get("decode"), dict):
        data["decode"] = migrate_decode(data["decode"])
    lines = {key: f"{path}, line {line}" for key, line in key_lines(text, str(path)).items()}
    for override in overrides:
        key = _apply_override(data, override)
        lines[key] = f"--set {override}"
    return validate_recipe(data, name=str(path), places=lines)


def validate_recipe(
    data: dict[str, Any], name: str, places: dict[tuple[str, ...], str] | None = None
) -> Recipe:
    """Check a plain mapping against the sections; the first mistake becomes one sentence."""
    try:
        # Through JSON, strict mode takes lists for tuples but still no text for numbers.
        return Recipe.model_validate_json(json.dumps(data))
    except ValidationError as error:
        raise ArborvoxError(first_mistake(error, name, places or {})) from None
    except TypeError as error:
        raise ArborvoxError(f"{name}: {error}.") from None


def make_corpus_config(data: dict[str, Any]) -> CorpusConfig:
    """Check the options of `arborvox prepare` as if they stood in a recipe's corpus section."""
    return validate_recipe({"corpus": data}, name="options").corpus


def show_recipe(recipe: Recipe) -> str:
    """Return the resolved whole as YAML that loads back to the same recipe."""
    return dump_yaml(recipe.model_dump(mode="json"))


def _apply_override(data: dict[str, Any], override: str) -> tuple[str, ...]:
    """Put one `a.b=value` into the mapping; return its key path."""
    dotted, equals, raw = override.partition("=")
    key = tuple(dotted.strip().split("."))
    if not equals or not all(key):
        raise ArborvoxError(f"--set {override}: write it as section.key=value.")
    section = data
    for part in key[:-1]:
        inner = section.setdefault(part, {})
        if not isinstance(inner, dict):
            raise ArborvoxError(f"--set {override}: {part} is a value, not a section.")
        section = inner
    section[key[-1]] = parse_yaml(raw, name=f"--set {override}")
    return key
