"""Keys and values that had another name: recipes are told the new one, checkpoints brought up.

When a key moves, raise the checkpoint's versions, make the new one `RECIPE_VERSION`, add a step.
"""

from typing import Any, TypeGuard

from arborvox.config.choices import InventoryUse, values_of
from arborvox.config.corpus import CORPUS_SECTIONS, DEFAULT_KIND

# The version of checkpoints since which they hold resolved recipes in today's shape.
RECIPE_VERSION = 2

# A recipe's old key → the new one; of a section that was dissolved, the one its keys went to.
RENAMED: dict[tuple[str, ...], tuple[str, ...]] = {
    ("features", "normalise"): ("features", "normalize"),
    ("corpus", "folder"): ("corpus",),
    ("corpus", "synthetic"): ("corpus",),
}

# By kind of corpus: what a value of `split` is called now.
RENAMED_SPLITS: dict[str, dict[str, str]] = {
    "common-voice": {"paper": "utterance"},
    "synthetic": {"paper": "utterance"},
    "folder": {"paper": "sentence"},
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


def new_value(kind: str | None, key: str, value: Any) -> str | None:
    """Return what a value of a corpus's key is called now, if it had another name."""
    return renamed_values(kind, key).get(value) if isinstance(value, str) else None


def renamed_values(kind: str | None, key: str) -> dict[str, str]:
    """Return the values of a corpus's key that had another name, by their old names."""
    return RENAMED_SPLITS.get(kind or "", {}) if key == "split" else {}


def migrate_recipe(data: dict[str, Any], version: int) -> dict[str, Any]:
    """Return a resolved recipe of an older version as this version writes it."""
    return _from_version_1(data) if version < RECIPE_VERSION else data


def _rename_splits(old: dict[str, Any]) -> dict[str, Any]:
    """The split `paper` was by sentence here and by utterance there."""
    kind = old.get("kind", DEFAULT_KIND)
    new = dict(old)
    if "split" in old:
        new["split"] = new_value(kind, "split", old["split"]) or old["split"]
    if kind == "folder" and new.get("split") == "speaker":
        new["split"] = "auto"  # it was by sentence where speakers were few, and the default
    if isinstance(more := old.get("more"), list):
        new["more"] = [_rename_splits(p) if _is_corpus(p) else p for p in more]
    return new


def _is_corpus(data: Any) -> TypeGuard[dict[str, Any]]:
    """Whether this can be brought up to date; whoever checks it says what else is wrong."""
    return isinstance(data, dict) and isinstance(data.get("kind", DEFAULT_KIND), str)


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
        corpus = _corpus_from_version_1(data["corpus"])
        data["corpus"] = _rename_splits(corpus) if _is_corpus(corpus) else corpus
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
