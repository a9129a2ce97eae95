"""Recipes: frozen sections, every key known, every error naming the key and the file.

A recipe is a YAML file with some of the sections below; what it leaves out keeps its default.
`load_recipe` reads one, applies `--set section.key=value`, and returns a `Recipe`.
"""

import difflib
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    field_validator,
    model_validator,
)

from arborvox.errors import ArborvoxError
from arborvox.yaml12 import dump_yaml, key_lines, parse_yaml


class Section(BaseModel):
    """What all sections share: no unknown key, no silent conversion, no change after loading."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class FolderConfig(Section):
    """How a folder or table of recordings is read (`corpus.kind: folder`)."""

    language: str | None = None
    audio_root: str | None = None
    audio_column: str = "path"
    text_column: str = "text"
    speaker_column: str = "speaker"
    language_column: str = "language"


class SyntheticConfig(Section):
    """What espeak-ng is asked to say (`corpus.kind: synthetic`)."""

    text: str | None = None
    sentences: int = Field(200, gt=0)
    speakers: int = Field(12, gt=0)
    # Without a text: names that are lined up in a sentence, by lot; [1] makes a corpus of words.
    names: tuple[Annotated[int, Field(gt=0)], ...] = Field((2, 3, 4), min_length=1)
    # Of a text: pieces of this many words, by lot, instead of whole sentences.
    words: tuple[Annotated[int, Field(gt=0)], ...] | None = Field(None, min_length=1)

    @model_validator(mode="after")
    def _check_words(self) -> "SyntheticConfig":
        if self.words is not None and self.text is None:
            raise ValueError("words are pieces of a text: give text, or names instead of words")
        return self


class CorpusConfig(Section):
    """Where the recordings are and how they become training, development and test sets."""

    kind: Literal["common-voice", "ucla", "folder", "synthetic"] = "folder"
    source: str | None = None
    languages: tuple[str, ...] | None = None
    test_languages: tuple[str, ...] | None = None
    unit: Literal["text", "phones"] = "text"
    split: Literal["speaker", "paper", "official"] = "speaker"
    dev: Literal["utterances", "languages"] = "utterances"
    alpha: float = Field(0.5, ge=0, le=1)
    ratio: float | None = Field(None, gt=0, le=1)
    hours: float | None = Field(None, gt=0)
    digits: Literal["keep", "drop", "reject"] = "reject"
    foreign: Literal["keep", "drop", "reject"] = "reject"
    check: Literal["auto", "headers", "decode"] = "auto"
    min_duration_s: float = Field(0.1, ge=0)
    max_duration_s: float = Field(30.0, gt=0)
    seed: int = Field(0, ge=0)
    folder: FolderConfig = FolderConfig()
    synthetic: SyntheticConfig = SyntheticConfig()
    # Corpora whose training parts are added; of a language kept for testing nothing is.
    more: tuple["CorpusConfig", ...] = ()

    @model_validator(mode="after")
    def _check_amount(self) -> "CorpusConfig":
        if self.ratio is not None and self.hours is not None:
            raise ValueError("give ratio or hours, not both")
        return self

    @model_validator(mode="after")
    def _check_more(self) -> "CorpusConfig":
        if any(part.more for part in self.more):
            raise ValueError("a corpus in `more` cannot have `more` itself")
        if any(part.unit != self.unit for part in self.more):
            raise ValueError(f"a corpus in `more` must have unit {self.unit}, as the first one")
        return self


class TokensConfig(Section):
    """Which units the model writes."""

    unit: Literal["char", "phone", "bpe"] = "char"
    vocab_size: int = Field(500, gt=2)
    graphemes: bool = False
    byte_fallback: bool = False
    language_tags: bool = False


class TreeConfig(Section):
    """How the code tree over the units is built."""

    kind: Literal["huffman", "balanced", "random", "shuffled", "embedding", "phonetic"] = "huffman"
    weighting: Literal["language", "pooled"] = "language"
    seed: int = Field(0, ge=0)
    embedding_from: str | None = None


class FeaturesConfig(Section):
    """Log-mel filter banks, as Kaldi computes them."""

    sampling_rate: int = Field(16000, gt=0)
    num_mels: int = Field(80, gt=0)
    window_s: float = Field(0.025, gt=0)
    shift_s: float = Field(0.010, gt=0)
    # corpus: by the training data's mean and deviation; utterance: less each one's own mean first.
    normalise: Literal["corpus", "utterance"] = "corpus"
    cache: str | None = None


class AugmentConfig(Section):
    """What is done to the training audio so that little of it goes a long way."""

    speeds: tuple[Annotated[float, Field(gt=0)], ...] = Field((0.9, 1.0, 1.1), min_length=1)
    frequency_masks: int = Field(2, ge=0)
    max_frequency_mask: int = Field(10, ge=0)
    time_masks: int = Field(2, ge=0)
    max_time_mask: int = Field(50, ge=0)
    max_time_share: float = Field(0.2, ge=0, le=1)
    noise_folder: str | None = None
    noise_share: float = Field(0.5, ge=0, le=1)
    snr_db: tuple[float, float] = (10.0, 30.0)
    reverb_folder: str | None = None
    reverb_share: float = Field(0.3, ge=0, le=1)


# What `model.size` stands for; keys written in the recipe win over these.
MODEL_SIZES: dict[str, dict[str, Any]] = {
    "tiny": {
        "width": 32, "heads": 2, "feed_forward": 64, "kernel": 7, "channels": 8,
        "encoder_layers": 2, "decoder_layers": 1,
    },
    "small": {
        "width": 192, "heads": 3, "feed_forward": 768, "kernel": 15, "channels": 64,
        "encoder_layers": 8, "decoder_layers": 3,
    },
    "paper": {
        "width": 256, "heads": 4, "feed_forward": 2048, "kernel": 15, "channels": 256,
        "encoder_layers": 12, "decoder_layers": 6,
    },
}  # fmt: skip


class ModelConfig(Section):
    """The network: encoder, decoder and output layers, each chosen by one key."""

    size: Literal["tiny", "small", "paper"] = "paper"
    encoder: Literal["conformer", "transformer"] = "conformer"
    decoder: Literal["transformer", "none"] = "transformer"
    output: Literal["softmax", "hierarchical"] = "hierarchical"
    ctc: Literal["softmax", "hierarchical"] = "softmax"
    width: int = Field(256, gt=0)
    heads: int = Field(4, gt=0)
    feed_forward: int = Field(2048, gt=0)
    kernel: int = Field(15, gt=0)
    channels: int = Field(256, gt=0)
    encoder_layers: int = Field(12, gt=0)
    decoder_layers: int = Field(6, ge=0)
    dropout: float = Field(0.1, ge=0, lt=1)
    label_smoothing: float = Field(0.1, ge=0, lt=1)
    smoothing: Literal["leaves", "gates"] = "leaves"
    ctc_weight: float = Field(0.3, ge=0, le=1)
    middle_ctc: float = Field(0.0, ge=0, lt=1)  # of CTC's part, what the middle layer is asked

    @model_validator(mode="before")
    @classmethod
    def _fill_size(cls, data: Any) -> Any:
        if isinstance(data, dict):
            without_decoder = {"decoder_layers": 0, "ctc_weight": 1.0}
            implied = without_decoder if data.get("decoder") == "none" else {}
            return {**MODEL_SIZES.get(data.get("size", "paper"), {}), **implied, **data}
        return data

    @model_validator(mode="after")
    def _check_sizes(self) -> "ModelConfig":
        if self.width % self.heads:
            raise ValueError(f"width {self.width} must be a multiple of heads {self.heads}")
        if self.kernel % 2 == 0:
            raise ValueError(f"kernel {self.kernel} must be odd")
        if self.width // self.heads % 2:
            raise ValueError(f"width {self.width} / heads {self.heads} must be even")
        if self.decoder == "none" and (self.decoder_layers > 0 or self.ctc_weight < 1):
            raise ValueError("without a decoder, decoder_layers must be 0 and ctc_weight 1")
        if self.decoder != "none" and (self.decoder_layers == 0 or self.ctc_weight == 1):
            raise ValueError(
                "a decoder needs decoder_layers above 0 and ctc_weight below 1; "
                "for CTC alone set decoder to none"
            )
        if self.middle_ctc > 0 and (self.ctc_weight == 0 or self.encoder_layers < 2):
            raise ValueError("middle_ctc needs ctc_weight above 0 and at least 2 encoder_layers")
        return self


class TrainConfig(Section):
    """The loop: batches, optimizer, schedule, checkpoints."""

    batch_s: float = Field(100.0, gt=0)  # padding included, over all processes together
    accumulate: int = Field(1, gt=0)
    max_epochs: int = Field(100, gt=0)
    max_steps: int | None = Field(None, gt=0)
    max_duration_s: float = Field(30.0, gt=0)
    language_temperature: float = Field(1.0, gt=0)
    duration_jitter: float = Field(0.03, ge=0, lt=1)  # mixes neighbours in length
    workers: int = Field(1, ge=0)
    optimizer: Literal["adam", "adamw"] = "adamw"
    schedule: Literal["warmup", "noam", "cosine"] = "warmup"
    learning_rate: float = Field(1e-3, gt=0)
    warmup_steps: int = Field(25000, ge=0)
    weight_decay: float = Field(0.01, ge=0)  # of adamw; adam has none
    clip: float = Field(5.0, gt=0)
    precision: Literal["auto", "bf16", "fp32"] = "auto"
    compile: bool = False
    evaluate_every: int | None = Field(None, gt=0)  # steps; as often as `save_every` if not set
    patience: int | None = Field(None, gt=0)  # evaluations without a gain before the end
    average_best: int = Field(5, gt=0)
    keep: int = Field(3, gt=0)
    save_every: int = Field(500, gt=0)
    init_from: str | None = None
    seed: int = Field(0, ge=0)


class DecodeConfig(Section):
    """How `arborvox run` lets the test set be recognised."""

    # auto: CTC and attention together where the model has both.
    mode: Literal[
        "auto", "ctc-greedy", "ctc-beam", "attention-greedy", "attention-beam", "joint", "rescoring"
    ] = "auto"
    beam: int = Field(10, gt=0)
    ctc_weight: float = Field(0.3, ge=0, le=1)
    lm: str | None = None
    lm_weight: float = Field(0.3, ge=0)
    length_bonus: float = 0.0
    # corpus: each language's own inventory of units, where the corpus has them; both: two tables.
    inventory: Literal["none", "corpus", "both"] = "none"


class ReportConfig(Section):
    """How certain the report's numbers are made, and how much it shows."""

    samples: int = Field(2000, gt=0)
    seed: int = Field(0, ge=0)
    examples: int = Field(6, ge=0)


