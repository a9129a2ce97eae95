"""Keys that only one value of another key makes use of: written beside another, they are refused.

A recipe that says `unit: char, vocab_size: 300` means something that will not happen.
"""

from collections.abc import Mapping
from typing import Any

from arborvox.config.inheritance import Places
from arborvox.config.recipe import Recipe
from arborvox.errors import ArborvoxError

# key -> the key that decides, and with which of its values the first one is read.
READ_WITH: dict[tuple[str, str], tuple[str, str]] = {
    ("tokens", "vocab_size"): ("unit", "bpe"),
    ("tokens", "byte_fallback"): ("unit", "bpe"),
    ("tokens", "graphemes"): ("unit", "char"),
    ("train", "weight_decay"): ("optimizer", "adamw"),
}
# key -> the key without which it is not read.
READ_BESIDE: dict[tuple[str, str], str] = {
    ("augment", "noise_share"): "noise_folder",
    ("augment", "snr_db"): "noise_folder",
    ("augment", "reverb_share"): "reverb_folder",
    ("train", "init_outputs"): "init_from",
}


def refuse_idle_keys(data: Mapping[str, Any], recipe: Recipe, places: Places, name: str) -> None:
    """Raise for the first key of a recipe's text that nothing reads because of another key."""
    for (section, key), (other, value) in READ_WITH.items():
        chosen = getattr(getattr(recipe, section), other)
        if chosen != value and _written(data, recipe, section, key, other):
            _refuse(places, name, section, key, f"{section}.{other}: {value}, not {chosen}")
    for (section, key), other in READ_BESIDE.items():
        unset = getattr(getattr(recipe, section), other) is None
        if unset and _written(data, recipe, section, key, other):
            _refuse(places, name, section, key, f"{section}.{other}, which is not set")


def _written(data: Mapping[str, Any], recipe: Recipe, section: str, key: str, other: str) -> bool:
    """Say whether a recipe sets a key, and no variant decides otherwise about it.

    The default may be written out: `arborvox config show` does.
    """
    keys, values = data.get(section), getattr(recipe, section)
    decided_later = any(f"{section}.{other}" in variant.set for variant in recipe.variants)
    changed = getattr(values, key) != type(values).model_fields[key].default
    return isinstance(keys, dict) and key in keys and changed and not decided_later


def _refuse(places: Places, name: str, section: str, key: str, needed: str) -> None:
    place = places.get((section, key), name)
    raise ArborvoxError(f"{place}: {section}.{key} is read with {needed}; leave it out.")
