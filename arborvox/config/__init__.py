"""Recipes: frozen sections, every key known, every error naming the key and the file.

A recipe is a YAML file with some of the sections; what it leaves out keeps its default.
`load_recipe` reads one, applies `--set section.key=value`, and returns a `Recipe`.

The names below are imported when they are first used: the command line needs the choices alone.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from arborvox.config.corpus import (
        CORPUS_SECTIONS,
        CommonVoiceCorpus,
        CorpusConfig,
        FolderCorpus,
        OwnCorpus,
        ReleaseCorpus,
        ShardsCorpus,
        SyntheticCorpus,
        UclaCorpus,
    )
    from arborvox.config.decode import DecodeConfig
    from arborvox.config.loading import (
        load_recipe,
        load_resolved_recipe,
        make_corpus_config,
        show_recipe,
        validate_recipe,
    )
    from arborvox.config.model import MODEL_SIZES, ModelConfig
    from arborvox.config.on_pretrained import put_on_pretrained
    from arborvox.config.recipe import Recipe, ReportConfig, VariantConfig
    from arborvox.config.section import Section
    from arborvox.config.speech import AugmentConfig, FeaturesConfig
    from arborvox.config.train import TrainConfig
    from arborvox.config.units import TokensConfig, TreeConfig

_HOMES = {
    "CORPUS_SECTIONS": "corpus",
    "CommonVoiceCorpus": "corpus",
    "CorpusConfig": "corpus",
    "FolderCorpus": "corpus",
    "OwnCorpus": "corpus",
    "ReleaseCorpus": "corpus",
    "ShardsCorpus": "corpus",
    "SyntheticCorpus": "corpus",
    "UclaCorpus": "corpus",
    "DecodeConfig": "decode",
    "load_recipe": "loading",
    "load_resolved_recipe": "loading",
    "make_corpus_config": "loading",
    "show_recipe": "loading",
    "validate_recipe": "loading",
    "MODEL_SIZES": "model",
    "ModelConfig": "model",
    "put_on_pretrained": "on_pretrained",
    "Recipe": "recipe",
    "ReportConfig": "recipe",
    "VariantConfig": "recipe",
    "Section": "section",
    "AugmentConfig": "speech",
    "FeaturesConfig": "speech",
    "TrainConfig": "train",
    "TokensConfig": "units",
    "TreeConfig": "units",
}

__all__ = [
    "CORPUS_SECTIONS",
    "MODEL_SIZES",
    "AugmentConfig",
    "CommonVoiceCorpus",
    "CorpusConfig",
    "DecodeConfig",
    "FeaturesConfig",
    "FolderCorpus",
    "ModelConfig",
    "OwnCorpus",
    "Recipe",
    "ReleaseCorpus",
    "ReportConfig",
    "Section",
    "ShardsCorpus",
    "SyntheticCorpus",
    "TokensConfig",
    "TrainConfig",
    "TreeConfig",
    "UclaCorpus",
    "VariantConfig",
    "load_recipe",
    "load_resolved_recipe",
    "make_corpus_config",
    "put_on_pretrained",
    "show_recipe",
    "validate_recipe",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        from importlib import import_module

        return getattr(import_module(f"arborvox.config.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'arborvox.config' has no attribute {name!r}")