class VariantConfig(Section):
    """One model of a comparison: a name, and what is set otherwise than in the rest."""

    name: str
    label: str | None = None
    set: dict[str, Any] = Field(default_factory=dict)
    # The variant that this one is measured against; the first one if none is named.
    against: str | None = None
    # A pretrained model is trained for others to start from (`train.init_from: NAME`), not scored.
    role: Literal["compare", "pretrain"] = "compare"

    @field_validator("name")
    @classmethod
    def _check_name(cls, name: str) -> str:
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]*", name):
            raise ValueError("a variant's name has a-z, 0-9, _ . - only; a label may be any text")
        return name


class Recipe(Section):
    """A whole experiment."""

    name: str = "experiment"
    corpus: CorpusConfig = CorpusConfig()
    tokens: TokensConfig = TokensConfig()
    tree: TreeConfig = TreeConfig()
    features: FeaturesConfig = FeaturesConfig()
    augment: AugmentConfig = AugmentConfig()
    model: ModelConfig = ModelConfig()
    train: TrainConfig = TrainConfig()
    decode: DecodeConfig = DecodeConfig()
    report: ReportConfig = ReportConfig()
    variants: tuple[VariantConfig, ...] = ()


def load_recipe(path: Path, overrides: Sequence[str] = ()) -> Recipe:
    """Read a recipe, apply `section.key=value` overrides, and validate the whole."""
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
        raise ArborvoxError(_first_mistake(error, name, places or {})) from None
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


