"""The model section: encoder, decoder and output layers."""

from typing import Annotated, Any

from pydantic import Field, ValidatorFunctionWrapHandler, field_validator, model_validator

from arborvox.config.choices import (
    DecoderKind,
    EncoderKind,
    FrozenPart,
    ModelSize,
    OutputKind,
    Quantized,
    Silence,
    Smoothing,
    StateChoice,
    TopKind,
    values_of,
)
from arborvox.config.section import Section

LayerNumber = Annotated[int, Field(ge=0, le=1000)]

# What an encoder that others have trained is asked, and no other.
PRETRAINED_KEYS = (
    "pretrained", "freeze", "layers", "silence", "quantize", "stride", "top",
    "layer_drop", "gradient_checkpointing",
)  # fmt: skip

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

    size: ModelSize = "paper"
    encoder: EncoderKind = "conformer"
    pretrained: str | None = None  # a folder as transformers saves it, or a name of the hub
    freeze: FrozenPart | LayerNumber = "all"  # or the lowest N layers
    # Whose states are read: 0 are those before the first layer.
    layers: StateChoice | Annotated[tuple[LayerNumber, ...], Field(max_length=1000)] = "mixture"
    silence: Silence = "none"  # as-taught: Whisper hears that of its 30 seconds, in summary
    quantize: Quantized = "none"  # of layers that do not learn: Whisper's, on a CPU in bf16
    stride: int = Field(1, gt=0, le=16)  # so many of its states are one of those on top
    top: TopKind = "conformer"  # of the encoder_layers on top of a pretrained one
    layer_drop: float = Field(0.0, ge=0, lt=1)  # of pretrained layers that learn
    gradient_checkpointing: bool = False  # compute them twice, to keep less in memory
    decoder: DecoderKind = "transformer"
    output: OutputKind = "hierarchical"
    ctc: OutputKind = "softmax"
    width: int = Field(256, gt=0, le=16_384)
    heads: int = Field(4, gt=0, le=1024)
    feed_forward: int = Field(2048, gt=0, le=65_536)
    kernel: int = Field(15, gt=0, le=1001)
    channels: int = Field(256, gt=0, le=16_384)
    encoder_layers: int = Field(12, ge=0, le=1000)
    decoder_layers: int = Field(6, ge=0, le=1000)
    dropout: float = Field(0.1, ge=0, lt=1)
    label_smoothing: float = Field(0.1, ge=0, lt=1)
    smoothing: Smoothing = "leaves"
    ctc_weight: float = Field(0.3, ge=0, le=1)
    middle_ctc: float = Field(0.0, ge=0, lt=1)  # of CTC's part, what the middle layer is asked

    @model_validator(mode="before")
    @classmethod
    def _fill_size(cls, data: Any) -> Any:
        if isinstance(data, dict):
            without_decoder = {"decoder_layers": 0, "ctc_weight": 1.0}
            implied = without_decoder if data.get("decoder") == "none" else {}
            size = data.get("size", "paper")
            known = MODEL_SIZES.get(size, {}) if isinstance(size, str) else {}
            if data.get("encoder") == "pretrained":
                implied = {**implied, "encoder_layers": 2}
                known = {key: value for key, value in known.items() if key != "channels"}
            return {**known, **implied, **data}
        return data

    @field_validator("freeze", mode="wrap")
    @classmethod
    def _read_freeze(cls, value: Any, check: ValidatorFunctionWrapHandler) -> Any:
        if value in ("all", "none") or (type(value) is int and value > 0):
            return check(value)
        raise ValueError("must be all, none, or how many of the lowest layers")

    @field_validator("layers", mode="wrap")
    @classmethod
    def _read_layers(cls, value: Any, check: ValidatorFunctionWrapHandler) -> Any:
        if value in values_of(StateChoice):
            return check(value)
        numbers = value if isinstance(value, (list, tuple)) else ()
        if numbers and all(type(number) is int and number >= 0 for number in numbers):
            return check(tuple(numbers))
        raise ValueError("must be last, upper, mixture, or a list of layers' numbers")

    @model_validator(mode="after")
    def _check_sizes(self) -> "ModelConfig":
        if self.encoder == "pretrained":
            if self.pretrained is None:
                raise ValueError("encoder: pretrained needs the key pretrained: a folder or name")
            if self.channels != type(self).model_fields["channels"].default:
                raise ValueError("channels is not read with a pretrained encoder; leave it out")
        else:
            fields = type(self).model_fields
            for key in PRETRAINED_KEYS:
                if getattr(self, key) != fields[key].default:
                    raise ValueError(f"{key} is read with encoder: pretrained alone")
            if self.encoder_layers == 0:
                raise ValueError("encoder_layers must be above 0, except on a pretrained encoder")
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
