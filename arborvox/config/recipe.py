"""A whole experiment: all sections, the report, and the variants to compare."""

import re
from typing import Any

from pydantic import Field, field_validator, model_validator

from arborvox.config.choices import VariantRole
from arborvox.config.corpus import Corpus, FolderCorpus
from arborvox.config.decode import DecodeConfig
from arborvox.config.model import ModelConfig
from arborvox.config.section import Name, Section, Seed
from arborvox.config.speech import AugmentConfig, FeaturesConfig
from arborvox.config.train import TrainConfig
from arborvox.config.units import TokensConfig, TreeConfig


class ReportConfig(Section):
    """How certain the report's numbers are made, and how much it shows."""

    samples: int = Field(2000, gt=0, le=1_000_000)
    seed: Seed = 0
    examples: int = Field(6, ge=0, le=10_000)


class VariantConfig(Section):
    """One model of a comparison: a name, and what is set otherwise than in the rest."""

    name: Name
    label: Name | None = None
    set: dict[Name, Any] = Field(default_factory=dict, max_length=1000)
    # The variant that this one is measured against; the first one if none is named.
    against: Name | None = None
    # A pretrained model is trained for others to start from (`train.init_from: NAME`), not scored.
    role: VariantRole = "compare"

    @field_validator("name")
    @classmethod
    def _check_name(cls, name: str) -> str:
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]*", name):
            raise ValueError("a variant's name has a-z, 0-9, _ . - only; a label may be any text")
        return name


class Recipe(Section):
    """A whole experiment."""

    name: Name = "experiment"
    corpus: Corpus = FolderCorpus()
    tokens: TokensConfig = TokensConfig()
    tree: TreeConfig = TreeConfig()
    features: FeaturesConfig = FeaturesConfig()
    augment: AugmentConfig = AugmentConfig()
    model: ModelConfig = ModelConfig()
    train: TrainConfig = TrainConfig()
    decode: DecodeConfig = DecodeConfig()
    report: ReportConfig = ReportConfig()
    variants: tuple[VariantConfig, ...] = Field((), max_length=1000)

    @model_validator(mode="after")
    def _check_unread_features(self) -> "Recipe":
        if self.model.encoder == "pretrained":
            for key, field in FeaturesConfig.model_fields.items():
                if key != "cache" and getattr(self.features, key) != field.default:
                    raise ValueError(
                        f"features.{key} is not read with a pretrained encoder, which brings its "
                        "own input; leave it out"
                    )
        return self

    @model_validator(mode="after")
    def _check_pieces(self) -> "Recipe":
        if self.augment.piece_dropout and self.tokens.unit != "bpe":
            raise ValueError(
                f"augment.piece_dropout is read with tokens.unit: bpe, not {self.tokens.unit}"
            )
        return self

    @model_validator(mode="after")
    def _check_questions(self) -> "Recipe":
        for key in ("output", "ctc"):
            if getattr(self.model, key) == "tied" and self.tree.kind != "questions":
                raise ValueError(
                    f"model.{key} is tied, which needs tree.kind: questions, not {self.tree.kind}"
                )
        return self

    @model_validator(mode="after")
    def _check_learning_encoder(self) -> "Recipe":
        learns = self.model.encoder == "pretrained" and self.model.freeze != "all"
        for key in ("encoder_learning_rate", "freeze_steps"):
            if getattr(self.train, key) and not learns:
                raise ValueError(
                    f"train.{key} is read with a pretrained encoder that learns alone "
                    "(model.freeze: none, or a number of layers)"
                )
        return self