def _first_mistake(error: ValidationError, name: str, places: dict[tuple[str, ...], str]) -> str:
    """Turn pydantic's first complaint into a sentence with key, place and nearest valid key."""
    details = error.errors(include_url=False)[0]
    location = tuple(str(part) for part in details["loc"])
    dotted = ".".join(location)
    place = name
    for length in range(len(location), 0, -1):
        if location[:length] in places:
            place = places[location[:length]]
            break
    if details["type"] == "extra_forbidden":
        close = _nearest_keys(location)
        hint = f"; did you mean {' or '.join(close)}?" if close else "."
        return f"{place}: unknown key {dotted}{hint}"
    value = details.get("input")
    told = "" if isinstance(value, dict) else f", not {json.dumps(value, ensure_ascii=False)}"
    message = details["msg"].removeprefix("Value error, ")
    return f"{place}: {dotted}: {message[0].lower() + message[1:]}{told}."


def _nearest_keys(location: tuple[str, ...]) -> list[str]:
    """Return the valid keys that look most like the unknown one, its own section first."""
    siblings = list(_section_at(location[:-1]).model_fields)
    close = difflib.get_close_matches(location[-1], siblings, n=1, cutoff=0.5)
    if close:
        return [".".join((*location[:-1], close[0]))]
    every = {dotted.rpartition(".")[2]: dotted for dotted in _all_keys(Recipe)}
    close = difflib.get_close_matches(location[-1], list(every), n=1, cutoff=0.75)
    return [every[match] for match in close]


def _section_at(path: tuple[str, ...]) -> type[BaseModel]:
    """Return the section class at a key path."""
    section: type[BaseModel] = Recipe
    for part in path:
        if part.isdecimal():  # the place in a list of sections
            continue
        inner = _section_type(section.model_fields[part].annotation)
        if inner is None:
            break
        section = inner
    return section


def _section_type(annotation: Any) -> type[BaseModel] | None:
    """Return the section class in an annotation, through optionals and tuples."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    if get_origin(annotation) is not None:
        for argument in get_args(annotation):
            inner = _section_type(argument)
            if inner is not None:
                return inner
    return None


def _all_keys(section: type[BaseModel], prefix: str = "") -> list[str]:
    """List every valid dotted key below a section."""
    keys = []
    for name, field in section.model_fields.items():
        inner = _section_type(field.annotation)
        deeper = inner is not section  # a corpus may hold more corpora
        keys += _all_keys(inner, f"{prefix}{name}.") if inner and deeper else [f"{prefix}{name}"]
    return keys
