"""Keys that had another name or place: recipes are told the new one, checkpoints are brought up.

Raise `RECIPE_VERSION` together with the checkpoint's version when a key moves, and add a step.
"""

from typing import Any

from arborvox.config.choices import InventoryUse, values_of
from arborvox.config.corpus import CORPUS_SECTIONS, DEFAULT_KIND

# The shape of resolved recipes as checkpoints hold them.
RECIPE_VERSION = 2

# A recipe's old key → the new one; of a section that was dissolved, the one its keys went to.
RENAMED: dict[tuple[str, ...], tuple[str, ...]] = {
    ("features", "normalise"): ("features", "normalize"),
    ("corpus", "folder"): ("corpus",),
    ("corpus", "synthetic"): ("corpus",),
}

# In version 1 every kind of corpus had all of these keys, whether it read them or not.
SHARED_IN_VERSION_1 = frozenset(
    "source languages test_languages unit split dev alpha ratio hours digits foreign check "
    "min_duration_s max_duration_s seed folder synthetic more".split()
)


def new_name(path: tuple[str, ...], value: Any) -> str | None:
    """Return what an old key is called now, if it is one; `value` is what it was given."""
    keys = tuple(part for part in path if part != "more" and not part.isdecimal())
    if keys not in RENAMED:
        return None
    new = ".".join((*path[: len(path) - 1], *RENAMED[keys][len(keys) - 1 :]))
    if isinstance(value, dict) and value:
        return ", ".join(f"{new}.{key}" for key in value)
    return new


def migrate_recipe(data: dict[str, Any], version: int) -> dict[str, Any]:
    """Return a resolved recipe of an older version as this version writes it."""
    return _from_version_1(data) if version < RECIPE_VERSION else data


def _from_version_1(data: dict[str, Any]) -> dict[str, Any]:
    """One spelling of `normalize`; `inventories` apart from a file named `inventory`.

    A corpus has only the keys of its kind, all on one level.
    """
    data = dict(data)
    if isinstance(features := data.get("features"), dict):
        data["features"] = {
            "normalize" if key == "normalise" else key: value for key, value in features.items()
        }
    decode = data.get("decode")
    if isinstance(decode, dict) and decode.get("inventory") in values_of(InventoryUse):
        data["decode"] = {**decode, "inventories": decode["inventory"], "inventory": None}
    if isinstance(data.get("corpus"), dict):
        data["corpus"] = _corpus_from_version_1(data["corpus"])
    return data


def _corpus_from_version_1(old: dict[str, Any]) -> dict[str, Any]:
    kind = old.get("kind", DEFAULT_KIND)
    if not isinstance(kind, str) or kind not in CORPUS_SECTIONS:
        return old  # whoever checks it says so
    inner = old.get(kind)
    flat = {**old, **inner} if isinstance(inner, dict) else dict(old)
    if kind == "ucla":
        flat["unit"] = "phones"  # whatever was written, the corpus has nothing else
    if kind in ("folder", "synthetic") and flat.get("split") == "official":
        del flat["split"]  # there was none to take
    if isinstance(more := flat.get("more"), list):
        flat["more"] = [_corpus_from_version_1(p) if isinstance(p, dict) else p for p in more]
    unread = SHARED_IN_VERSION_1 - set(CORPUS_SECTIONS[kind].model_fields)
    return {key: value for key, value in flat.items() if key not in unread}
