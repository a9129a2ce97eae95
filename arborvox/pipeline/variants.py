"""The models of a comparison: the recipe once for each variant and seed."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from arborvox.config import Recipe, VariantConfig, load_recipe
from arborvox.config.loading import told_override
from arborvox.errors import ArborvoxError

# A trained model must not depend on how it is decoded, reported, or what it is compared with.
APART_FROM_TRAINING = ("variants=[]", "decode={}", "report={}")


@dataclass(frozen=True)
class RecipeSource:
    """A recipe file and the `--set` overrides that go with it."""

    path: Path
    overrides: tuple[str, ...]

    def load(self, *more: str) -> Recipe:
        """Load the recipe; later overrides win."""
        return load_recipe(self.path, (*self.overrides, *more))


@dataclass(frozen=True)
class Variant:
    """One model of a comparison."""

    config: VariantConfig
    source: RecipeSource

    @property
    def name(self) -> str:
        """How folders and other variants call it."""
        return self.config.name

    @property
    def label(self) -> str:
        """How tables call it."""
        return self.config.label or self.config.name

    def recipe(self, seed: int, *more: str) -> Recipe:
        """Return the recipe with what is set for this variant, and a seed if it sets none."""
        try:
            return self.source.load(f"train.seed={seed}", *self._overrides(), *more)
        except ArborvoxError as error:
            told = str(error)
            for override in self._overrides():  # nobody typed it with --set
                shown = told_override(override)
                told = told.replace(shown, shown.removeprefix("--"))
            raise ArborvoxError(f"{self.source.path}: variant {self.name}: {told}") from None

    def training_recipe(self, seed: int, init_from: Path | None) -> Recipe:
        """Return what the trainer gets, and what stands in the checkpoint."""
        start = json.dumps(str(init_from) if init_from else None)
        more = (*APART_FROM_TRAINING, f"train.init_from={start}")
        return self.recipe(seed, *more)

    def _overrides(self) -> list[str]:
        # JSON is YAML: values keep their types.
        pairs = self.config.set.items()
        return [f"{key}={json.dumps(value, ensure_ascii=False)}" for key, value in pairs]


def read_variants(path: Path, overrides: Sequence[str]) -> list[Variant]:
    """Return the variants of a recipe in its order; one without any is its own only variant."""
    source = RecipeSource(path, tuple(overrides))
    recipe = source.load()
    configs = recipe.variants or (VariantConfig(name="model", label=recipe.name),)
    names = [config.name.lower() for config in configs]  # folders, on disks that know no case
    for name in names:
        if names.count(name) > 1:
            raise ArborvoxError(f"{path}: two variants are called {name}; give each its own name.")
    if all(config.role == "pretrain" for config in configs):
        raise ArborvoxError(f"{path}: every variant is for pretraining, none is left to be scored.")
    scored = [config.name for config in configs if config.role == "compare"]
    labels = [config.label or config.name for config in configs if config.role == "compare"]
    for label in labels:
        if labels.count(label) > 1:
            raise ArborvoxError(f"{path}: two variants have the label {label}; tell them apart.")
    for config in configs:
        if config.role == "compare" and "train.seed" in config.set:
            raise ArborvoxError(
                f"{path}: variant {config.name} sets train.seed, but models that are compared get "
                "theirs from --seeds; only a variant with `role: pretrain` may set it."
            )
        others = [name for name in scored if name != config.name]
        if config.against is not None and config.against not in others:
            raise ArborvoxError(
                f"{path}: variant {config.name} cannot be measured against {config.against}; "
                f"other variants that are scored: {', '.join(others) or 'none'}."
            )
    return [Variant(config, source) for config in configs]


def order_by_need(needs: dict[str, set[str]]) -> list[str]:
    """Order variants so that each comes after those whose trained models it needs."""
    ordered: list[str] = []
    left = dict(needs)
    while left:
        ready = [name for name, wanted in left.items() if wanted <= set(ordered)]
        if not ready:
            raise ArborvoxError(
                f"The variants {' and '.join(left)} wait for each other's models; "
                "see tree.embedding_from and train.init_from."
            )
        ordered += ready
        left = {name: wanted for name, wanted in left.items() if name not in ready}
    return ordered
