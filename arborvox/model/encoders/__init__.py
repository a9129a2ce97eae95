"""Encoders by their name in the recipe, each with the input that it takes."""

from pathlib import Path

from arborvox.config import FeaturesConfig, ModelConfig
from arborvox.config.choices import EncoderKind
from arborvox.features import SpeechInput
from arborvox.model.encoders.conformer import Conformer
from arborvox.model.encoders.contract import EncoderStates, SpeechEncoder
from arborvox.model.encoders.pretrained import PretrainedEncoder
from arborvox.model.encoders.pretrained.base_model import CONFIG
from arborvox.model.encoders.transformer import Transformer

ENCODERS: dict[EncoderKind, type[SpeechEncoder]] = {
    "conformer": Conformer,
    "transformer": Transformer,
    "pretrained": PretrainedEncoder,
}

__all__ = [
    "ENCODERS",
    "EncoderStates",
    "SpeechEncoder",
    "base_model_files",
    "is_frozen",
    "make_input",
]


def make_input(
    config: ModelConfig, features: FeaturesConfig, home: Path | None = None
) -> SpeechInput:
    """Return what turns samples into frames for the recipe's encoder."""
    return ENCODERS[config.encoder].make_input(config, features, home)


def is_frozen(config: ModelConfig) -> bool:
    """Say whether nothing of the encoder that others have trained is to learn."""
    return config.encoder == "pretrained" and config.freeze == "all"


def base_model_files(config: ModelConfig) -> dict[str, Path]:
    """Return what decides an encoder that others have trained, if it lies in a folder here."""
    if config.pretrained is None:
        return {}
    folder = Path(config.pretrained)
    files = [path for path in (folder / CONFIG, *folder.glob("*.safetensors")) if path.is_file()]
    return {f"the encoder's {path.name}": path for path in sorted(files)}
