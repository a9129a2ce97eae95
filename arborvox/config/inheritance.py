"""A recipe over its base: what it writes wins, what it leaves out is the base's.

Sections are merged key by key; a list is replaced, but variants are merged by their names: one of
the same name has its keys changed, a new one comes last. A corpus of another kind is replaced.
"""

from typing import Any

from arborvox.config.corpus import DEFAULT_KIND

# Key path → file and line, for messages.
Places = dict[tuple[str, ...], str]


def merge_recipes(
    base: dict[str, Any], base_places: Places, own: dict[str, Any], own_places: Places
) -> tuple[dict[str, Any], Places]:
    """Return the merged recipe, and where each of its keys was written."""
    places, moved = dict(base_places), dict(own_places)
    sections = {key: value for key, value in own.items() if key != "variants"}
    merged = _merge((), base, sections, places)
    if "variants" in own:
        variants = _merge_variants(base.get("variants"), own["variants"], places, moved)
        merged["variants"] = variants
    return merged, places | moved


def forget_below(path: tuple[str, ...], places: Places) -> None:
    """Take away the places of what stood at and below a key that is written anew."""
    for key in [key for key in places if key[: len(path)] == path]:
        del places[key]


def _merge(
    path: tuple[str, ...], base: dict[str, Any], own: dict[str, Any], places: Places
) -> dict[str, Any]:
    merged = dict(base)
    for key, value in own.items():
        inner = (*path, key)
        if _merges(inner, base.get(key), value):
            merged[key] = _merge(inner, base[key], value, places)
        else:
            forget_below(inner, places)
            merged[key] = value
    return merged


def _merges(path: tuple[str, ...], base: Any, own: Any) -> bool:
    """Whether two values are sections whose keys go together."""
    if not isinstance(base, dict) or not isinstance(own, dict):
        return False
    kind = base.get("kind", DEFAULT_KIND)
    return path[-1] != "corpus" or own.get("kind", kind) == kind


def _merge_variants(base: Any, own: Any, places: Places, own_places: Places) -> Any:
    """Change the variants that the base has, and add the others."""
    if not _are_named(base) or not _are_named(own):
        forget_below(("variants",), places)
        return own
    merged = list(base)
    left = {variant["name"]: number for number, variant in enumerate(base)}
    moved: Places = {}
    for number, variant in enumerate(own):
        target = left.pop(variant["name"], len(merged))
        if target < len(merged):
            merged[target] = _merge(("variants", str(target)), merged[target], variant, places)
        else:
            merged.append(variant)
        place = ("variants", str(number))
        for key in [key for key in own_places if key[:2] == place]:
            moved["variants", str(target), *key[2:]] = own_places.pop(key)
    own_places |= moved
    return merged


def _are_named(variants: Any) -> bool:
    return isinstance(variants, list) and all(
        isinstance(variant, dict) and isinstance(variant.get("name"), str) for variant in variants
    )
