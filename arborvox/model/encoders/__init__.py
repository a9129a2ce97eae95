"""Encoders by their name in the recipe, each with the input that it takes."""

from pathlib import Path

from arborvox.config import FeaturesConfig, ModelConfig
from arborvox.config.choices import EncoderKind
from arborvox.features import SpeechInput
from arborvox.model.encoders.conformer import Conformer
from arborvox.model.encoders.contract import EncoderStates, SpeechEncoder
from arborvox.model.encoders.pretrained import PretrainedEncoder
from arborvox.model.encoders.transformer import Transformer

ENCODERS: dict[EncoderKind, type[SpeechEncoder]] = {
    "conformer": Conformer,
    "transformer": Transformer,
    "pretrained": PretrainedEncoder,
}

__all__ = ["ENCODERS", "EncoderStates", "SpeechEncoder", "make_input"]


def make_input(
    config: ModelConfig, features: FeaturesConfig, home: Path | None = None
) -> SpeechInput:
    """Return what turns samples into frames for the recipe's encoder."""
    return ENCODERS[config.encoder].make_input(config, features, home)
